"""The live screen of `lease watch`: the log scrolls as usual, and a few rows below it are redrawn in place."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TextIO

from leasehold.model.run.note import Note
from leasehold.model.values.wording import one_line
from leasehold.shells.cli.term_text import display_width
from leasehold.shells.cli.terminal import shows_glyphs

from .watch_panel import OVER, WatchView, render
from .watch_state import Board

with contextlib.suppress(ImportError):  # Windows has no termios: wants_live returns False, and plain lines are printed
    import termios

__all__ = ["Board", "LiveScreen", "WatchView", "render", "wants_live"]

_FRAME_S = 0.25
_HIDE, _SHOW, _WRAP_OFF, _WRAP_ON = "\x1b[?25l", "\x1b[?25h", "\x1b[?7l", "\x1b[?7h"
_ALTERNATE, _NORMAL = "\x1b[?1049h", "\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"


def wants_live(stream: TextIO) -> bool:
    """Return whether this stream is a terminal that can redraw; otherwise plain lines are printed."""
    if "termios" not in globals():
        return False
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("dumb", "") or not stream.isatty():
        return False
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()  # in the background the board would overwrite a shell
    except OSError:
        return False


class LiveScreen:
    """Draws a board on a terminal while a watch runs; restores the terminal however that ends."""

    def __init__(self, board: Board, stream: TextIO | None = None, alternate: bool = False) -> None:
        self._board, self._stream, self._alternate = board, stream or sys.stderr, alternate
        self._fd = self._stream.fileno()
        self._state = threading.RLock()  # guards the board; held briefly
        self._pen = threading.RLock()  # guards the terminal, which may be slow; never wait for _state while holding it
        self._stop, self._closed, self._given_back = threading.Event(), False, False
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

    def close(self) -> None:
        """Draw the last frame and restore the terminal. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        try:
            if self._painter.ident is not None:
                self._painter.join(timeout=1)
        finally:
            self._give_terminal_back(picture=True)
            for which, handler in self._handlers.items():
                signal.signal(which, handler)

    def _paint(self) -> None:
        try:
            while not self._stop.wait(_FRAME_S):
                self._draw(last=False)
        except OSError:
            self._stop.wait()  # the terminal is gone; the watch goes on and SIGHUP ends it
        except BaseException as defect:  # noqa: BLE001  a thread's end; report() raises it where it is seen
            self._defect = defect

    def _draw(self, last: bool) -> None:
        if os.tcgetpgrp(self._fd) != os.getpgrp():
            return  # sent to the background: the screen belongs to a shell now
        columns, rows = os.get_terminal_size(self._fd)
        columns, rows = columns or 80, rows or 24
        with self._state:
            lines = self._board.drain(last)
            view = self._board.view()
            tail = [*self._board.tail, *view.log]
        if last:
            view = dataclasses.replace(view, log=(), hint=view.hint if view.phase in OVER else "")
        with self._pen:
            if self._given_back and not last:
                return  # the process is exiting, and this frame was in progress
            if self._alternate and not last:
                panel = render(dataclasses.replace(view, log=tail), columns, rows, colour=True)
                self._write(_HOME + (_CLEAR_LINE + "\r\n").join(panel) + _CLEAR_REST)
                return
            panel = render(view, columns, max(3, rows - 3), colour=True)
            self._write(self._in_place(panel, [] if self._alternate else lines, columns))
            self._drawn, self._drawn_columns = panel, columns

    def _in_place(self, panel: list[str], lines: list[str], columns: int) -> str:
        """Return the output that makes the terminal show these rows: all of them, or only those that changed."""
        # After a resize the terminal has re-wrapped our rows at its new width.
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
        with contextlib.suppress(OSError, termios.error):
            if os.tcgetpgrp(self._fd) == os.getpgrp():
                self._modes = termios.tcgetattr(self._fd)
                modes = termios.tcgetattr(self._fd)
                modes[3] &= ~termios.ECHO  # do not echo keys into the picture
                termios.tcsetattr(self._fd, termios.TCSANOW, modes)
                self._write((_ALTERNATE if self._alternate else "") + _HIDE)

    def _give_terminal_back(self, picture: bool) -> None:
        try:
            if self._pen.acquire(timeout=1):  # a terminal that accepts no text must not block the exit
                try:
                    self._say_goodbye(picture)
                finally:
                    self._pen.release()
        finally:
            if self._modes is not None:
                with contextlib.suppress(OSError, termios.error):
                    termios.tcsetattr(self._fd, termios.TCSANOW, self._modes)
                    termios.tcflush(self._fd, termios.TCIFLUSH)  # drop keys typed meanwhile: nobody saw them
                self._modes = None

    def _say_goodbye(self, picture: bool) -> None:
        with contextlib.suppress(OSError):
            self._write(_NORMAL if self._alternate else "")
            try:
                if picture:
                    self._draw(last=True)
            finally:
                self._write(f"\r\n{_WRAP_ON}{_SHOW}")

    def _catch(self, which: int, handler: Callable[[int, FrameType | None], None]) -> None:
        if signal.getsignal(which) is not signal.SIG_IGN:
            self._handlers[which] = signal.signal(which, handler) or signal.SIG_DFL

    def _on_deadly_signal(self, which: int, _: FrameType | None) -> None:
        self._stop.set()
        self._given_back = True
        self._give_terminal_back(picture=False)  # the signal may have interrupted the board inside a note
        signal.signal(which, self._handlers[which])
        signal.raise_signal(which)  # pass the signal to the previous handler

    def _on_suspend(self, which: int, _: FrameType | None) -> None:
        with self._pen:
            self._give_terminal_back(picture=False)
            signal.signal(which, signal.SIG_DFL)
            signal.raise_signal(which)  # blocks here until the shell continues the process
            signal.signal(which, self._on_suspend)
            self._take_terminal()

    def _write(self, text: str) -> None:
        if self._stream.closed:
            raise OSError("the stream is closed")
        self._stream.write(text)
        self._stream.flush()
