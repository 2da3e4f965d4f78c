"""Find files that live processes have open, run in, or have mapped (never to be moved); and deleted files in use."""

from __future__ import annotations

import bisect
import os
import stat
import time
from typing import Any, Dict, Iterable, List, Set, Tuple

_MAPS_BYTES = 8 << 20
_BLOCK = 512
_NAMED_DELETED = 50


class OpenFiles:
    """One look at every process that we may inspect."""

    def __init__(self, proc: str = "/proc", leave_out: Iterable[int] = ()) -> None:
        self._by_path: Dict[str, Set[int]] = {}
        self._by_inode: Dict[Tuple[int, int], Set[int]] = {}
        self._deleted: Dict[Tuple[int, int], Dict[str, Any]] = {}
        self.unread = 0  # other users' processes: what they have open stays unknown
        self._taken_s = time.monotonic()
        left_out = {os.getpid(), *leave_out}
        for name in os.listdir(proc):
            if name.isdigit() and int(name) not in left_out:
                self._look(proc, int(name))
        self._paths = sorted(self._by_path)

    def users_of(self, path: str, identity: Tuple[int, int]) -> List[int]:
        """List the processes that have this file, or anything below this folder, open."""
        found = set(self._by_inode.get(identity, ()))
        found.update(self._by_path.get(path, ()))
        below = path.rstrip("/") + "/"
        at = bisect.bisect_left(self._paths, below)
        while at < len(self._paths) and self._paths[at].startswith(below):
            found.update(self._by_path[self._paths[at]])
            at += 1
        return sorted(found)

    @property
    def age_s(self) -> float:
        """Return the age of this look in seconds."""
        return time.monotonic() - self._taken_s

    def deleted(self, devices: Set[int]) -> List[Dict[str, Any]]:
        """List deleted files on these disks that processes still hold, biggest first."""
        here = [item for (device, _), item in self._deleted.items() if device in devices and item["bytes"]]
        return sorted(here, key=lambda item: -int(item["bytes"]))[:_NAMED_DELETED]

    def _look(self, proc: str, pid: int) -> None:
        folder = "%s/%d" % (proc, pid)
        try:
            names = os.listdir(folder + "/fd")
        except FileNotFoundError:
            return
        except OSError:
            self.unread += 1
            return
        for name in ["fd/" + number for number in names] + ["cwd", "exe", "root"]:
            self._note(pid, os.path.join(folder, name))
        self._note_mapped(pid, folder + "/maps")

    def _note(self, pid: int, link: str) -> None:
        try:
            info = os.stat(link)
            path = os.readlink(link)
        except OSError:
            return
        if path == "/" or not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            return
        key = (info.st_dev, info.st_ino)
        if info.st_nlink == 0 and stat.S_ISREG(info.st_mode):
            held = self._deleted.setdefault(key, {"path": path, "bytes": info.st_blocks * _BLOCK, "pids": []})
            if pid not in held["pids"]:
                held["pids"].append(pid)
            return
        self._by_path.setdefault(path, set()).add(pid)
        if stat.S_ISREG(info.st_mode):
            self._by_inode.setdefault(key, set()).add(pid)

    def _note_mapped(self, pid: int, path: str) -> None:
        try:
            with open(path, "rb") as file:
                text = file.read(_MAPS_BYTES)
        except OSError:
            return
        for name in {line[line.index(b"/") :] for line in text.split(b"\n") if b"/" in line}:
            self._by_path.setdefault(os.fsdecode(name), set()).add(pid)
