"""State of a run whose journal cannot be read in full: one rule, for both ends.

The state that the caretaker last wrote to status.json replaces lines that cannot be read now; later events
are applied to it. `lease status` shows that same file, and so agrees with `lease pull`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple

from leasehold.kit.files.journal import Scan
from leasehold.kit.run.run_state import RunState, fold, state_from
from leasehold.kit.run.run_states import RUNNING, TERMINAL

_ENDS = ("run_finished", "run_failed", "run_stopped")


class Told(NamedTuple):
    """A run's state, which part of its journal cannot be read, and whether the state is therefore not proven."""

    run: RunState
    words: str
    unproven: bool


def retell(found: Scan, status: Mapping[str, Any], begun: bool) -> Told:
    """Fold what can be read; use status.json for what cannot."""
    known = status.get("seq")
    known = known if isinstance(known, int) and status.get("state") else 0
    newest = found.events[-1]["n"] if found.events else 0
    gone = missing(found.events)
    if not found.bad_lines and not gone and known <= newest:
        lost = not found.events and begun and known == 0
        return Told(fold(found.events), "journal.jsonl is missing or empty" if lost else "", lost)
    where = _where(found, known, newest)
    if not gone and known <= newest:
        return Told(fold(found.events), "%s; no event is missing" % where, False)
    if known >= max(gone, default=0):
        run = fold((event for event in found.events if event["n"] > known), into=state_from(status))
        instead = "for that the caretaker's status.json counts, written after event %d" % known
        return Told(run, "%s; %s" % (where, instead), False)
    run = fold(found.events)
    if gone and (run.state == "absent" or run.terminal and went_on(found.events)):
        run.state = RUNNING  # the line that opened or resumed it cannot be read
    ended = [event["n"] for event in found.events if event.get("k") in _ENDS]
    proven = run.state in TERMINAL and max(ended, default=0) > max(gone)
    rest = "the run's end comes after it" if proven else "nothing else says what stood there"
    return Told(run, "%s; %s" % (where, rest), not proven)


def went_on(events: List[Dict[str, Any]]) -> bool:
    """Return whether attempts were begun after the run's last end that can be read."""
    last = max((number for number, event in enumerate(events) if event.get("k") in _ENDS), default=len(events))
    return any(event.get("k") in ("attempt_starting", "attempt_started") for event in events[last:])


def missing(events: List[Dict[str, Any]]) -> List[int]:
    """List the event numbers missing up to the last event."""
    has = {event["n"] for event in events}
    return [number for number in range(1, max(has, default=0)) if number not in has]


def _where(found: Scan, known: int, newest: int) -> str:
    if found.bad_lines:
        lines = ", ".join(map(str, found.bad_lines[:5])) + (", …" if len(found.bad_lines) > 5 else "")
        return "journal.jsonl cannot be read in line %s" % lines
    if known > newest:
        return "journal.jsonl cannot be read after event %d" % newest
    return "journal.jsonl lacks events"
