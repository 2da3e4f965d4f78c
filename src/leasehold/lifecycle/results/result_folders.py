"""A run's result folders at home, used by one `lease` at a time, and the check for room."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leasehold.errors import HomeError
from leasehold.kit.files.file_lock import try_lock
from leasehold.model.run.note import Note, Report
from leasehold.model.values.units import say_bytes

_SPARE_BYTES = 64 << 20
_SPARE_INODES = 16
_LOCK_POLL_S = 0.1


def private(folder: Path) -> None:
    """Create a folder private to its owner: logs and checkpoints may hold secrets. An existing one is not changed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@dataclass(frozen=True)
class Folders:
    """A run's result folders at home."""

    results: Path
    run: str

    @property
    def export(self) -> Path:
        """Return the folder of sealed and verified results."""
        return self.results / "export" / self.run

    @property
    def partial(self) -> Path:
        """Return the folder of an unfinished pull; it is on the same filesystem as export."""
        return self.results / "export" / ".partial" / self.run

    @property
    def evacuated(self) -> Path:
        """Return the folder of files taken from a run that still works; no receipt covers them."""
        return self.results / "evacuated" / self.run

    def quarantine(self, why: str) -> Path:
        """Return a fresh folder for what failed."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return self.results / "quarantine" / f"{self.run}--{why}-{stamp}-{os.urandom(6).hex()}"

    @property
    def roofs(self) -> tuple[Path, ...]:
        """List every folder at home that may hold files of this run."""
        aside = self.results / "quarantine"
        kept = sorted(path for path in aside.glob(f"{self.run}--*") if path.is_dir()) if aside.is_dir() else []
        return (self.export, self.evacuated, *reversed(kept))

    def make(self) -> None:
        """Create the folders; refuse with a way out if nothing can be written."""
        try:
            self.results.mkdir(parents=True, exist_ok=True)
            private(self.export.parent)
            self.partial.parent.mkdir(exist_ok=True)
            ignore = self.results / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise HomeError(
                "home.unwritable", f"{self.results}: {error}", hint="choose another folder: --results DIR"
            ) from None

    @property
    def states(self) -> Path:
        """Return the folder of states that came home: a refuge of its own, for all runs."""
        return self.results / "states"

    @contextlib.contextmanager
    def one_at_a_time(self, report: Report, what: str = "") -> Iterator[None]:
        """Lock the folders: one `lease` at a time brings this run home; the others wait and then find it done."""
        if sys.platform == "win32":  # no lock here: two simultaneous pulls of one run are not fenced
            yield
            return
        path = str(self.partial.parent / f".{self.run}{what and f'--{what}'}.lock")
        lock = try_lock(path)
        if lock is None:
            report(Note("waiting", f"another lease is bringing {what or 'this run'} home; waiting for it"))
            while lock is None:
                time.sleep(_LOCK_POLL_S)
                lock = try_lock(path)
        try:
            yield
        finally:
            os.close(lock)

    def check_room(self, folder: Path, need_bytes: int, need_files: int) -> None:
        """Refuse before any byte is fetched if what is missing does not fit, by bytes or by inodes."""
        free = shutil.disk_usage(folder).free
        if need_bytes + _SPARE_BYTES > free:
            raise HomeError(
                "home.disk_short",
                f"{self.results} has {say_bytes(free)} free; the results need {say_bytes(need_bytes)}",
                seen=f"{free} bytes free, {need_bytes} to come, {_SPARE_BYTES} kept spare",
                hint="free some space or choose another folder with --results DIR; nothing on the box was touched",
            )
        inodes = _free_inodes(folder)
        if inodes is not None and inodes < need_files + _SPARE_INODES:
            raise HomeError(
                "home.inodes_short",
                f"{self.results} has {inodes} inodes left; the results need {need_files}",
                hint="remove small files, or choose another folder with --results DIR",
            )


def _free_inodes(folder: Path) -> int | None:
    """Count free inodes, or return None; Windows and some filesystems do not count them."""
    if sys.platform == "win32":
        return None
    disk = os.statvfs(folder)
    return disk.f_favail if disk.f_files else None
