"""Walk one filesystem and sort its contents into units: bounded in time and memory, on one disk, without links."""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set

from . import classes
from .units import Tally, Unit

_DEPTH = 200
_LOOK_EVERY = 256  # entries between two looks at the clock
_TELL_EVERY_S = 1.0
_MANY_IMAGES = 500
_MOST_CHECKPOINTS = 2000  # in one folder
_STATE_BYTES = 16 << 20
_NAMED_UNREAD = 20


class Bounds(NamedTuple):
    """How long to look, and the size from which a folder is worth listing."""

    deadline: float
    folder_bytes: int
    folder_inodes: int


class _Frame:
    """One folder that is being read."""

    def __init__(self, path: str, entries: Iterator["os.DirEntry[str]"], unit: Optional[Unit], info: Any) -> None:
        self.path = path
        self.entries = entries
        self.unit = unit  # the unit of everything below; None while it is unknown
        self.info = info
        self.loose_bytes = 0
        self.loose_inodes = 0
        self.checkpoints: List[Unit] = []
        self.pointed: Set[str] = set()  # names that links in this folder point to
        self.sums: Dict[str, List[int]] = {}  # images and the like: bytes, count
        self.is_environment = False


class Walk:
    """One walk over one filesystem."""

    def __init__(self, root: str, known: Mapping[str, str], bounds: Bounds, tell: Callable[[Dict[str, Any]], None]):
        self.tally = Tally(os.geteuid())
        self.complete = True
        self.unread: List[str] = []  # the first of the folders that could not be opened
        self.unread_count = 0
        self.stopped_at = ""
        self._root = root
        self._known = known
        self._bounds = bounds
        self._tell = tell
        self._told = time.monotonic()
        self._device = -1

    def run(self, top: str) -> None:
        """Walk everything below top that is on top's own device."""
        info = os.lstat(top)
        self._device = info.st_dev
        stack = [frame for frame in [self._open(top, info, None)] if frame]
        while stack:
            frame = stack[-1]
            entry = next(frame.entries, None) if self.complete else None
            if entry is None:
                self._leave(stack.pop(), stack[-1] if stack else None)
                continue
            below = self._take(frame, entry, len(stack))
            if below is not None:
                stack.append(below)
            if self.tally.entries % _LOOK_EVERY == 0:
                self._look_at_clock(frame.path)

    def _open(self, path: str, info: os.stat_result, above: Optional[_Frame]) -> Optional[_Frame]:
        unit = above.unit if above else None
        kind = self._kind(path, unit)
        if kind and (unit is None or unit.path != path):
            if unit is not None:
                unit.divided = True
            unit = Unit(kind, path, info, True)
        elif unit is None and above is not None and classes.is_checkpoint_folder(os.path.basename(path)):
            unit = Unit("checkpoint", path, info, True)
            above.checkpoints.append(unit)
        entries: Iterator["os.DirEntry[str]"]
        try:
            entries = os.scandir(path)
        except OSError:
            self._cannot_read(path)
            entries = iter(())
        frame = _Frame(path, entries, unit, info)
        self._count(frame, info)
        return frame

    def _kind(self, path: str, unit: Optional[Unit]) -> str:
        """Return the class of the unit that begins with this folder; empty when it belongs to its parent's."""
        if unit is None:
            return self._known.get(path, "") or classes.folder_class(path, self._root)
        if unit.kind.startswith("ours."):
            return ""  # a run's folder belongs to the run as a whole
        if classes.part_of_cache(unit.kind, os.path.basename(path)):
            return unit.kind
        return self._known.get(path, "")

    def _take(self, frame: _Frame, entry: "os.DirEntry[str]", depth: int) -> Optional[_Frame]:
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            return None
        if stat.S_ISDIR(info.st_mode):
            if info.st_dev != self._device:  # only of folders: overlays give their files other numbers
                return None  # another disk mounted below this one does not fill it
            frame.is_environment = frame.is_environment or entry.name == "conda-meta"
            if depth >= _DEPTH:
                self._cannot_read(entry.path)
                return None
            return self._open(entry.path, info, frame)
        if stat.S_ISLNK(info.st_mode):
            self._note_link(frame, entry)
        if frame.unit is None and stat.S_ISREG(info.st_mode):
            frame.is_environment = frame.is_environment or entry.name == "pyvenv.cfg"
            if self._file(frame, entry, info):
                return None
        self._count(frame, info)
        return None

    def _count(self, frame: _Frame, info: os.stat_result) -> None:
        size, inodes = self.tally.add(frame.unit, info)
        if frame.unit is None:
            frame.loose_bytes += size
            frame.loose_inodes += inodes

    def _file(self, frame: _Frame, entry: "os.DirEntry[str]", info: os.stat_result) -> bool:
        """Give a file of its own class a unit of its own; return whether it has one."""
        kind = classes.file_class(entry.name, info.st_size)
        if kind in ("images", "tensorboard"):
            total = frame.sums.setdefault(kind, [0, 0])
            total[0] += info.st_blocks * 512
            total[1] += 1
            return False
        if kind == "checkpoint" and len(frame.checkpoints) >= _MOST_CHECKPOINTS:
            return False
        if not kind or kind == "core" and not classes.is_core(entry.path):
            return False
        unit = Unit(kind, entry.path, info, False)
        self.tally.add(unit, info)
        if kind == "checkpoint":
            frame.checkpoints.append(unit)
        else:
            self.tally.keep(unit)
        return True

    def _note_link(self, frame: _Frame, entry: "os.DirEntry[str]") -> None:
        try:
            frame.pointed.add(os.path.basename(os.readlink(entry.path).rstrip("/")))
        except OSError:
            return

    def _leave(self, frame: _Frame, above: Optional[_Frame]) -> None:
        close = getattr(frame.entries, "close", None)
        if close is not None:
            close()
        for unit in _aged(frame.checkpoints, frame.pointed):
            self.tally.keep(unit)
        if frame.unit is not None:
            frame.unit.partial = frame.unit.partial or not self.complete
            if frame.unit.path == frame.path and frame.unit.kind != "checkpoint":
                self.tally.keep(frame.unit)
            return
        kind = self._folder_kind(frame)
        if not kind and above is not None:
            above.loose_bytes += frame.loose_bytes
            above.loose_inodes += frame.loose_inodes
            return
        unit = Unit(kind or "folder", frame.path, frame.info, True)
        unit.bytes, unit.inodes, unit.divided = frame.loose_bytes, frame.loose_inodes, True
        self.tally.keep(unit)

    def _folder_kind(self, frame: _Frame) -> str:
        """Return the class of a folder whose loose files are worth a unit; empty leaves them to the folder above."""
        if frame.is_environment:
            return "environment"
        for kind, (_, count) in frame.sums.items():
            if count >= _MANY_IMAGES and 2 * count >= frame.loose_inodes:
                return kind
        big = frame.loose_bytes >= self._bounds.folder_bytes or frame.loose_inodes >= self._bounds.folder_inodes
        return "folder" if big else ""

    def _cannot_read(self, path: str) -> None:
        self.unread_count += 1
        if len(self.unread) < _NAMED_UNREAD:
            self.unread.append(path)

    def _look_at_clock(self, path: str) -> None:
        now = time.monotonic()
        if now > self._bounds.deadline:
            self.complete, self.stopped_at = False, path
        if now - self._told >= _TELL_EVERY_S:
            self._told = now
            self._tell({"entries": self.tally.entries, "bytes": self.tally.bytes, "at": path})


