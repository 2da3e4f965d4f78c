"""Signals as wishes: a handler notes what was asked and nothing else; the loop acts between two steps."""

from __future__ import annotations

import signal
import threading
from typing import Any, Dict


class Wishes:
    """SIGTERM asks to save and leave, SIGUSR1 to save and go on."""

    def __init__(self) -> None:
        self.leave = False
        self.save = False
        self._before: Dict[int, Any] = {}

    def listen(self) -> None:
        """Take the signals, if this is the main thread; elsewhere Python allows none."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in ((signal.SIGTERM, self._note_leave), (signal.SIGUSR1, self._note_save)):
            self._before[number] = signal.signal(number, handler)

    def forget(self) -> None:
        """Give the handlers back that were there before."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            self._before.clear()

    def _note_leave(self, number: int, frame: Any) -> None:
        self.leave = True

    def _note_save(self, number: int, frame: Any) -> None:
        self.save = True
