"""Read an attempt's log as it grows, in bounded pieces: progress, silence, and matched alarm patterns."""

from __future__ import annotations

import math
import os
from typing import Any, Dict, Tuple

from leasehold.kit.text.progress import ProgressReader

_PIECE_BYTES = 256 << 10
_TAIL_BYTES = 32 << 10  # of a log that grew by more than a piece
_CRIES = (b"Traceback (most recent call last)", b"CUDA error", b"CUDA out of memory")
_METRICS = 3


class LogReader:
    """Reader for the newest attempt; another attempt starts it afresh."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._path = ""
        self._begin("")

    def read(self, path: str, now_s: float) -> Dict[str, Any]:
        """Read what is new and return the state; empty while there is no log."""
        if path != self._path:
            self._begin(path)
        try:
            size = os.stat(path).st_size
            if size > self._offset:
                self._take(path, size, now_s)
        except OSError:
            return {}
        return self._said(now_s)

    def _begin(self, path: str) -> None:
        self._path, self._offset, self._grew_s, self._cries, self._met = path, 0, -1.0, 0, False
        try:
            self._progress = ProgressReader(self._pattern)
        except ValueError:  # a pattern that home accepted and we cannot compile
            self._progress = ProgressReader("none")

    def _take(self, path: str, size: int, now_s: float) -> None:
        old = not self._met and size > _TAIL_BYTES  # written before we looked: it says nothing about speed
        if size - self._offset > _PIECE_BYTES or old:
            self._offset = max(self._offset, size - _TAIL_BYTES)
        with open(path, "rb") as file:
            file.seek(self._offset)
            data = file.read(_PIECE_BYTES)
        self._offset += len(data)
        self._grew_s, self._met = now_s, True
        self._cries += sum(data.count(cry) for cry in _CRIES)
        self._progress.feed(data.decode("utf-8", "replace"), None if old else now_s)

    def _said(self, now_s: float) -> Dict[str, Any]:
        seen = self._progress.now
        value: Dict[str, Any] = {"cries": self._cries}
        if self._grew_s >= 0:
            value["quiet_s"] = round(max(0.0, now_s - self._grew_s), 1)
        for name in ("step", "total", "epoch", "epochs", "rate_per_s"):
            figure = getattr(seen, name)
            if figure is not None:
                value[name] = figure
        if seen.eta_s is not None and seen.eta_of == "run":
            since_s = now_s - seen.seen_at if seen.seen_at is not None else 0.0
            value["eta_s"] = round(max(0.0, seen.eta_s - since_s), 1)
        if seen.loss is not None:
            value["loss"] = finite(seen.loss)
        newest: Tuple[Any, ...] = tuple(seen.metrics.items())[-_METRICS:]
        if newest:
            value["metrics"] = {name: finite(figure) for name, figure in newest}
        return value


def finite(value: float) -> Any:
    """Keep a finite number; replace any other by None, which every JSON reader understands."""
    return float("%.6g" % value) if math.isfinite(value) else None
