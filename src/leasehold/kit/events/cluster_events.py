"""Cells that join or leave a run, and the reasons that Slurm gives."""

from __future__ import annotations

from typing import Dict

from leasehold.kit.run.run_state import RunState
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import count

from .sentence import Event, Sentence, after, listed, some

_WAITS_CHARS = 400


def _names(event: Event) -> str:
    cells = listed(event, "cells")
    return "%s: %s" % (count(len(cells), "cell"), some(cells, 5))


def _seen(event: Event) -> str:
    tasks = event.get("tasks") or {}
    state = str(event.get("state", "")).lower().replace("_", " ")
    which = next(iter(tasks), "") if len(tasks) == 1 else count(len(tasks), "cell")
    return "Slurm: %s %s%s" % (which, state, after(": ", event.get("why")))


def _submitted(event: Event) -> str:
    said = "submitted %s cells to Slurm as job array %s" % (event.get("count"), event.get("job"))
    return said + after(", to begin ", event.get("after"))


def _lent(event: Event) -> str:
    cores, cards = event.get("cores"), event.get("cards")
    has = "%s core%s" % (cores, "" if cores == 1 else "s") + (
        ", %s GPU%s" % (cards, "s" * (cards != 1)) if cards else ""
    )
    said = (event.get("cell"), has, event.get("node"), event.get("task"))
    return "%s: Slurm allocated %s on %s (task %s)" % said


def in_queue(waiting: int, of: int, why: str) -> str:
    """Report how many cells wait in Slurm's queue, and why."""
    many = "%d of %d cells wait" % (waiting, of) if of > 1 else "it waits"
    return "%s in Slurm's queue: %s" % (many, why)


def say_waits(state: RunState) -> str:
    """Return one line on why cells of a run wait, if the cluster gives a reason; empty if none wait."""
    waiting = [cell.waits for cell in state.cells.values() if cell.state == "pending" and cell.waits]
    if not waiting or state.terminal:
        return ""
    return one_line(in_queue(len(waiting), len(state.cells), waiting[0]))[:_WAITS_CHARS]


SENTENCES: Dict[str, Sentence] = {
    "submitted": Sentence(_submitted),
    "task_lent": Sentence(_lent),
    "tasks_seen": Sentence(_seen),
    "cells_added": Sentence(lambda event: "added %s" % _names(event)),
    "cells_given": Sentence(lambda event: "assigned %s to this box" % count(len(event.get("given") or {}), "cell")),
    "cells_withdrawn": Sentence(lambda event: "withdrawing %s" % _names(event)),
    "cells_released": Sentence(lambda event: "released %s" % _names(event)),
}
