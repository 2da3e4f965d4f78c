"""What a home sends along with a start and the box writes down: private values, budget, handbook, mended promises."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

from leasehold.kit.atomic import read_json, write_atomic, write_json

from .layout import RunFolder
from .serve import Request


def keep_private(request: Request, folder: RunFolder, platform: Any) -> None:
    """Write secret values and notice channels where only this user can read them; they came by wire, not by argv.

    What home says of the platform comes first: it names the tier on which they may lie. What home asks of the gate
    after set-up is kept too: nobody at home may be there to ask when it is due.
    """
    before = (folder.secrets, folder.notify)
    if isinstance(platform, dict) and platform != folder.platform():
        write_json(folder.environment, platform)
    for path in set(before) - {folder.secrets, folder.notify}:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if isinstance(request.args.get("gate"), dict):
        write_json(folder.gate, request.args["gate"])
    for name, path in (("secrets", folder.secrets), ("notify", folder.notify)):
        values = request.args.get(name)
        if not isinstance(values, dict) or not values:
            continue
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.chmod(os.path.dirname(path), 0o700)
        write_atomic(path, json.dumps(values).encode("utf-8"), mode=0o600)
    if os.path.exists(folder.hush):
        os.unlink(folder.hush)


def keep_budget(request: Request, folder: RunFolder) -> None:
    """Write down what the run may cost, dated by this box's clock; an empty one takes an earlier one back."""
    value = request.args.get("budget")
    if isinstance(value, dict) and value:
        write_json(folder.budget, dict(value, as_of_unix=round(time.time(), 3)))
    elif isinstance(value, dict) and os.path.exists(folder.budget):
        os.unlink(folder.budget)


def keep_handbook(request: Request, folder: RunFolder) -> None:
    """Write down what home knows for the handbook; it is no part of the plan, since two homes may differ in it."""
    if isinstance(request.args.get("handbook"), dict):
        write_json(folder.handbook_facts, request.args["handbook"])


def keep_promises(folder: RunFolder, patterns: Any) -> None:
    """Write down what must be there at the end, where a person has mended it since the plan was made."""
    planned = (read_json(folder.plan) or {}).get("patterns")
    kept = (read_json(folder.promises) or {}).get("patterns", planned)
    if isinstance(patterns, list) and patterns and patterns != kept:
        write_json(folder.promises, {"patterns": [str(pattern) for pattern in patterns]})
