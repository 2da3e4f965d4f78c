"""Requests from outside the training: signals and a file, noted at once, acted on between two steps."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, Dict, Mapping, Optional, Tuple

from leasehold.kit.files.atomic import write_atomic

REQUEST = "LEASE_SAVE_REQUEST"
_LOOK_EVERY_S = 1.0

Seen = Tuple[int, int]  # inode and time of change: two requests differ in one of them


class Wishes:
    """Handles SIGTERM (save and exit) and SIGUSR1 or the file that $LEASE_SAVE_REQUEST names (save and continue)."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.leave = False
        self.save = False
        self._before: Dict[int, Any] = {}
        self._request = environ.get(REQUEST, "")
        self._looked_at: Optional[float] = None
        self._heard: Optional[Seen] = None
        self._answered: Optional[Seen] = None

    def listen(self) -> None:
        """Install the signal handlers, if this is the main thread; elsewhere Python allows none."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in ((signal.SIGTERM, self._note_leave), (signal.SIGUSR1, self._note_save)):
            self._before[number] = signal.signal(number, handler)

    def forget(self) -> None:
        """Restore the previous signal handlers."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            self._before.clear()

    def look(self, now: float) -> None:
        """Check for a request, at most once a second; each one asks for one save."""
        if not self._request or (self._looked_at is not None and now - self._looked_at < _LOOK_EVERY_S):
            return
        self._looked_at = now
        asked, answered = _seen(self._request), _seen(self._answer)
        if asked is None or asked == self._heard or (answered is not None and answered[1] >= asked[1]):
            return
        self._heard, self.save = asked, True

    @property
    def heard(self) -> Optional[Seen]:
        """Return the request that a save starting now will answer."""
        return self._heard

    def answer(self, heard: Optional[Seen], step: int) -> None:
        """Record, beside the request, that the state of this step is on the disk."""
        if heard is None or heard == self._answered:
            return
        self._answered = heard
        try:
            write_atomic(self._answer, b"%d\n" % step, durable=False)
        except OSError:  # the answer cannot be written; the checkpoint itself exists
            return

    @property
    def _answer(self) -> str:
        return self._request + ".done"

    def _note_leave(self, number: int, frame: Any) -> None:
        self.leave = True

    def _note_save(self, number: int, frame: Any) -> None:
        self.save = True


def _seen(path: str) -> Optional[Seen]:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
