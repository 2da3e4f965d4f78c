"""Follow a failed attempt: judge it in a child, classify it, choose and apply one remedy; each step is an event.

Its memory is the journal: the successor of a caretaker that died between two steps does the next.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict

from leasehold.caretaker.failure import disk_gate
from leasehold.caretaker.process.child_answer import Errand
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.failure import remedies
from leasehold.kit.run.continued import SAME_AGAIN
from leasehold.kit.run.run_state import CellState

from .attempts import failure

_JUDGE_LIMIT_S = 60.0
_PRUNE_LIMIT_S = 600.0


class Recovery:
    """Failed attempts on their way to the next one, or to the end."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self.folder = folder
        self.plan = plan
        self.note = note
        self.left_s: Callable[[], float] = lambda: 0.0  # how long a preempted box may go on to exist
        self._errands: Dict[str, Errand] = {}
        self._due: Dict[str, float] = {}  # cell -> monotonic time at which its wait is over

    def step(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> None:
        """Do the next step for a cell whose attempt has failed."""
        if cell.refused:
            self.note("cell_failed", cell=name, attempt=cell.attempt, why=failure(cell))
        elif cell.classed != cell.attempt:
            self._class(name, cell, before_exec)
        elif cell.remedied != cell.attempt:
            self._choose(name, cell)
        elif cell.remedy == remedies.PRUNE and cell.pruned != cell.attempt:
            self._prune(name, cell, before_exec)
        elif cell.remedy in remedies.GOES_ON:
            self.note("cell_pending", cell=name, why=_going_on(cell))
        else:
            self.note("cell_failed", cell=name, attempt=cell.attempt, why=self._given_up(name, cell))

    def waits_s(self, name: str, cell: CellState) -> float:
        """Return how long the next attempt must still wait; a clock that was set cannot lengthen it."""
        if not cell.wait_s:
            return 0.0
        if name not in self._due and cell.verdict == "preempted":
            return 0.0  # the box was preempted, and somebody started us on it since: it lives
        if name not in self._due:
            left_s = min(max(0.0, cell.remedied_unix + cell.wait_s - time.time()), cell.wait_s)
            self._due[name] = time.monotonic() + left_s
        return max(0.0, self._due[name] - time.monotonic())

    def at_once(self, name: str) -> None:
        """Let a cell's next attempt begin now: its wait is over."""
        self._due[name] = 0.0

    def end(self) -> None:
        """End what is under way because the run is to stop."""
        for errand in self._errands.values():
            errand.end()
        self._errands.clear()

    def _class(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> None:
        errand = self._errands.setdefault(name, Errand(_JUDGE_LIMIT_S, before_exec))
        found = errand.step("judge", self.folder.address, name, str(cell.attempt))
        if found is None:
            return
        del self._errands[name]
        if "problem" in found:
            found = _unjudged(cell, str(found["problem"]))
        self.note("failure_classed", cell=name, attempt=cell.attempt, stage=cell.stage, **found)

    def _choose(self, name: str, cell: CellState) -> None:
        ended = remedies.Ended(
            klass=cell.klass,
            verdict=cell.verdict,
            tries=cell.tries,
            most=int(self.plan["attempts"]),
            repeats=cell.repeats,
            saved=cell.saved,
            scratch=bool(self.plan["job"].get("scratch")),
            grace_s=self.left_s(),
            cluster=self.plan.get("engine") == "slurm",
        )
        chosen = remedies.choose(ended)
        self._due.pop(name, None)
        facts: Dict[str, Any] = {"remedy": chosen.remedy, "why": chosen.why, "wait_s": round(chosen.wait_s, 1)}
        if chosen.fresh:
            facts["fresh"] = True
        self.note("remedy_chosen", cell=name, attempt=cell.attempt, **facts)
        self._due[name] = time.monotonic() + chosen.wait_s

    def _prune(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> None:
        errand = self._errands.setdefault(name, Errand(_PRUNE_LIMIT_S, before_exec))
        found = errand.step("prune-scratch", self.folder.address, name)
        if found is None:
            return
        del self._errands[name]
        self.note("scratch_pruned", cell=name, attempt=cell.attempt, **found)

    def _given_up(self, name: str, cell: CellState) -> str:
        said = "%s; %s: %s" % (failure(cell), cell.klass.replace("_", "-"), cell.because)
        if cell.verdict == "oom" and self.plan.get("engine") == "kubernetes":
            return said + "; raise kubernetes.memory and run it again"
        if cell.verdict == "oom" and self.plan.get("engine") == "slurm":
            asked = os.environ.get("SLURM_MEM_PER_NODE")
            return said + "; raise slurm.mem%s and run it again" % (", now %s MiB," % asked if asked else "")
        if cell.remedy == remedies.RENT_AGAIN:
            on_slurm = self.plan.get("engine") == "slurm"
            return "%s; %s" % (said, remedies.leaving(on_slurm, self.folder.run))
        if cell.remedy == remedies.ASK:
            return "%s; %s" % (said, disk_gate.say_need(self.folder, self.plan, name, cell.largest_bytes))
        return said


def _going_on(cell: CellState) -> str:
    how = "exit unknown" if cell.lost else "ended by signal %s" % cell.signal
    how = "exited with code %s" % cell.code if cell.signal is None and not cell.lost else how
    wait = " in %g s" % cell.wait_s if cell.wait_s else ""
    return "%s; %s%s" % (how, SAME_AGAIN, wait)


def _unjudged(cell: CellState, problem: str) -> Dict[str, Any]:
    """Return what is known without the child: only how the attempt ended."""
    verdict = "unknown" if cell.lost else "killed" if cell.signal is not None else "exited"
    why = "its log could not be judged: %s" % problem
    return {"class": "unknown", "verdict": verdict, "signs": [], "why": why, "evidence": [why], "mark": ""}