def _aged(found: List[Unit], pointed: Set[str]) -> List[Unit]:
    """Mark each checkpoint of a folder as the best, the last, or an old one that newer ones replaced."""
    families: Dict[str, List[Unit]] = {}
    for unit in found:
        name = os.path.basename(unit.path)
        if classes.says_best(name):
            unit.kind = "checkpoint.best"
        elif name in pointed or classes.step_of(name) is None:
            unit.kind = "checkpoint.last"
        else:
            families.setdefault(classes.family_of(name), []).append(unit)
    for members in families.values():
        newest = max(members, key=lambda unit: unit.newest_unix)
        furthest = max(members, key=lambda unit: classes.step_of(os.path.basename(unit.path)) or 0)
        best = {_best_of(furthest), _best_of(newest)}
        for unit in members:
            kept = "last" if unit in (newest, furthest) else "best" if os.path.basename(unit.path) in best else "old"
            unit.kind = "checkpoint." + kept
    return found


def _best_of(unit: Unit) -> str:
    """Return the checkpoint that the Hugging Face trainer recorded as the best so far."""
    path = os.path.join(unit.path, "trainer_state.json")
    try:
        if not unit.is_folder or os.lstat(path).st_size > _STATE_BYTES:
            return ""
        with open(path, "rb") as file:
            said = json.loads(file.read().decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    best = said.get("best_model_checkpoint") if isinstance(said, dict) else None
    return os.path.basename(best.rstrip("/")) if isinstance(best, str) else ""
