"""The live screen of `lease watch`: the log scrolls as usual, a few rows below it are drawn in place.

`Board` folds notes and readings into a view; `LiveScreen` draws it. Nothing here decides anything about a run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Protocol, TextIO

from leasehold.model.note import Note
from leasehold.model.words import one_line

from .drawing import clean, display_width
from .panel import IDLE_UTIL, Cells, Measured, WatchView, cards_of, number, render

__all__ = ["Board", "LiveScreen", "WatchView", "render", "wants_live"]

_FRAME_S = 0.25
_PENDING_LINES = 400  # more in one frame are not shown: nobody can read them, and ssh may be slow
_TAIL_LINES = 200
_LINE_CHARS = 2000
_BACKLOG_CHARS = 16 << 10  # a note this long was written before we looked, so it says nothing about speed
_MAX_METERS = 64
_STALL_S = 600.0
_HIDE, _SHOW, _WRAP_OFF, _WRAP_ON = "\x1b[?25l", "\x1b[?25h", "\x1b[?7l", "\x1b[?7h"
_ALTERNATE, _NORMAL = "\x1b[?1049h", "\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
_RUN_PHASES = {
    "run_opened": "launching",
    "resumed": "launching",
    "stop_requested": "stopping",
    "run_finished": "finished",
    "run_failed": "failed",
    "run_stopped": "stopped",
}
_CELL_STATES = {"attempt_started": "running", "attempt_ended": "", "cell_finished": "finished", "cell_failed": "failed"}
_OVER = ("finished", "failed", "stopped")
_COLOURS = {"event": "2", "unknown": "33", "warning": "33", "by_hand": "33"}


class Meter(Protocol):
    """Reads progress from a log: the shape of kit.progress.ProgressReader."""

    def feed(self, text: str, at: float | None = None) -> None:
        """Take text seen at a monotonic time, or old text."""

    @property
    def now(self) -> Measured:
        """How far it is."""

    @property
    def losses(self) -> list[float]:
        """The loss over the whole run."""


def wants_live(stream: TextIO) -> bool:
    """Tell whether a person watches this stream on a terminal that can redraw; otherwise print plain lines."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("dumb", "") or not stream.isatty():
        return False
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()  # in the background we would draw over a shell
    except OSError:
        return False


def shows_glyphs(environment: Mapping[str, str]) -> bool:
    """Tell whether the terminal's locale shows more than ASCII."""
    given = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or ""
    if given == "C.UTF-8" and not (environment.get("LC_ALL") or "UTF" in environment.get("LANG", "").upper()):
        return False  # Python itself put this into LC_CTYPE of a C locale (PEP 538)
    return "UTF8" in given.upper().replace("-", "") and environment.get("TERM") != "linux"


