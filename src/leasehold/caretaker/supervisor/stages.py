"""The chain of a cell: train, evaluate, seal; each only after the previous one truly succeeded.

Only an exit record and artifacts that were read release the next stage. What raises an alarm (time, silence, an
idle card) is checked elsewhere, releases nothing and stops nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from leasehold.caretaker.process.child_answer import Errand
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.run_state import EVALUATE, SEAL, TRAIN, CellState, RunState
from leasehold.kit.run.run_states import FINISHED

if TYPE_CHECKING:
    from leasehold.caretaker.status.wait_clear import Clearing

_SEAL_LIMIT_S = 6 * 3600.0  # a terabyte at 50 MB/s
_ENOUGH_CELLS = 3  # fewer predict nothing about the next
_FAST_SHARE = 0.5  # of the expected time: a cell that ends sooner has probably failed
_LISTED = 20


def stage_of(job: Dict[str, Any], cell: CellState) -> str:
    """Return the stage that a cell is due for."""
    if TRAIN not in cell.passed:
        return TRAIN
    if job.get(EVALUATE) and EVALUATE not in cell.passed:
        return EVALUATE
    return SEAL


class Chain:
    """Cells whose last attempt exited with 0, on their way to being finished."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self.folder = folder
        self.plan = plan
        self.note = note
        self.at_once_bytes = 0  # results no larger than this are read by this process, not by a child
        self._clearing: Optional[Clearing] = None
        self._errands: Dict[str, Errand] = {}

    def passed(self, name: str, cell: CellState) -> None:
        """Journal that a stage ended well, once; the next stage, if it is a command, is then pending."""
        self.note("stage_passed", cell=name, attempt=cell.attempt, stage=cell.stage)
        if stage_of(self.plan["job"], cell) == EVALUATE:
            self.note("cell_pending", cell=name, why="training ended well; its evaluation is next")

    def seal(self, name: str, cell: CellState, events: List[Dict[str, Any]], before_exec: Callable[[], None]) -> None:
        """Have the promised artifacts read and hashed; only then is the cell finished."""
        if not self.plan.get("patterns"):
            self._finish(name, cell, events)
            return
        if cell.sealed == cell.attempt:
            self._finish(name, cell, events)
            return
        if cell.occupied and self.clearing.waits(name):
            return
        found = self._read(name, before_exec)
        if found is None:
            return
        if "problem" not in found and not self._is_free(name, cell, found.get("occupied")):
            return  # without an answer, the processes there are unknown
        if found.get("ok"):
            facts = {key: found.get(key) for key in ("files", "bytes", "sha256", "from_before")}
            self.note("cell_sealed", cell=name, attempt=cell.attempt, **facts)
            return
        self._refuse(name, cell, found)

    def _read(self, name: str, before_exec: Callable[[], None]) -> Optional[Dict[str, Any]]:
        """Return what sealing found; None while it is under way."""
        if self.at_once_bytes and name not in self._errands:
            from leasehold.caretaker.artifacts.seal import (
                sealed,  # for small results, a child would cost more than the reading
            )

            found = sealed(self.folder, name, self.at_once_bytes)
            if found is not None:
                return found
        errand = self._errands.setdefault(name, Errand(_SEAL_LIMIT_S, before_exec))
        found = errand.step("seal", self.folder.address, name)
        if found is not None:
            del self._errands[name]
        return found

    @property
    def clearing(self) -> "Clearing":
        """What keeps others out of a cell's folders; most cells never need it."""
        if self._clearing is None:
            from leasehold.caretaker.status.wait_clear import Clearing

            self._clearing = Clearing(self.folder, self.plan, self.note)
        return self._clearing

    def _is_free(self, name: str, cell: CellState, present: Optional[Dict[str, Any]]) -> bool:
        """Return whether no process wrote among the results when they were read."""
        if present is None and not cell.occupied:
            return True
        return self.clearing.settle(name, cell, present or {"ours": [], "writes": []})

    def busy(self, name: str) -> bool:
        """Return whether a cell's artifacts are being read now."""
        return name in self._errands

    def end(self) -> None:
        """End what is under way because the run is to stop."""
        for errand in self._errands.values():
            errand.end()
        self._errands.clear()
        if self._clearing is not None:
            self._clearing.end()

    def _refuse(self, name: str, cell: CellState, found: Dict[str, Any]) -> None:
        """Fail a cell that exited with 0 but lacks what it promised, with the list."""
        lacking = [str(line) for line in found.get("lacking") or [found.get("problem")]]
        shown = "; ".join(lacking[:3]) + ("; and %d more" % (len(lacking) - 3) if len(lacking) > 3 else "")
        taken = cell.preempted == cell.attempt
        self.note(
            "failure_classed",
            cell=name,
            attempt=cell.attempt,
            stage=SEAL,
            **{"class": "preempted" if taken else "bug"},
            verdict="preempted" if taken else "incomplete",
            signs=[],
            why="it exited with 0, but not everything it promised is there: %s" % shown,
            evidence=lacking[:_LISTED],
            mark="",
        )

    def _finish(self, name: str, cell: CellState, events: List[Dict[str, Any]]) -> None:
        took_s, expected_s = trained_s(events, name), self._expected_s(events, name)
        if cell.fast is None and expected_s and took_s is not None and took_s < _FAST_SHARE * expected_s:
            self.note(
                "fast_finished",
                cell=name,
                attempt=cell.attempt,
                took_s=round(took_s, 1),
                expected_s=round(expected_s, 1),
            )
        self.note("cell_finished", cell=name, attempt=cell.attempt)

    def _expected_s(self, events: List[Dict[str, Any]], name: str) -> float:
        """Return the job's own estimate, else the time that finished cells predict for one of this cost."""
        said = float(self.plan["job"].get("expect_s") or 0.0)
        if said:
            return said
        done = [str(event.get("cell")) for event in events if event.get("k") == "cell_finished"]
        costs = {cell["name"]: float(cell.get("cost") or 1.0) for cell in self.plan["job"].get("cells") or []}
        took = ((cell, trained_s(events, cell)) for cell in done if cell != name)
        rates = sorted(seconds / costs.get(cell, 1.0) for cell, seconds in took if seconds is not None)
        return rates[len(rates) // 2] * costs.get(name, 1.0) if len(rates) >= _ENOUGH_CELLS else 0.0


def trained_s(events: List[Dict[str, Any]], name: str) -> Optional[float]:
    """Add up how long a cell's training ran, by its keepers' own clocks; None when one of them is unknown."""
    total = 0.0
    stages = {}
    for event in events:
        if event.get("cell") != name:
            continue
        if event.get("k") == "attempt_starting":
            stages[event.get("attempt")] = event.get("stage", TRAIN)
        elif event.get("k") == "attempt_ended" and stages.get(event.get("attempt")) == TRAIN:
            if not isinstance(event.get("ran_s"), (int, float)):
                return None
            total += float(event["ran_s"])
    return total


def all_finished(run: RunState) -> bool:
    """Return whether every cell went down the whole chain."""
    return all(cell.state == FINISHED for cell in run.cells.values())
