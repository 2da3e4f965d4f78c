"""Test the notification channels: from this home, or from a box, which may have no outbound network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from leasehold.errors import UserError
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.lifecycle.preflight.plan_inputs import profile_on
from leasehold.lifecycle.project.resolve import environment_of

from .notify import Channel, channels, chosen, resolved, shown


@dataclass(frozen=True)
class Tried:
    """The number of channels tested, and the errors by channel."""

    channels: int
    problems: tuple[str, ...]
    sender: str
    hint: str = ""


def try_channels(home: Home, word: str = "", box: str = "") -> Tried:
    """Send one notice to each channel, as a box would when a run has ended."""
    found = chosen(home, word)
    results = _from_box(home, found, box) if box else _from_home(_sends(found, "your home"))
    pairs = zip(found, results, strict=False)
    failed = tuple(f"{one['name']}, {shown(one)}: {result['problem']}" for one, result in pairs if result["problem"])
    hint = ""
    if box and len(failed) == len(found):
        hint = f"{box} may have no outbound network; `lease watch` here shows the events, and the box keeps trying"
    return Tried(len(found), failed, box or "here", hint)


def announce(home: Home, title: str, text: str, event: str) -> tuple[int, list[str]]:
    """Send a message from this home to every channel; return how many took it, and the errors by channel."""
    sent, problems = 0, []
    message = {"title": title, "text": text, "event": event, "run": "", "state": event, "priority": "high"}
    for one in channels(home):
        try:
            (result,) = _from_home([{"channel": resolved(one), "message": message}])
            problem = str(result["problem"])[:300]
        except UserError as error:
            problem = str(error)
        if problem:
            problems.append(f"{one['name']}, {shown(one)}: {problem}")
        sent += not problem
    return sent, problems


def _sends(found: list[Channel], sender: str) -> list[dict[str, Any]]:
    text = f"A test from lease notify test, sent from {sender}: this is how a box will tell you that a run has ended."
    what = {"title": "leasehold test", "text": text, "event": "test", "run": "", "state": "test", "priority": "default"}
    return [{"channel": resolved(one), "message": what} for one in found]


def _from_home(sends: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from leasehold.transport.parcel import run_door

    results: list[dict[str, Any]] = []
    for send in sends:
        said = run_door(["notice"], json.dumps({"sends": [send]}).encode("utf-8"), timeout_s=150.0)
        results += json.loads(said)["results"] if said else [{"problem": "the sender gave no result"}]
    return results


def _from_box(home: Home, found: list[Channel], name: str) -> list[dict[str, Any]]:
    box = box_called(home, name)
    platform = environment_of(profile_on(home, box))
    with box.connect() as engine:
        results = engine.checks.notices(_sends(found, name), platform)
    return [{"problem": str(result.get("problem", ""))[:300]} for result in results]
