"""The last notice of a run: how it ended, why, what was done about it, the cost per hour and the next command."""

from __future__ import annotations

from typing import Iterable, List, Optional

from leasehold.kit.run.continued import is_setback, say_began
from leasehold.kit.run.run_state import RunState
from leasehold.kit.run.run_states import FINISHED
from leasehold.kit.text.units import ago

from .failure_events import classed_notice, remedy_notice
from .sentence import Event
from .table import shortened


def final_words(events: Iterable[Event], run: RunState, wishes: Event, idle_s: float = 0.0) -> str:
    """Describe how a run ended, what the box costs and which command comes next."""
    name = str(wishes.get("run", ""))
    ended = "%s %s ago" % (run.state, ago(idle_s)) if idle_s >= 60 else "just %s" % run.state
    reason = " (%s)" % shortened(run.reason) if run.reason else ""
    said = ["%s %s%s." % (wishes.get("label") or name, ended, reason)]
    said += [line for line in _verdict(events, run.reason) if run.state != FINISHED]
    said += ["%s." % line for line in _setbacks(run)]
    price = wishes.get("price")
    if not wishes.get("free"):
        said.append("The box still bills %s." % price if price else "The box may still bill.")
    todo = "lease logs %s; the same lease run resumes it" % name
    if run.state == FINISHED:
        todo = "lease pull %s" % name + ("" if wishes.get("free") else ", then lease down %s" % name)
    return " ".join([*said, "Next: " + todo])


def _setbacks(run: RunState) -> List[str]:
    """Name the attempt that started over and lost progress; for many cells, count the others."""
    found = [say_began(one) for cell in run.cells.values() for one in cell.began if is_setback(one)]
    others = ["so did %d others" % (len(found) - 1)] if len(found) > 1 else []
    return [found[-1][:1].upper() + found[-1][1:], *others] if found else []


def _verdict(events: Iterable[Event], reason: str) -> List[str]:
    """Return the last class and remedy since a person last resumed the run, without what the reason already states."""
    classed: Optional[Event] = None
    remedy: Optional[Event] = None
    for event in events:
        kind = event.get("k")
        if kind in ("resumed", "attempt_started"):
            classed = remedy = None
        elif kind == "failure_classed":
            classed = event
        elif kind == "remedy_chosen":
            remedy = event
    if classed and str(classed.get("why") or "-") in reason:
        classed = {**classed, "why": "", "evidence": []}
    said = [classed_notice(classed) + "."] if classed else []
    return said + [remedy_notice(remedy) + "."] if remedy else said
