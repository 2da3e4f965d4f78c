"""When to save: Young and Daly's interval, from the measured cost of a save and rate of interruptions."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.cadence import QUIET_GAP_S, interval_s, mean_gap_s

_FIRST_S = 30.0  # until a save has been measured
_MEMORY = 0.3  # weight of the newest measurement
_MAX_SESSIONS = 200


class Pace:
    """Tracks the time of steps, the cost of saves, and whether the next save is due."""

    def __init__(self, now: float, gap_s: float, every_s: Optional[float], every_steps: Optional[int]) -> None:
        self.gap_s = gap_s
        self.write_s: Optional[float] = None
        self.cost_s: Optional[float] = None
        self._fixed_s, self._fixed_steps = every_s, every_steps
        self._saved_at, self._steps = now, 0
        self._last_step_at = now
        self._step_s: Optional[float] = None
        self._extra_s = self._stall_s = 0.0

    @property
    def step_s(self) -> Optional[float]:
        """Return the time of a step while nothing is being written."""
        return self._step_s

    @property
    def every_s(self) -> float:
        """Return seconds between saves: never less than a write takes, so that the disk is not busy all the time."""
        if self._fixed_s is not None:
            return self._fixed_s
        if self.cost_s is None:
            return _FIRST_S
        return max(interval_s(self.cost_s, self.gap_s), 2.0 * (self.write_s or 0.0))

    def steps_in(self, seconds: float) -> int:
        """Return how many steps fit into this time; at least one, at most those between two saves."""
        count = max(1, int(seconds / self._step_s)) if self._step_s else 1
        return min(count, max(1, self._fixed_steps)) if self._fixed_steps is not None else count

    @property
    def words(self) -> str:
        """Describe the interval for people."""
        return "%.3g s" % self.every_s if self._fixed_steps is None else "%d steps" % self._fixed_steps

    def stepped(self, now: float, writing: bool) -> None:
        """Note the end of a step; a slower one while a file is written shows the cost of the write."""
        took, self._last_step_at = now - self._last_step_at, now
        self._steps += 1
        if writing:
            self._extra_s += max(0.0, took - (self._step_s or took))
        else:
            self._step_s = took if self._step_s is None else (1 - _MEMORY) * self._step_s + _MEMORY * took

    def due(self, now: float) -> bool:
        """Return whether a save is due."""
        if self._fixed_steps is not None:
            return self._steps >= self._fixed_steps
        return now - self._saved_at >= self.every_s

    def snapped(self, now: float, stall_s: float) -> None:
        """Note that a state was copied, and how long the loop paused for it."""
        self._saved_at, self._last_step_at, self._steps = now, now, 0
        self._stall_s, self._extra_s = stall_s, 0.0

    def written(self, write_s: float) -> None:
        """Note that the copy is on the disk."""
        cost_s = self._stall_s + min(self._extra_s, write_s)
        self.write_s = _blend(self.write_s, write_s)
        self.cost_s = _blend(self.cost_s, cost_s)

    def postpone(self, now: float) -> None:
        """Restart the interval, after a save that failed."""
        self._saved_at, self._steps = now, 0


class Sessions:
    """The history of a folder's trainings: how long each ran and how it ended."""

    def __init__(self, path: str, started_unix: float) -> None:
        self._path = path
        known = (read_json(path) or {}).get("sessions")
        self._before: List[Dict[str, Any]] = [item for item in known or [] if isinstance(item, dict)][-_MAX_SESSIONS:]
        self._now: Dict[str, Any] = {"started": started_unix, "seen": started_unix, "ended": ""}

    def gap_s(self, environ: Any = os.environ) -> float:
        """Return LEASE_GAP_S, which the run's own journal knows best; else blend a day with the history here."""
        try:
            known = float(environ.get("LEASE_GAP_S", ""))
        except ValueError:
            known = 0.0
        if 0 < known < float("inf"):
            return known
        ran = sum(max(0.0, float(item.get("seen", 0)) - float(item.get("started", 0))) for item in self._before)
        return mean_gap_s(QUIET_GAP_S, ran, sum(item.get("ended") != "done" for item in self._before))

    def see(self, now_unix: float, ended: str = "", measured: Optional[Dict[str, Any]] = None) -> None:
        """Record that this training lived until now; a killed one leaves no other end."""
        self._now.update(seen=now_unix, ended=ended, **(measured or {}))
        write_json(self._path, {"sessions": [*self._before, self._now]}, durable=False)


def _blend(old: Optional[float], new: float) -> float:
    return new if old is None else (1 - _MEMORY) * old + _MEMORY * new
