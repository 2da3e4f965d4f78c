"""The patrol: take one sample per tick, append it to the series, raise and clear alarms.

Its modules are imported at the first tick, after the trainer was started: the trainer would otherwise wait for them.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.run.run_state import CellState, RunState

if TYPE_CHECKING:
    from .alarms import Alarms
    from .ring_files import Series
    from .sampler import Sampler
    from .training_numbers import TrainingLook
    from .vitals import Target

_TICK_S = 5.0
_LOOK_S = 1.0  # between two looks at the numbers of each training
_AFTER_DEFECT_S = 600.0


class Patrol:
    """Watches the box and the training. Never raises: a defect here must not end the watch over the trainer."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self._folder, self._plan, self._note = folder, plan, note
        self._sampler: Optional[Sampler] = None
        self._series: Optional[Series] = None
        self._alarms: Optional[Alarms] = None
        self._recall: Any = None
        self._training: Optional[TrainingLook] = None
        self._look_s = float("-inf")
        self._facts: Dict[str, Any] = {}
        self._due_s = float("-inf")

    def step(self, run: RunState, known: Iterable[Dict[str, Any]], before: Callable[[], None]) -> None:
        """Take the next step; `known` is the run's journal, `before` restores default signals in a forked child."""
        if run.terminal:
            return  # a reader of the end must be able to rely on its being the last word
        try:
            self._step(run, known, before, time.monotonic())
        except OSError:  # a full disk, or no more processes: the next tick tries again
            return
        except Exception:  # noqa: BLE001 - a defect here must not end the watch over a trainer; it is kept to be read
            self._leave_word()
            self._due_s = time.monotonic() + _AFTER_DEFECT_S

    def last(self, name: str, cell: CellState, known: Iterable[Dict[str, Any]]) -> None:
        """Look once more at the numbers of an attempt that has ended, before its end is judged."""
        try:
            self._training_look().last(name, cell, self._standing(known), time.monotonic())
            if self._facts.get("cell", name) == name:  # the last sample may be some seconds old
                reached = self._training_look().reached(name, cell.attempt)
                self._facts["progress"] = dict(self._facts.get("progress") or {}, **reached)
                self._facts["progress"].pop("eta_s", None)
        except OSError:
            return
        except Exception:  # noqa: BLE001 - as above: the end of the attempt must be judged whatever happens here
            self._leave_word()

    def facts(self) -> Dict[str, Any]:
        """The last sample; empty before the first."""
        return self._facts

    @property
    def alarms(self) -> List[str]:
        """The raised alarms."""
        return self._alarms.names if self._alarms else []

    def end(self) -> None:
        """End the children and close the files."""
        if self._sampler is not None:
            self._sampler.end()
        if self._series is not None:
            self._series.close()

    def _step(self, run: RunState, known: Iterable[Dict[str, Any]], before: Callable[[], None], now_s: float) -> None:
        from .alarms import Recall, signs_of
        from .sampler import Sampler, record_of

        alarms = self._standing(known)
        if self._sampler is None:
            self._sampler = Sampler(self._folder, self._plan)
            self._recall = Recall(cluster=self._plan.get("engine") == "slurm")
        self._sampler.hear(now_s, before)
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            for name, cell in list(run.cells.items()):
                self._training_look().step(name, cell, alarms, now_s)
        if now_s < self._due_s:
            return
        self._due_s = now_s + _TICK_S
        target = target_of(run, alarms.names)
        self._facts = self._sampler.sample(target, time.time(), now_s)
        self._facts["kept"] = self._keep(record_of(self._facts, target))
        alarms.judge(signs_of(self._facts, self._recall), self._note)

    def _standing(self, known: Iterable[Dict[str, Any]]) -> "Alarms":
        from .alarms import Alarms

        self._alarms = self._alarms or Alarms(known)
        return self._alarms

    def _training_look(self) -> "TrainingLook":
        from .training_numbers import TrainingLook

        self._training = self._training or TrainingLook(self._folder, self._plan, self._note)
        return self._training

    def _keep(self, record: Dict[str, Any]) -> bool:
        from .ring_files import Series

        try:
            self._series = self._series or Series(self._folder.readings)
            self._series.add(record)
        except OSError:  # a full disk, before the ring had its room
            return False
        return True

    def _leave_word(self) -> None:
        import traceback

        with contextlib.suppress(OSError):
            text = traceback.format_exc().encode("utf-8", "replace")
            write_atomic(os.path.join(self._folder.path, "patrol-defect.txt"), text, durable=False)


def target_of(run: RunState, alarms: List[str]) -> Target:
    """Return which attempt runs now; the first of several, since a card has one at a time."""
    from .vitals import Target

    for name, cell in run.cells.items():
        if cell.state in ("starting", "running"):
            return Target(run.state, name, cell.attempt, cell.pid, cell.started, tuple(alarms))
    return Target(run.state, alarms=tuple(alarms))
