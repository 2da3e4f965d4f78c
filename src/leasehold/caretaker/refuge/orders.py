"""Between the caretaker and its worker: what to copy, how far it is, what happened. Files on the box's own disk."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict, List, Mapping

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json

_MOST_SAID = 200
_TELL_EVERY_S = 1.0
TORN, OWN_DISK = (
    "torn",
    "own_disk",
)  # classes beside a place's own: its trainer rewrites it while it is read; no room here


class RefugeFiles:
    """Paths of the worker's files, beside the run."""

    def __init__(self, folder: RunFolder) -> None:
        self.path = os.path.join(folder.address, "refuge")
        self.lock = os.path.join(self.path, "lock")
        self.order = os.path.join(self.path, "order.json")
        self.said = os.path.join(self.path, "said.json")
        self.progress = os.path.join(self.path, "progress.json")
        self.claim = folder.refuge_epoch  # one for all cells of a run

    def cell(self, cell: str) -> str:
        """Return the record of a cell's copies."""
        return os.path.join(self.path, "cells", cell + ".json")


class CellOrder:
    """What the caretaker says of one cell."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.attempt = int(value.get("attempt") or 0)
        self.alive = bool(value.get("alive"))
        self.hurry = bool(value.get("hurry"))  # copy what is new now, however long ago the last copy was


class Order:
    """What the caretaker wants."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        cells = value.get("cells")
        self.cells = {str(name): CellOrder(one) for name, one in (cells.items() if isinstance(cells, dict) else ())}
        self.final = bool(value.get("final"))  # leave once all that is new is copied, or cannot be
        self.skip = [str(one) for one in value.get("skip") or ()]  # refuges that hung
        self.box = str(value.get("box") or "")

    @classmethod
    def read(cls, files: RefugeFiles) -> "Order":
        """Read it; an empty one where there is none."""
        return cls(read_json(files.order) or {})


class Said:
    """What the worker tells: the last events, each with a name of its own, so that none is journaled twice."""

    def __init__(self, files: RefugeFiles) -> None:
        self._path = files.said
        self._events: List[Dict[str, Any]] = list((read_json(files.said) or {}).get("events") or [])

    def tell(self, kind: str, **facts: Any) -> None:
        """Add an event."""
        event = dict(facts, kind=kind, uid=os.urandom(8).hex(), said_unix=round(time.time(), 3))
        self._events = [*self._events, event][-_MOST_SAID:]
        write_json(self._path, {"events": self._events})


class Beating:
    """The worker's signs of life. While an object store is at work, time alone is one: its client has time limits."""

    def __init__(self, files: RefugeFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = files.progress, clock
        self._shown: Dict[str, Any] = {}
        self._bytes = 0
        self._told_at = float("-inf")
        self._lock = threading.Lock()

    def begin(self, phase: str, **facts: Any) -> None:
        """Name the work that begins."""
        with self._lock:
            self._shown, self._bytes = dict(facts, phase=phase), 0
            self._tell()

    def tick(self, count: int = 0) -> None:
        """Count bytes; tell at intervals."""
        with self._lock:
            self._bytes += count
            if self._clock() - self._told_at >= _TELL_EVERY_S:
                self._tell()

    def _tell(self) -> None:
        self._told_at = self._clock()
        try:
            write_json(self._path, dict(self._shown, bytes=self._bytes, at=round(self._told_at, 1)), durable=False)
        except OSError:  # the box's own disk is full: the copy off it goes on
            return
