"""Which pod may work on a run: each takes the next epoch on the run's volume, and a later one ends the earlier.

A Job may start the same program twice, and a lost node's pod may live on. A new pod therefore waits until the one
before it has left, is proven dead by a kernel lock on the same node, or has given no sign of life for half a minute.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any, Callable, Dict, Mapping, Optional

from leasehold.caretaker.process.locks import Superseded
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.files.file_lock import try_lock
from leasehold.kit.run.processes import boot_id

VARIABLE = "LEASE_POD_EPOCH"
QUIET_S = 30.0
_EPOCH = re.compile(r"epoch-(\d{6})\.json\Z")
_PAUSE_S = 0.2


def pods_folder(folder: RunFolder) -> str:
    """Return the folder of the records of a run's pods."""
    return os.path.join(folder.path, "pods")


def newest(folder: RunFolder) -> int:
    """Return the last epoch that was taken; 0 where none was."""
    try:
        found = [_EPOCH.match(name) for name in os.listdir(pods_folder(folder))]
    except FileNotFoundError:
        return 0
    return max((int(match.group(1)) for match in found if match), default=0)


class Epoch:
    """One pod's turn at a run."""

    def __init__(self, folder: RunFolder, number: int, lock: Optional[int]) -> None:
        self.folder = folder
        self.number = number
        self._lock = lock  # held as long as we live, where the volume has kernel locks

    @classmethod
    def take(cls, folder: RunFolder, environ: Mapping[str, str], quiet_s: float = QUIET_S) -> "Epoch":
        """Take the next epoch, and wait until no earlier pod works; raise Superseded when a later one comes."""
        os.makedirs(pods_folder(folder), exist_ok=True)
        who = {"pod": environ.get("LEASE_POD_NAME", ""), "node": environ.get("LEASE_POD_NODE", ""), "boot": boot_id()}
        number = _claim(folder, who)
        lock = _wait_for_earlier(folder, number, who, quiet_s)
        epoch = cls(folder, number, lock)
        epoch.check()
        return epoch

    def check(self) -> None:
        """Raise Superseded once a later epoch was taken."""
        if os.path.exists(_path(self.folder, self.number + 1)):
            raise Superseded(_path(self.folder, self.number + 1))

    def beat(self) -> None:
        """Show that this pod lives."""
        with contextlib.suppress(OSError):
            os.utime(_path(self.folder, self.number))

    def leave(self, said: str) -> None:
        """Record that nothing of this pod works on the run any more."""
        with contextlib.suppress(OSError):
            write_json(_over(self.folder, self.number), {"said": said, "at_unix": round(time.time(), 3)})


def fence_of(folder: RunFolder, environ: Mapping[str, str]) -> Callable[[], None]:
    """Return the check that a caretaker makes before each event; outside pods it does nothing."""
    number = environ.get(VARIABLE, "")
    return Epoch(folder, int(number), None).check if number.isdigit() else _nothing


def _nothing() -> None:
    pass


def _claim(folder: RunFolder, who: Dict[str, Any]) -> int:
    while True:
        number = newest(folder) + 1
        try:
            descriptor = os.open(_path(folder, number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        os.close(descriptor)
        write_json(_path(folder, number), dict(who, at_unix=round(time.time(), 3)))
        return number


def _wait_for_earlier(folder: RunFolder, number: int, who: Mapping[str, Any], quiet_s: float) -> Optional[int]:
    lock_path = os.path.join(pods_folder(folder), "lock")
    before = read_json(_path(folder, number - 1)) if number > 1 else None
    here = before is not None and (before.get("node"), before.get("boot")) == (who["node"], who["boot"])
    lock = try_lock(lock_path)
    beat, seen_at = _beat_of(folder, number - 1), time.monotonic()
    while before is not None and not os.path.exists(_over(folder, number - 1)):
        lock = try_lock(lock_path) if lock is None else lock
        if here and lock is not None:
            break  # the kernel of this node says that it is dead
        now = _beat_of(folder, number - 1)
        if now != beat:
            beat, seen_at = now, time.monotonic()
        if time.monotonic() - seen_at >= quiet_s:
            break
        if os.path.exists(_path(folder, number + 1)):
            raise Superseded(_path(folder, number + 1))
        time.sleep(_PAUSE_S)
    return lock


def _beat_of(folder: RunFolder, number: int) -> int:
    try:
        return os.stat(_path(folder, number)).st_mtime_ns
    except OSError:
        return 0


def _path(folder: RunFolder, number: int) -> str:
    return os.path.join(pods_folder(folder), "epoch-%06d.json" % number)


def _over(folder: RunFolder, number: int) -> str:
    return os.path.join(pods_folder(folder), "epoch-%06d.over" % number)
