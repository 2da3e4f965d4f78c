"""The visible output of a running smoke: its lines, and a clock while it prints nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

from leasehold.model.run.note import Note, Report
from leasehold.model.values.wording import ago

from .log_lines import LogLines

_FIRST_LINES = 100  # shown as they come; of a smoke that prints more, only the newest
_NEWEST_EVERY_S = 1.0
_CLOCK_EVERY_S = 10.0


class SmokeLines:
    """Passes a smoke's output on to a report."""

    def __init__(self, report: Report, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._limit_s = limit_s
        self._clock = clock
        self._begun = self._spoke = clock()
        self._lines = LogLines()
        self._shown = 0
        self._held = ""
        self.left_out = 0  # lines that were not shown

    def hear(self, piece: bytes) -> None:
        """Take a piece of output and show what is due."""
        for line in self._lines.add(piece).splitlines():
            if self._shown < _FIRST_LINES:
                self._show(line)
                continue
            self.left_out += bool(self._held)
            self._held = line
        self.tick()

    def tick(self) -> None:
        """Show the newest line of many, or how long it runs if it is silent."""
        silent_s = self._clock() - self._spoke
        if self._held and silent_s >= _NEWEST_EVERY_S:
            line, self._held = self._held, ""
            self._show(line)
        elif silent_s >= _CLOCK_EVERY_S:
            self._spoke = self._clock()
            ran_s = self._clock() - self._begun
            self._report(Note("smoke_runs", f"smoke: {ago(ran_s)} of at most {ago(self._limit_s)}"))

    def end(self) -> None:
        """Show what was held back, and the number of lines not shown."""
        rest = self._lines.rest().strip("\r\n")
        for line in [*([self._held] if self._held else []), *([rest] if rest else [])]:
            self._show(line)
        self._held = ""
        if self.left_out:
            self._report(Note("smoke_runs", f"smoke: {self.left_out:,} lines were not shown"))

    def _show(self, line: str) -> None:
        self._shown += 1
        self._spoke = self._clock()
        self._report(Note("log", line))
