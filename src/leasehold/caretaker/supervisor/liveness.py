"""Detect stalls of a live attempt: its log, its results, its CPU time, its card.

Silence is measured by our own clock from the last change that we saw: a clock that is set, back or forward, makes
nothing look stalled. The expensive checks (results, processes) begin at half the timeout.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from leasehold.caretaker.process.end_processes import signal_all, trainer_processes
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.work_clock import newest
from leasehold.kit.run.cell_health import STALL_AFTER_S, STALLED, UNKNOWN, Facts, Health, Limits, judge
from leasehold.kit.run.processes import is_alive, session_cpu_s
from leasehold.kit.run.run_state import CellState

_LOOK_EVERY_S = 5.0
_DEAR_EVERY_S = 60.0
_GRACE_S = 30.0


class _Feel:
    """Observations of one attempt."""

    def __init__(self, attempt: int, now_s: float) -> None:
        self.attempt = attempt
        self.looked_s = now_s - _LOOK_EVERY_S
        self.dear_s = now_s
        self.moved_s = now_s
        self.log: Tuple[int, int] = (-1, -1)
        self.result_unix = 0.0
        self.cpu_s: Optional[float] = None
        self.cores: Optional[float] = None
        self.health = Health(UNKNOWN, ("not looked at yet",))
        self.termed_s: Optional[float] = None


class Pulse:
    """Liveness of the cells at work: reports stalls, and ends a stalled attempt only if the job asks for that."""

    def __init__(
        self,
        folder: RunFolder,
        plan: Dict[str, Any],
        note: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.note = note
        self.facts: Callable[[], Mapping[str, Any]] = dict  # the patrol's last sample, where there is a patrol
        self._clock = clock
        job = plan["job"]
        self._limits = Limits(stall_after_s=float(job.get("stall_after_s", STALL_AFTER_S)))
        self._then = str(job.get("on_stall", "tell"))
        self._felt: Dict[str, _Feel] = {}

    def step(self, name: str, cell: CellState) -> None:
        """Check a running attempt, if it is time to; journal when it starts or stops being stalled."""
        now_s = self._clock()
        feel = self._felt.get(name)
        if feel is None or feel.attempt != cell.attempt:
            feel = self._felt[name] = _Feel(cell.attempt, now_s)
        if now_s - feel.looked_s < min(_LOOK_EVERY_S, self._limits.stall_after_s / 4 or _LOOK_EVERY_S):
            return
        feel.looked_s = now_s
        self._look(name, cell, feel, now_s)
        quiet_s = now_s - feel.moved_s
        alive = is_alive(cell.pid, cell.started)
        known = Facts(held=True, alive=alive, ended=False, quiet_s=quiet_s, cpu_cores=feel.cores)
        feel.health = judge(known._replace(gpu_percent=self._gpu()), self._limits)
        self._say(name, cell, feel, quiet_s)

    def health(self, name: str) -> Optional[Health]:
        """Return the last judgement of a cell; None when it was never checked."""
        feel = self._felt.get(name)
        return feel.health if feel else None

    def _look(self, name: str, cell: CellState, feel: _Feel, now_s: float) -> None:
        log = _signature(os.path.join(self.folder.attempt(name, cell.attempt), "log"))
        if log != feel.log:
            feel.log, feel.moved_s = log, now_s
        due = self._limits.stall_after_s and now_s - feel.moved_s >= self._limits.stall_after_s / 2
        every_s = min(_DEAR_EVERY_S, self._limits.stall_after_s / 4)
        if not due or now_s - feel.dear_s < every_s:
            return
        found = newest(self.folder.out(name), "**")
        if found != feel.result_unix:
            moved, feel.result_unix = feel.result_unix > 0, found
            feel.moved_s = now_s if moved else feel.moved_s
        cpu_s = session_cpu_s(cell.pid)
        if cpu_s is not None and feel.cpu_s is not None:
            feel.cores = max(0.0, cpu_s - feel.cpu_s) / (now_s - feel.dear_s)
        feel.cpu_s, feel.dear_s = cpu_s, now_s

    def _gpu(self) -> Optional[float]:
        cards = self.facts().get("gpus") or []
        used = [card.get("util_percent") for card in cards if isinstance(card, dict)]
        return max((float(share) for share in used if isinstance(share, (int, float))), default=None)

    def _say(self, name: str, cell: CellState, feel: _Feel, quiet_s: float) -> None:
        if feel.termed_s is not None:
            self._end(name, cell, feel)
        elif feel.health.state == STALLED:
            if not cell.stalled_unix:
                since = round(time.time() - quiet_s, 3)
                evidence = list(feel.health.evidence)
                self.note(
                    "stalled", cell=name, attempt=cell.attempt, since_unix=since, evidence=evidence, then=self._then
                )
            self._end(name, cell, feel)
        elif cell.stalled_unix and feel.health.state != UNKNOWN:
            self.note("stall_over", cell=name, attempt=cell.attempt, evidence=list(feel.health.evidence))

    def _end(self, name: str, cell: CellState, feel: _Feel) -> None:
        """End a stalled attempt, where the job allows it: TERM, which asks for a save, then KILL."""
        if self._then != "again":
            return
        alive = trainer_processes(cell.pid, cell.started, self.folder.mark(name, cell.attempt))
        if feel.termed_s is None:
            feel.termed_s = self._clock()
            signal_all(alive, cell.pid, signal.SIGTERM)
        elif self._clock() - feel.termed_s > _GRACE_S:
            signal_all(alive, cell.pid, signal.SIGKILL)


def _signature(path: str) -> Tuple[int, int]:
    try:
        info = os.stat(path)
    except OSError:
        return (-1, -1)
    return info.st_size, info.st_mtime_ns
