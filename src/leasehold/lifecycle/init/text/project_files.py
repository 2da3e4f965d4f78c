"""The files of a project, read within bounds: no link is followed, only regular files are read, sizes are limited."""

from __future__ import annotations

import os
import stat
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from leasehold.errors import UserError
from leasehold.kit.text.safe_text import one_line

from .project_facts import Sign, Where

MAX_FILES = 20_000
MAX_FOLDERS = 4_000
MAX_DEPTH = 12
MAX_FILE_BYTES = 512 << 10
MAX_TOTAL_BYTES = 12 << 20
_NOT_ENTERED = {
    "__pycache__", "node_modules", "site-packages", "build", "dist", "wandb", "mlruns", "lightning_logs",
    "lease-results", "outputs", "multirun", "tests", "test",
}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Limits on what is read."""

    files: int = MAX_FILES
    file_bytes: int = MAX_FILE_BYTES
    total_bytes: int = MAX_TOTAL_BYTES


@dataclass
class Listing:
    """Paths below a folder, shallowest first, and a reader that enforces the limits."""

    folder: Path
    limits: Limits = Limits()
    paths: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    unread: list[Sign] = field(default_factory=list)
    truncated: bool = False
    _read_bytes: int = 0

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None after noting the reason."""
        try:
            content = _read_regular(self.folder / path, self.limits.file_bytes)
        except (OSError, ValueError) as error:
            self.pass_over(path, str(getattr(error, "strerror", None) or error))
            return None
        self._read_bytes += len(content)
        if self._read_bytes > self.limits.total_bytes:
            self.truncated = True
            self.pass_over(path, f"more than {self.limits.total_bytes >> 20} MiB were read before it")
            return None
        return content

    def text(self, path: str) -> str | None:
        """Return a file's text; bytes that are not UTF-8 become replacement characters."""
        content = self.read(path)
        if content is not None and b"\0" in content[:4096]:
            self.pass_over(path, "binary")
            return None
        return content.decode("utf-8", "replace") if content is not None else None

    def pass_over(self, path: str, why: str) -> None:
        """Note that a file was skipped."""
        self.unread.append(Sign(why, Where(path)))


def list_project(folder: Path, limits: Limits = Limits()) -> Listing:  # noqa: B008  frozen
    """List a project breadth first, so that the limit cuts off deep files rather than shallow ones."""
    if not folder.is_dir():
        raise UserError(
            "init.no_folder",
            f"{one_line(str(folder))} is not a folder",
            hint="lease init FOLDER, the one with your code",
        )
    found = Listing(folder, limits)
    waiting = deque([("", 0)])
    while waiting:
        inside, depth = waiting.popleft()
        for name in _list_one(found, inside):
            path = f"{inside}/{name}" if inside else name
            if depth >= MAX_DEPTH or len(found.folders) >= MAX_FOLDERS or len(found.paths) >= limits.files:
                found.truncated = True
                break
            found.folders.append(path)
            if name not in _NOT_ENTERED and not name.startswith("."):
                waiting.append((path, depth + 1))
    return found


def _list_one(found: Listing, inside: str) -> list[str]:
    """List one folder's files; return the names of its subfolders."""
    try:
        with os.scandir(found.folder / inside) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        found.pass_over(inside or ".", error.strerror or "unreadable")
        return []
    if any(entry.name == "pyvenv.cfg" for entry in listed):
        return []
    folders = []
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
            continue
        if len(found.paths) >= found.limits.files:
            found.truncated = True
            break
        if entry.is_file(follow_symlinks=False):
            found.paths.append(f"{inside}/{entry.name}" if inside else entry.name)
    return folders


def _read_regular(path: Path, most: int) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise ValueError("not a regular file")
        if info.st_size > most:
            raise ValueError(f"larger than {most >> 10} KiB")
        return file.read(most)
