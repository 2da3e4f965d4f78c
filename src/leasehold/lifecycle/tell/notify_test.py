"""Test the notification channels: from this home, or from a box, which may have no outbound network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.lifecycle.preflight.plan_inputs import profile_on
from leasehold.lifecycle.project.resolve import environment_of

from .announce import send_from_home
from .notify import Channel, chosen, resolved, shown


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
    results = _from_box(home, found, box) if box else send_from_home(_sends(found, "your home"))
    pairs = zip(found, results, strict=False)
    failed = tuple(f"{one['name']}, {shown(one)}: {result['problem']}" for one, result in pairs if result["problem"])
    hint = ""
    if box and len(failed) == len(found):
        hint = f"{box} may have no outbound network; `lease watch` here shows the events, and the box keeps trying"
    return Tried(len(found), failed, box or "here", hint)


def _sends(found: list[Channel], sender: str) -> list[dict[str, Any]]:
    text = f"A test from lease notify test, sent from {sender}: this is how a box will tell you that a run has ended."
    what = {"title": "leasehold test", "text": text, "event": "test", "run": "", "state": "test", "priority": "default"}
    return [{"channel": resolved(one), "message": what} for one in found]


def _from_box(home: Home, found: list[Channel], name: str) -> list[dict[str, Any]]:
    box = box_called(home, name)
    platform = environment_of(profile_on(home, box))
    with box.connect() as engine:
        results = engine.checks.notices(_sends(found, name), platform)
    return [{"problem": str(result.get("problem", ""))[:300]} for result in results]
