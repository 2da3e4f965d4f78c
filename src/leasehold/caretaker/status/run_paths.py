"""Resolve a descriptor, a mapping or a working folder to its place in a run's folders, whatever path it shows.

A path alone proves nothing: the same file has another one through a hard link, a mount of its folder elsewhere, a
container's mounts, or a cell's folder that was moved to another disk and left a link. These are compared by inode.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Dict, Iterator, List, NamedTuple, Tuple

from leasehold.caretaker.run.run_folder import RunFolder

AREAS = ("out", "work", "cells")
DELETED = " (deleted)"

_MOST_INODES = 200_000
_PSEUDO = ("/dev/", "/proc/", "/sys/", "/memfd:")
_SHARED = re.compile(rb"^\S+ .w.s \S+ (\S+) (\d+)[ ]+(/.*)$", re.MULTILINE)
_ESCAPED = re.compile(r"\\([0-7]{3})")


class _Place(NamedTuple):
    """A folder that counts: its real path, and its path within the run's folder."""

    real: str  # with a trailing slash
    shown: str


class RunPlaces:
    """The folders of a run, or of one of its cells, at one moment."""

    def __init__(self, folder: RunFolder, cell: str = "") -> None:
        top = os.path.realpath(folder.path)
        self._places = list(_places(top, cell))
        self._aliases = _aliases([place.real for place in self._places])
        self._inodes: Dict[Tuple[int, int], str] = {}
        self._on_disk: Dict[Tuple[str, int], str] = {}  # as /proc/PID/maps writes the device
        self._looked = False
        self._whole = True  # every file of the folders has been looked at

    def of_link(self, link: str, apart: bool) -> str:
        """Return the path within the run's folder of a link below /proc; empty where it leads elsewhere."""
        try:
            path = os.readlink(link)
        except OSError:
            return ""
        shown = self._shown(path)
        if shown or not path.startswith("/") or path.startswith(_PSEUDO):
            return shown
        try:
            info = os.stat(link)
        except OSError:
            return ""
        return self._by_number(info) if apart or self._has_other_names(path, info) else ""

    def of_mapping(self, maps: bytes, apart: bool) -> str:
        """Return the first file of ours that a process can write through its memory mappings; empty if none."""
        for device, number, raw in _SHARED.findall(maps):
            path = os.fsdecode(raw)
            shown = self._shown(path)
            if shown:
                return shown
            if path.startswith(_PSEUDO) or not (apart or self._may_be_here(path, int(number))):
                continue
            self._look()
            shown = self._on_disk.get((device.decode("ascii"), int(number)), "")
            if shown:
                return shown
        return ""

    def _shown(self, path: str) -> str:
        bare = path[: -len(DELETED)] if path.endswith(DELETED) else path
        for place in self._places:
            if (bare + "/").startswith(place.real):
                return place.shown + path[len(place.real) - 1 :]
        return ""

    def _may_be_here(self, path: str, number: int) -> bool:
        """Return whether a mapped file may have another name in our folders; one that cannot be found any more may."""
        try:
            info = os.stat(path)
        except OSError:
            return True
        return info.st_ino != number or self._has_other_names(path, info)

    def _has_other_names(self, path: str, info: os.stat_result) -> bool:
        if path.endswith(DELETED):
            return info.st_nlink > 0
        linked = stat.S_ISREG(info.st_mode) and info.st_nlink > 1
        return linked or any((path + "/").startswith(alias) for alias in self._aliases)

    def _by_number(self, info: os.stat_result) -> str:
        self._look()
        found = self._inodes.get((info.st_dev, info.st_ino), "")
        if not found and not self._whole and any(info.st_dev == device for device, _ in self._inodes):
            return "one of its many files, perhaps,"
        return found

    def _look(self) -> None:
        if self._looked:
            return
        self._looked = True
        for place in self._places:
            for folder, _, names in os.walk(place.real):
                for name in [".", *names]:
                    self._note(place, os.path.normpath(os.path.join(folder, name)))
                if len(self._inodes) > _MOST_INODES:
                    self._whole = False
                    return

    def _note(self, place: _Place, path: str) -> None:
        try:
            info = os.lstat(path)
        except OSError:
            return
        shown = place.shown + (path + "/")[len(place.real) - 1 : -1]
        self._inodes.setdefault((info.st_dev, info.st_ino), shown)
        device = "%02x:%02x" % (os.major(info.st_dev), os.minor(info.st_dev))
        self._on_disk.setdefault((device, info.st_ino), shown)


def _places(top: str, cell: str) -> Iterator[_Place]:
    """List the areas; a cell's folder that is a link to elsewhere counts where it lies."""
    for area in AREAS:
        above = "%s/%s" % (top, area)
        for name in [cell] if cell else ["", *_names(above)]:
            shown = "%s/%s" % (area, name) if name else area
            real = os.path.realpath("%s/%s" % (top, shown))
            if not name or cell or not real.startswith(above + "/"):
                yield _Place(real.rstrip("/") + "/", shown)


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _aliases(folders: List[str]) -> List[str]:
    """List where else the disks of these folders are mounted: their files may have other paths there."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(" ", 5) for line in file]
    except OSError:
        return []
    points = [(_plain(row[4]).rstrip("/") + "/", row[2]) for row in rows if len(row) > 5]
    under = [
        max((one for one in points if folder.startswith(one[0])), key=_depth, default=("", "")) for folder in folders
    ]
    own, disks = {point for point, _ in under}, {disk for _, disk in under}
    return [point for point, disk in points if disk in disks and point not in own]


def _depth(mount: Tuple[str, str]) -> int:
    return len(mount[0])


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), text)
