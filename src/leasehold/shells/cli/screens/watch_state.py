"""The state of a watched run: notes and readings in, a view out. It decides nothing about the run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from leasehold.model.run.note import Note
from leasehold.model.values.units import number
from leasehold.shells.cli.term_text import clean

from .watch_panel import OVER, Cells, Measured, WatchView

_PENDING_LINES = 400  # more lines in one frame are not shown: nobody can read them, and ssh may be slow
_TAIL_LINES = 200
_LINE_CHARS = 2000
_BACKLOG_CHARS = 16 << 10  # a note this long was written before this watch began, so it does not show the speed
_MAX_METERS = 64
_STALLS = {"stalled": True, "stall_over": False, "attempt_ended": False}  # the box decides: it sees the processes too
_COLOURS = {"event": "2", "unknown": "33", "warning": "33", "by_hand": "33"}
_RUN_PHASES = {
    "run_opened": "launching",
    "resumed": "launching",
    "stop_requested": "stopping",
    "run_finished": "finished",
    "run_failed": "failed",
    "run_stopped": "stopped",
}
_CELL_STATES = {"attempt_started": "running", "attempt_ended": "", "cell_finished": "finished", "cell_failed": "failed"}


class Meter(Protocol):
    """Reads progress from a log: same shape as kit.progress.ProgressReader."""

    def feed(self, text: str, at: float | None = None) -> None:
        """Add text seen at a monotonic time, or old text."""

    @property
    def now(self) -> Measured:
        """Return the current progress."""

    @property
    def losses(self) -> list[float]:
        """Return the losses over the whole run."""


class Board:
    """The state of a watched run, built from the watch's notes and the box's readings."""

    def __init__(
        self,
        run: str,
        box: str,
        meter: Callable[[], Meter],
        clock: Callable[[], float] = time.time,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._box, self._new_meter, self._clock, self._tick = run, box, meter, clock, tick
        self._phase, self._since_unix, self._attempt, self._reason = "launching", clock(), 0, ""
        self._stalled = False
        self._waits = ""
        self._cells: dict[str, str] = {}
        self._meters: dict[str, Meter] = {}
        self._meter: Meter | None = None
        self._heard_unix = self._log_unix = self._lost_unix = 0.0  # 0 means never
        self._lost_why = ""
        self._readings: dict[str, Any] = {}
        self._open_line = ""  # a progress bar's last redraw; the next one replaces it
        self._pending: deque[str] = deque(maxlen=_PENDING_LINES)
        self._skipped = 0
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self.glyphs = True

    def take(self, note: Note) -> None:
        """Take a note of the watch."""
        if note.kind == "unknown":
            self._lost_unix = self._lost_unix or self._clock()
            self._heard_unix = number(note.data.get("seen_unix")) or self._heard_unix
            self._lost_why = note.text.partition(": ")[2] or note.text  # the screen adds the rest
            return
        if note.kind in ("event", "log", "link_back"):
            self._lost_unix, self._heard_unix = 0.0, self._clock()
        if note.kind == "log":
            self._take_log(note)
            return
        if note.kind == "event":
            self._take_event(note.data)
        for line in note.text.split("\n"):
            self._say(f"* {line}", _COLOURS.get(note.kind, ""))

    def take_readings(self, readings: Mapping[str, Any]) -> None:
        """Store the newest readings of the box; absent keys keep their last value."""
        self._readings.update(readings)

    def drain(self, last: bool) -> list[str]:
        """Return the lines since the last call, ready for the scrollback; at the end also an unfinished one."""
        if last:
            self._close_line()
        lines = list(self._pending)
        if self._skipped:
            lines.insert(0, f"* {self._skipped:,} lines came too fast to show; all of them: lease logs {self._run}")
        self._pending.clear()
        self._skipped = 0
        return lines

    def view(self) -> WatchView:
        """Return the view at this moment."""
        now = self._clock()
        quiet_s = max(0.0, now - self._log_unix) if self._log_unix else None
        phase = self._phase_now()
        progress = self._meter.now if self._meter else None
        seen_at = progress.seen_at if progress else None
        return WatchView(
            run=self._run,
            box=self._box,
            phase=phase,
            phase_s=max(0.0, now - (self._lost_unix or self._since_unix)),
            was=self._phase,
            seen_s=max(0.0, now - self._heard_unix) if self._heard_unix else None,
            reason=self._lost_why if phase == "unknown" else self._reason or self._waits * (phase == "launching"),
            attempt=self._attempt,
            cells=Cells(
                sum(state == "finished" for state in self._cells.values()),
                sum(state == "failed" for state in self._cells.values()),
                len(self._cells),
                tuple(self._cells.values()),
                tuple(name for name, state in self._cells.items() if state == "running"),
            ),
            progress=progress,
            progress_s=None if seen_at is None else max(0.0, self._tick() - seen_at),
            losses=self._meter.losses if self._meter else (),
            quiet_s=quiet_s,
            readings=dict(self._readings),
            log=[self._open_line] if self._open_line else [],
            hint=self._hint(),
            now_unix=now,
            glyphs=self.glyphs,
        )

    def _phase_now(self) -> str:
        if self._lost_unix and self._phase not in OVER:
            return "unknown"
        return "stalled" if self._phase == "running" and self._stalled else self._phase

    def _hint(self) -> str:
        if self._phase not in OVER:
            return "Ctrl-C leaves the run running"
        return f"next: lease {'logs' if self._phase == 'failed' else 'pull'} {self._run}"

    def _take_event(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("k", ""))
        if kind == "run_opened":
            cells = event.get("cells")
            self._cells = {str(name): "" for name in cells} if isinstance(cells, list) else {}
        if kind in ("cells_added", "cells_released"):
            self._cells = _changed(self._cells, event)
        if kind == "attempt_ended":
            self._close_line()
        if kind in _STALLS:
            self._stalled = _STALLS[kind]
        if kind in _CELL_STATES:
            self._cells[str(event.get("cell", ""))] = _CELL_STATES[kind]
        if kind == "resumed":
            self._cells = {name: state if state == "finished" else "" for name, state in self._cells.items()}
            self._reason = ""
        self._attempt = int(number(event.get("attempt")) or self._attempt)
        if kind == "tasks_seen":  # a cluster's reason why its tasks wait, or nothing
            self._waits = str(event.get("why") or "")
        else:
            self._reason = self._reason or str(event.get("why" if kind == "cell_failed" else "reason") or "")
        phase = _RUN_PHASES.get(kind, self._phase)
        if phase in ("launching", "running"):
            phase = "running" if "running" in self._cells.values() else "launching"
        if phase != self._phase or kind in _RUN_PHASES:
            self._phase, self._since_unix = phase, number(event.get("t")) or self._clock()

    def _take_log(self, note: Note) -> None:
        cell = str(note.data.get("log", "")).rpartition("/")[0]
        if cell not in self._meters and len(self._meters) >= _MAX_METERS:
            self._meters.pop(next(iter(self._meters)))
        self._meter = self._meters.setdefault(cell, self._meters.get(cell) or self._new_meter())
        old = len(note.text) >= _BACKLOG_CHARS
        # Redraws arrive without their carriage return: without a line end, the next text replaces this line.
        self._meter.feed(note.text if note.text.endswith("\n") else note.text + "\r", None if old else self._tick())
        self._log_unix = self._clock()
        *lines, rest = note.text.split("\n")
        if lines:
            lines[0] = lines[0] or self._open_line  # empty: "\r\n" was split over two reads
            self._open_line = ""
        kept = lines[-_PENDING_LINES:]
        self._skipped += len(lines) - len(kept)
        for line in kept:
            self._say(f"{cell}: {line}" if len(self._cells) > 1 else line)
        self._open_line = rest[:_LINE_CHARS] or self._open_line

    def _close_line(self) -> None:
        if self._open_line:
            self._say(self._open_line)
        self._open_line = ""

    def _say(self, line: str, colour: str = "") -> None:
        text = clean(line[:_LINE_CHARS], self.glyphs)
        self._skipped += len(self._pending) == _PENDING_LINES
        self._pending.append(f"\x1b[{colour}m{text}\x1b[0m" if colour else text)
        self.tail.append(text)


def _changed(cells: dict[str, str], event: Mapping[str, Any]) -> dict[str, str]:
    """Update the cells that joined a sweep, or moved to another box."""
    named = event.get("cells")
    names = [str(name) for name in named] if isinstance(named, list) else []
    if event.get("k") == "cells_added":
        return {**cells, **{name: cells.get(name, "") for name in names}}
    return {name: state for name, state in cells.items() if name not in names}
