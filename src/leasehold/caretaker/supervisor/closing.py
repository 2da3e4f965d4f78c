"""How a run ends once its cells have: finished, failed or stopped, with its last checkpoints off the box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.run_states import FAILED, FINISHED

from .attempts import reasons
from .lazy_parts import is_made
from .stages import all_finished

if TYPE_CHECKING:
    from .caretaker import Caretaker

_WHY = {"budget": "its budget is used up"}


def close(caretaker: Caretaker) -> None:
    """End the run, if its cells have."""
    run = caretaker.run
    open_cells = [cell for cell in run.cells.values() if cell.state not in (FINISHED, FAILED)]
    if run.state == "stopping" and not all_finished(run):
        if any(cell.state == "ended" and caretaker.went_well(cell) and not cell.occupied for cell in open_cells):
            return  # it used its grace to end well: its results are being sealed
        if not _copied(caretaker):
            return
        caretaker.chain.end()
        caretaker.recovery.end()
        caretaker.note("run_stopped", **_stopped_by(caretaker))
    elif open_cells:
        return
    elif all_finished(run):
        _close_finished(caretaker)
    elif _copied(caretaker):
        caretaker.note("run_failed", reason=reasons(run))


def _stopped_by(caretaker: Caretaker) -> Dict[str, Any]:
    by = (read_json(caretaker.folder.stop) or {}).get("by")
    fenced = caretaker.run.fenced
    if not fenced:
        return {"reason": _WHY.get(str(by), "stopped on request")}
    where = " (%s)" % fenced["box"] if fenced.get("box") else ""
    reason = "superseded: epoch %s of the run belongs to another box%s" % (fenced.get("epoch"), where)
    return {"reason": reason, "cause": "superseded"}


def _copied(caretaker: Caretaker) -> bool:
    """Return whether the last checkpoints are off the box, or nobody copies them."""
    if not is_made(caretaker, "refuge"):
        return True
    return caretaker.refuge.settle(caretaker.run, caretaker.signals.clear)


def _close_finished(caretaker: Caretaker) -> None:
    """End the run after training; it is finished when its results also lie where they outlive the box."""
    if not caretaker.has_data():  # a run without cells only downloads
        return
    if is_made(caretaker, "refuge"):
        caretaker.refuge.end()  # the results are what counts now
    if _made_durable(caretaker) and _published(caretaker):
        caretaker.note("run_finished")


def _made_durable(caretaker: Caretaker) -> bool:
    """Return whether the results lie on the durable tier, or no copy is made; a failure ends the run here."""
    if not caretaker.folder.platform().get("durable"):
        return True
    if caretaker.run.state == "stopping" and caretaker.copy.under_way:
        caretaker.copy.end()
        caretaker.note("run_stopped", reason="stopped before its results were on the durable tier")
        return False
    if not caretaker.copy.step(caretaker.signals.clear):
        return False
    if caretaker.copy.problem:
        caretaker.note("run_failed", reason=caretaker.copy.problem, cause="durable")
    return not caretaker.copy.problem


def _published(caretaker: Caretaker) -> bool:
    """Return whether publishing is over, or nothing is to be published."""
    if not caretaker.plan["job"].get("publish"):
        return True
    if caretaker.run.state == "stopping":
        if caretaker.publication.under_way:
            caretaker.publication.end()
            caretaker.note("publish_failed", to=caretaker.publication.to, why="the run was stopped meanwhile")
        return True
    return caretaker.publication.step(caretaker.signals.clear)
