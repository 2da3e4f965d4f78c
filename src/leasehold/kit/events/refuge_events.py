"""Copies of checkpoints off the box: where they go, what is there, what failed and what to do about it."""

from __future__ import annotations

from typing import Any, Dict

from leasehold.kit.tables.topics import HIGH
from leasehold.kit.text.units import ago, count, say_bytes

from .sentence import Event, Sentence, after, listed, number, whose

REMEDIES: Dict[str, str] = {
    "full": "free space there, or lower checkpoint.keep",
    "read_only": "attach it writable",
    "refused": "check the address, the keys and their rights",
    "unreachable": "is it attached, and does the network reach it?",
    "lying": "it does not hold what was written to it: use another refuge",
    "absent": "something else deletes files there: use a folder or bucket of its own",
    "torn": "the trainer rewrites it while it is read: write to a temporary name and rename, or keep two",
    "own_disk": "free room on the box's own disk",
}


def remedy_of(kind: Any) -> str:
    """Return what to do about a failed copy."""
    return REMEDIES.get(str(kind), "")


def say_state(facts: Any) -> str:
    """Name a state by its step, else by its id."""
    step = facts.get("step")
    return "step %d" % step if isinstance(step, int) else "state %s" % (facts.get("state") or "?")


def _opened(event: Event) -> str:
    places = [str(one) for one in listed(event, "places")]
    home = " and home pulls them while it is there" if event.get("home") else ""
    if not places:
        return "checkpoints leave this box only when home pulls them; home is no refuge while its machine sleeps"
    every = ago(number(event, "every_s"))
    return "checkpoints are copied to %s, each new one, at most every %s%s" % (", ".join(places), every, home)


def _copied(event: Event) -> str:
    size = say_bytes(number(event, "bytes"))
    return "%scheckpoint of %s is off the box: %s in %s, read back" % (
        whose(event), say_state(event), size, event.get("place"),
    )  # fmt: skip


def _failed(event: Event) -> str:
    line = "ALARM: %sno checkpoint can be copied to %s: %s" % (whose(event), event.get("place"), event.get("why"))
    remedy = remedy_of(event.get("class"))
    return "\n".join([line, *(["  hint: %s" % remedy] if remedy else [])])


def _failed_notice(event: Event) -> str:
    remedy = remedy_of(event.get("class"))
    return "Checkpoints do not leave the box (%s): %s%s" % (
        event.get("place"), event.get("why"), after(". Do: ", remedy),
    )  # fmt: skip


def _fenced(event: Event) -> str:
    to = after(" to ", event.get("box")) + after(", by ", event.get("home"))
    return "this run was given away%s (epoch %s): nothing more is published here, and its trainer is stopped" % (
        to, event.get("epoch"),
    )  # fmt: skip


SENTENCES: Dict[str, Sentence] = {
    "refuge_opened": Sentence(_opened),
    "refuge_copied": Sentence(_copied),
    "refuge_failed": Sentence(_failed, "refuge", HIGH, _failed_notice, "place"),
    "refuge_skipped": Sentence(lambda event: "no checkpoint leaves this box: %s" % event.get("why")),
    "refuge_fenced": Sentence(_fenced, "refuge", HIGH),
    "refuge_regained": Sentence(lambda event: "this run was given back to this box (epoch %s)" % event.get("epoch")),
    "refuge_pruned": Sentence(
        lambda event: (
            "%sdeleted %s in %s"
            % (whose(event), count(len(listed(event, "states")), "older checkpoint"), event.get("place"))
        )
    ),
}
