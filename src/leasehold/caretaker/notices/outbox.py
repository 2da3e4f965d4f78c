"""Queue of notices and their channels, kept in one file, so that a killed caretaker neither loses nor repeats any."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, Optional, Tuple

from leasehold.kit.failure.back_off import pause_after
from leasehold.kit.files.atomic import read_json, write_json

PER_HOUR, RUSHED_PER_HOUR = 6, 20
GAP_S = 60.0
SETTLE_S = 3.0  # events that belong together come within moments
_HOUR_S = 3600.0
_RETRY_S = (60.0, 120.0, 300.0, 900.0, 1800.0)
_MOST_ITEMS = 60

Item = Dict[str, Any]


class Outbox:
    """The file's content; every change is made in memory and saved before anything is sent."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: Optional[Tuple[int, ...]] = None  # identifies the file that we read or wrote last
        self.value: Dict[str, Any] = {}
        self.load()

    def load(self) -> None:
        """Read it again if another process wrote it; keep unsaved changes of ours (a full disk)."""
        mark = self._mark()
        if mark is not None and mark != self._seen:
            with contextlib.suppress(OSError):
                self.value = read_json(self._path) or {}
                self._seen = mark

    def save(self) -> None:
        """Write it; raises OSError where the disk is full, and the memory stays correct."""
        write_json(self._path, self.value)
        self._seen = self._mark()

    @property
    def seq(self) -> Optional[int]:
        """The last journal event that was processed; None when none ever was."""
        value = self.value.get("seq")
        return value if isinstance(value, int) else None

    @property
    def waiting(self) -> List[Item]:
        """The queued notices."""
        found: List[Item] = self.value.setdefault("waiting", [])
        return found

    @property
    def flight(self) -> Optional[Dict[str, Any]]:
        """The messages that a child of ours is sending now."""
        return self.value.get("flight")

    def add(self, item: Item) -> None:
        """Queue an item; another of the same kind and subject is counted, not queued again."""
        for known in self.waiting:
            if known["key"] == item["key"] and not self._flies(known):
                known.update(text=item["text"], last=item["last"], priority=item["priority"], to=item["to"])
                known["count"] += item["count"]
                return
        self.waiting.append(item)
        if len(self.waiting) > _MOST_ITEMS:
            gone = self.waiting.pop(next((i for i, one in enumerate(self.waiting) if not one["rush"]), 0))
            self.value["dropped"] = int(self.value.get("dropped") or 0) + int(gone["count"])

    def due(self, now_unix: float, channels: List[str]) -> Dict[str, List[Item]]:
        """Return what each channel is to be sent now; empty while it is too early or too often."""
        if self.flight or not self.waiting:
            return {}
        known = set(channels)
        for item in list(self.waiting):
            item["to"] = [name for name in item["to"] if name in known]  # a channel may have been removed
            if not item["to"]:
                self.waiting.remove(item)
        rush = any(item["rush"] for item in self.waiting)
        ripe = rush or any(now_unix - item["at"] >= SETTLE_S or item["at"] > now_unix for item in self.waiting)
        if not ripe or not self._allowed(now_unix, rush):
            return {}
        tells = {}
        for name in channels:
            items = [item for item in self.waiting if name in item["to"]]
            if items and self._patience(name).get("next_unix", 0) <= now_unix:
                tells[name] = items
        return tells

    def depart(self, flight: Dict[str, Any], now_unix: float) -> None:
        """Record what is being sent, before it is sent."""
        self.value["flight"] = flight
        self.value["sent"] = [*self._lately(now_unix), now_unix]
        self.value["limited"] = False

    def land(self, channel: str, problem: str, wait_s: float, now_unix: float) -> Dict[str, Any]:
        """Record the outcome for one channel; return what changed: a streak of failures that began or ended."""
        keys = ((self.flight or {}).get("tells") or {}).get(channel) or []
        patience = self._patience(channel)
        if problem:
            tries = int(patience.get("tries") or 0) + 1
            pause_s = max(wait_s, pause_after(tries, _RETRY_S))
            began = patience.get("since_unix") or now_unix
            again_unix = now_unix + pause_s
            self._channels()[channel] = {"tries": tries, "next_unix": again_unix, "since_unix": began, "why": problem}
            return {"failed": problem} if tries == 1 else {}
        for item in list(self.waiting):
            if [item["key"], item["last"]] in keys:
                item["to"] = [name for name in item["to"] if name != channel]
        self.value["waiting"] = [item for item in self.waiting if item["to"]]
        self._channels().pop(channel, None)
        return {"back_after_s": round(now_unix - patience["since_unix"])} if patience else {}

    def landed(self) -> None:
        """Record that nothing is being sent any more."""
        self.value.pop("flight", None)
        self.value["dropped"] = 0

    def failing_since(self, channel: str) -> float:
        """Return since when this channel has been failing; 0 when it is not."""
        return float(self._patience(channel).get("since_unix") or 0.0)

    def _allowed(self, now_unix: float, rush: bool) -> bool:
        lately = self._lately(now_unix)
        if rush:
            return len(lately) < RUSHED_PER_HOUR
        allowed = len(lately) < PER_HOUR and (not lately or now_unix - lately[-1] >= GAP_S)
        self.value["limited"] = self.value.get("limited") or not allowed
        return allowed

    def _lately(self, now_unix: float) -> List[float]:
        """Return when notices were sent in the last hour; drop times that a clock set back has put into the future."""
        return [at for at in self.value.get("sent") or [] if 0 <= now_unix - at < _HOUR_S]

    def _flies(self, item: Item) -> bool:
        tells = (self.flight or {}).get("tells") or {}
        return any([item["key"], item["last"]] in keys for keys in tells.values())

    def _channels(self) -> Dict[str, Any]:
        found: Dict[str, Any] = self.value.setdefault("channels", {})
        return found

    def _patience(self, channel: str) -> Dict[str, Any]:
        return dict(self._channels().get(channel) or {})

    def _mark(self) -> Optional[Tuple[int, ...]]:
        try:
            seen = os.stat(self._path)
        except OSError:
            return None
        return (seen.st_ino, seen.st_mtime_ns, seen.st_size)