class Board:
    """What is known of a run, from the notes of a watch and the readings of its box."""

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
        self._cells: dict[str, str] = {}
        self._meters: dict[str, Meter] = {}
        self._meter: Meter | None = None
        self._heard_unix = self._log_unix = self._lost_unix = 0.0  # 0 is never
        self._lost_why = ""
        self._readings: dict[str, Any] = {}
        self._open_line = ""  # a progress bar's last redraw; the next one replaces it
        self._pending: deque[str] = deque(maxlen=_PENDING_LINES)
        self._skipped = 0
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self.glyphs = True

    def take(self, note: Note) -> None:
        """Take what a watch tells."""
        if note.kind == "unknown":
            self._lost_unix = self._lost_unix or self._clock()
            self._heard_unix = number(note.data.get("seen_unix")) or self._heard_unix
            self._lost_why = note.text.partition(": ")[2] or note.text  # the rest the screen says itself
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
        """Take the newest readings of the box; keys that are absent keep their last value."""
        self._readings.update(readings)

    def drain(self, last: bool) -> list[str]:
        """Give the lines that came since the last call, ready for the scrollback; at last also an unfinished one."""
        if last:
            self._close_line()
        lines = list(self._pending)
        if self._skipped:
            lines.insert(0, f"* {self._skipped:,} lines came too fast to show; all of them: lease logs {self._run}")
        self._pending.clear()
        self._skipped = 0
        return lines

    def view(self) -> WatchView:
        """Tell how it stands now."""
        now = self._clock()
        quiet_s = max(0.0, now - self._log_unix) if self._log_unix else None
        phase = self._phase_now(quiet_s)
        progress = self._meter.now if self._meter else None
        seen_at = progress.seen_at if progress else None
        return WatchView(
            run=self._run,
            box=self._box,
            phase=phase,
            phase_s=max(0.0, now - (self._lost_unix or self._since_unix)),
            was=self._phase,
            seen_s=max(0.0, now - self._heard_unix) if self._heard_unix else None,
            reason=self._lost_why if phase == "unknown" else self._reason,
            attempt=self._attempt,
            cells=Cells(
                sum(state == "finished" for state in self._cells.values()),
                sum(state == "failed" for state in self._cells.values()),
                len(self._cells),
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

    def _phase_now(self, quiet_s: float | None) -> str:
        if self._lost_unix and self._phase not in _OVER:
            return "unknown"
        utils = [number(card.get("util")) for card in cards_of(self._readings)]
        idle = all(util is not None and util <= IDLE_UTIL for util in utils)
        return "stalled" if self._phase == "running" and (quiet_s or 0) >= _STALL_S and idle else self._phase

    def _hint(self) -> str:
        if self._phase not in _OVER:
            return "Ctrl-C leaves the run running"
        return f"next: lease {'logs' if self._phase == 'failed' else 'pull'} {self._run}"

    def _take_event(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("k", ""))
        if kind == "run_opened":
            cells = event.get("cells")
            self._cells = {str(name): "" for name in cells} if isinstance(cells, list) else {}
        if kind == "attempt_ended":
            self._close_line()
        if kind in _CELL_STATES:
            self._cells[str(event.get("cell", ""))] = _CELL_STATES[kind]
        if kind == "resumed":
            self._cells = {name: state if state == "finished" else "" for name, state in self._cells.items()}
            self._reason = ""
        self._attempt = int(number(event.get("attempt")) or self._attempt)
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
        # Redraws arrive without their carriage return: without a line end, the next text replaces this one.
        self._meter.feed(note.text if note.text.endswith("\n") else note.text + "\r", None if old else self._tick())
        self._log_unix = self._clock()
        *lines, rest = note.text.split("\n")
        if lines:
            lines[0] = lines[0] or self._open_line  # empty: "\r\n" came in two pieces
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


class LiveScreen:
    """Draws a board on a terminal while a watch runs; puts the terminal back however that ends."""

    def __init__(self, board: Board, stream: TextIO | None = None, alternate: bool = False) -> None:
        self._board, self._stream, self._alternate = board, stream or sys.stderr, alternate
        self._fd = self._stream.fileno()
        self._state = threading.RLock()  # of the board; held for moments
        self._pen = threading.RLock()  # of the terminal, which may be slow; never wait for _state with it in hand
        self._stop = threading.Event()
        self._painter = threading.Thread(target=self._paint, name="live-screen", daemon=True)
        self._drawn: list[str] = []
        self._drawn_columns = 0
        self._handlers: dict[int, Any] = {}
        self._modes: list[Any] | None = None
        self._defect: BaseException | None = None
        board.glyphs = shows_glyphs(os.environ) and "utf" in (self._stream.encoding or "").lower()

    def __enter__(self) -> LiveScreen:
        try:
            self._take_terminal()
            if threading.current_thread() is threading.main_thread():
                self._catch(signal.SIGTERM, self._on_deadly_signal)
                self._catch(signal.SIGHUP, self._on_deadly_signal)
                self._catch(signal.SIGQUIT, self._on_deadly_signal)
                self._catch(signal.SIGTSTP, self._on_suspend)
            self._painter.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self, note: Note) -> None:
        """Take a note of the watch."""
        if self._defect is not None:
            raise self._defect
        with self._state:
            self._board.take(note)

    def readings(self, readings: Mapping[str, Any]) -> None:
        """Take readings of the box."""
        with self._state:
            self._board.take_readings(readings)

    def close(self, picture: bool = True) -> None:
        """Leave a last picture and give the terminal back. Idempotent."""
        if self._stop.is_set():
            return
        self._stop.set()
        try:
            if self._painter.ident is not None:
                self._painter.join(timeout=1)
        finally:
            self._give_terminal_back(picture)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _paint(self) -> None:
        try:
            while not self._stop.wait(_FRAME_S):
                self._draw(last=False)
        except OSError:
            self._stop.wait()  # the terminal is gone; the watch goes on and SIGHUP will tell
        except BaseException as defect:  # noqa: BLE001  a thread's end; report() raises it where it is seen
            self._defect = defect

    def _draw(self, last: bool) -> None:
        if os.tcgetpgrp(self._fd) != os.getpgrp():
            return  # sent to the background: the screen is a shell's now
        columns, rows = os.get_terminal_size(self._fd)
        columns, rows = columns or 80, rows or 24
        with self._state:
            lines = self._board.drain(last)
            view = self._board.view()
            tail = [*self._board.tail, *view.log]
        if last:
            view = dataclasses.replace(view, log=(), hint=view.hint if view.phase in _OVER else "")
        with self._pen:
            if self._alternate and not last:
                panel = render(dataclasses.replace(view, log=tail), columns, rows, colour=True)
                self._write(_HOME + (_CLEAR_LINE + "\r\n").join(panel) + _CLEAR_REST)
                return
            panel = render(view, columns, max(3, rows - 3), colour=True)
            self._write(self._in_place(panel, [] if self._alternate else lines, columns))
            self._drawn, self._drawn_columns = panel, columns

    def _in_place(self, panel: list[str], lines: list[str], columns: int) -> str:
        """Say what turns the rows on the terminal into these: all of them, or only those that changed."""
        # After a resize the terminal has folded our rows at its new width.
        folded = sum(max(1, -(-display_width(one_line(row)) // columns)) for row in self._drawn)
        start = "\r" + (f"\x1b[{folded - 1}A" if folded > 1 else "")
        if lines or len(panel) != len(self._drawn) or columns != self._drawn_columns:
            above = "".join(line + "\r\n" for line in lines)
            return start + _CLEAR_REST + above + _WRAP_OFF + "\r\n".join(panel) + _WRAP_ON
        if panel == self._drawn:
            return ""
        rows = ["" if new == old else new + _CLEAR_LINE for new, old in zip(panel, self._drawn, strict=True)]
        return start + _WRAP_OFF + "\r\n".join(rows) + _WRAP_ON

    def _take_terminal(self) -> None:
        self._drawn = []
        with contextlib.suppress(OSError, termios.error):  # keys are not echoed into the picture
            if os.tcgetpgrp(self._fd) == os.getpgrp():
                self._modes = termios.tcgetattr(self._fd)
                modes = termios.tcgetattr(self._fd)
                modes[3] &= ~termios.ECHO
                termios.tcsetattr(self._fd, termios.TCSANOW, modes)
        self._write((_ALTERNATE if self._alternate else "") + _HIDE)

    def _give_terminal_back(self, picture: bool) -> None:
        if self._pen.acquire(timeout=1):  # a terminal that takes no text must not keep us from leaving
            with contextlib.suppress(OSError):
                self._write(_NORMAL if self._alternate else "")
                if picture:
                    self._draw(last=True)
                self._write(f"\r\n{_WRAP_ON}{_SHOW}")
            self._pen.release()
        if self._modes is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._fd, termios.TCSANOW, self._modes)
                termios.tcflush(self._fd, termios.TCIFLUSH)  # nobody saw what was typed meanwhile
            self._modes = None

    def _catch(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        if signal.getsignal(number) is not signal.SIG_IGN:
            self._handlers[number] = signal.signal(number, handler)

    def _on_deadly_signal(self, number: int, _: FrameType | None) -> None:
        self.close(picture=False)  # the board may be in the middle of a note
        signal.raise_signal(number)  # to whoever would have had it

    def _on_suspend(self, number: int, _: FrameType | None) -> None:
        with self._pen:
            self._give_terminal_back(picture=False)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)  # stops here until the shell continues us
            signal.signal(number, self._on_suspend)
            self._take_terminal()

    def _write(self, text: str) -> None:
        if self._stream.closed:
            raise OSError("the stream is closed")
        self._stream.write(text)
        self._stream.flush()
