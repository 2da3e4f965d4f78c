"""Send a message from this home to every channel."""

from __future__ import annotations

import json
from typing import Any

from leasehold.errors import UserError
from leasehold.lifecycle.home.home import Home

from .notify import channels, resolved, shown


def announce(home: Home, title: str, text: str, event: str) -> tuple[int, list[str]]:
    """Send a message from this home to every channel; return how many took it, and the errors by channel."""
    sent, problems = 0, []
    message = {"title": title, "text": text, "event": event, "run": "", "state": event, "priority": "high"}
    for one in channels(home):
        try:
            (result,) = send_from_home([{"channel": resolved(one), "message": message}])
            problem = str(result["problem"])[:300]
        except UserError as error:
            problem = str(error)
        if problem:
            problems.append(f"{one['name']}, {shown(one)}: {problem}")
        sent += not problem
    return sent, problems


def send_from_home(sends: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from leasehold.transport.parcel import run_door

    results: list[dict[str, Any]] = []
    for send in sends:
        said = run_door(["notice"], json.dumps({"sends": [send]}).encode("utf-8"), timeout_s=150.0)
        results += json.loads(said)["results"] if said else [{"problem": "the sender gave no result"}]
    return results
