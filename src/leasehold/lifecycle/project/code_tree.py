"""The code that is sent: tracked and untracked-but-not-ignored files of the project, by content."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.files.code_tree import check_link, tree_hash, tree_text
from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.files.sha256 import blocks, hash_blocks
from leasehold.kit.wire.frames import CHUNK_BYTES

from .excluded import below
from .hash_cache import TreeMemory
from .leaseignore import LeaseIgnore, Place, is_other_job, read_ignore
from .local_data import DataTree

RESULTS = "lease-results"
_SKIPPED_FOLDERS = {
    ".git",
    ".hg",
    ".svn",
    "__pycache__",
    ".venv",
    "venv",
    "node_modules",
    ".mypy_cache",
    RESULTS,
}
_MAX_CODE_BYTES = 2 << 30
_CRLF_LOOK_BYTES = 64 << 10
_SENT_UNASKED_BYTES = 256 << 10


@dataclass(frozen=True)
class CodeTree:
    """A project's code at this moment."""

    folder: Path
    entries: tuple[dict[str, Any], ...]
    hashed: frozenset[str] = frozenset()  # paths that were read now; the sums of all others were known
    left_out: frozenset[str] = frozenset()  # leasehold's own folders in it that would have been sent: "state/"
    laid_out_for: Path | None = None  # the project that it was read from, when its files were copied elsewhere
    data: tuple[DataTree, ...] = ()  # files that the job names beside the code
    beside: frozenset[str] = frozenset()  # paths that are sent but change no run's identity: notes, images, other jobs

    @property
    def project(self) -> Path:
        """Return the folder that it is the code of."""
        return self.laid_out_for or self.folder

    @cached_property
    def text(self) -> bytes:
        """Return the list of files whose hash names the tree."""
        return tree_text(self.entries)

    @cached_property
    def sha256(self) -> str:
        """Return the tree's name on every box."""
        return sha256(self.text).hexdigest()

    @cached_property
    def identity(self) -> str:
        """Return the hash of the files that count; runs are named after it."""
        return tree_hash(self.counting) if self.beside else self.sha256

    @property
    def counting(self) -> list[dict[str, Any]]:
        """Return the files that make up a run's identity."""
        return [entry for entry in self.entries if entry["path"] not in self.beside]

    @property
    def changed(self) -> tuple[dict[str, Any], ...]:
        """Return the files edited since the last command, if they are small: no box is likely to have them."""
        found = tuple(entry for entry in self.entries if entry["path"] in self.hashed)
        small = sum(int(entry["bytes"]) for entry in found) <= _SENT_UNASKED_BYTES
        return found if small and 2 * len(found) < len(self.entries) else ()

    @property
    def inodes(self) -> int:
        """Return how many files and folders a copy of it makes."""
        above = (str(entry["path"]).rpartition("/")[0] for entry in self.entries)
        folders = {"/".join(parts[:depth]) for parts in map(_split, set(above)) for depth in range(1, len(parts) + 1)}
        return len(self.entries) + len(folders)

    @property
    def total_bytes(self) -> int:
        """Return how many bytes are sent to an empty box."""
        return sum(int(entry.get("bytes", 0)) for entry in self.entries)

    def read(self, entry: dict[str, Any]) -> Iterator[bytes]:
        """Yield a file's bytes, never more than were hashed."""
        missing = int(entry["bytes"])
        with open(self.folder / entry["path"], "rb", buffering=0) as file:
            while missing and (chunk := file.read(min(CHUNK_BYTES, missing))):
                missing -= len(chunk)
                yield chunk


def read_tree(
    folder: Path, leave_out: str = "", ours: Sequence[Path] = (), memory: Path | None = None, apart: Sequence[str] = ()
) -> CodeTree:
    """Hash the project's files except the job file, whose promises may change; refuse what cannot be sent.

    Files in leasehold's own folders (results, home) are not code: they change with every command.
    Files under `apart` are data, which is sent separately.
    memory is a file that keeps sums between calls: a file with the same size, times and inode is not read again.
    """
    ignore = read_ignore(folder)
    listing = _ask_git(folder)  # git runs while the known files are checked
    known = TreeMemory(memory)
    unchanged = known.unchanged(str(folder))
    entries = []
    total = 0
    own = (*below(folder, ours), *apart)
    left_out: set[str] = set()
    beside: set[str] = set()
    for path in sorted(_paths(folder, listing)):
        place = ignore.place(path)
        if path == leave_out or place is Place.HOME:
            continue
        if own and (stays := [prefix for prefix in own if f"{path}/".startswith(prefix)]):
            left_out.update(stays)
            continue
        noted, mode = unchanged.get(path, (None, 0))
        if noted is not None:
            known.keep(path, noted)
        entry = _entry(folder, path, known) if noted is None else _file_entry(path, noted[0], noted[4], mode)
        if entry is None:
            continue
        entries.append(entry)
        if place is Place.BESIDE or _is_other_job(folder, path, ignore):
            beside.add(path)
        total += int(entry.get("bytes", 0))
        if total > _MAX_CODE_BYTES:
            raise UserError(
                "code.too_big",
                f"{folder} holds more than {_MAX_CODE_BYTES >> 30} GiB of code",
                hint="data and checkpoints do not travel with the code: ignore them in .gitignore or .leaseignore",
            )
    known.save()
    return CodeTree(folder, tuple(entries), frozenset(known.read), frozenset(left_out), beside=frozenset(beside))


def _is_other_job(folder: Path, path: str, ignore: LeaseIgnore) -> bool:
    return path.endswith((".yaml", ".yml")) and not ignore.keeps(path) and is_other_job(folder, path)


def _split(folder: str) -> list[str]:
    return folder.split("/") if folder else []


def refuse_crlf(tree: CodeTree) -> None:
    """Refuse a shell script with Windows line ends: on the box it fails with misleading errors."""
    for entry in tree.entries:
        path = str(entry["path"])
        if "link" in entry or not (path.endswith((".sh", ".bash")) or entry.get("exec")):
            continue
        with open(tree.folder / path, "rb") as file:
            head = file.read(_CRLF_LOOK_BYTES)
        script = path.endswith((".sh", ".bash")) or head.startswith(b"#!")
        if script and b"\r\n" in head:
            fix = f"sed -i 's/\\r$//' {shlex.quote(path)}; and in .gitattributes: *.sh text eol=lf"
            raise UserError("code.crlf", f"{path} has Windows line ends; its shell would not understand it", hint=fix)


def _ask_git(folder: Path) -> subprocess.Popen[bytes] | None:
    asked = [
        "git",
        "-C",
        str(folder),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
    ]
    try:
        return subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except (FileNotFoundError, PermissionError):  # no git, or none that may be started
        return None


def _paths(folder: Path, listing: subprocess.Popen[bytes] | None) -> list[str]:
    if listing is None:
        return _walk(folder)
    with listing:
        said, _ = listing.communicate()
    if listing.returncode != 0:
        return _walk(folder)
    names = [os.fsdecode(name) for name in said.split(b"\0") if name]
    kept = [name for name in names if not _SKIPPED_FOLDERS & set(name.split("/"))]  # also a link named .venv
    return kept or _walk(folder)  # a project inside a folder that an outer repository ignores


def _walk(folder: Path) -> list[str]:
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in [*(name for name in files if name not in _SKIPPED_FOLDERS), *links]:
            found.append(os.path.relpath(os.path.join(where, name), folder).replace(os.sep, "/"))
    return found


def _entry(folder: Path, path: str, known: TreeMemory) -> dict[str, Any] | None:
    full = f"{folder}/{path}"
    try:
        check_relative(path)
        info = os.lstat(full)
        if stat.S_ISLNK(info.st_mode):
            return {"path": path, "link": check_link(path, os.readlink(full))}
    except FileNotFoundError:  # deleted but still in git's index
        return None
    except NotADirectoryError:
        return None
    except (UnsafePath, ValueError) as error:
        raise UserError("code.unsafe_path", f"{folder}: {error}", hint="rename or ignore it") from None
    if not stat.S_ISREG(info.st_mode):  # a submodule's folder, a socket
        return None
    return _file_entry(path, *_hashed(full, path, known), info.st_mode)


def _file_entry(path: str, size: int, digest: str, mode: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": path, "bytes": size, "sha256": digest}
    if mode & 0o111:
        entry["exec"] = True
    return entry


def _hashed(full: str, path: str, known: TreeMemory) -> tuple[int, str]:
    try:
        with open(full, "rb", buffering=0) as file:
            size, digest = hash_blocks(blocks(file.read))
            known.note(path, os.fstat(file.fileno()), size, digest)
    except OSError as error:
        raise UserError("code.unreadable", f"{full}: {error}", hint="fix its permissions, or ignore it") from None
    return size, digest
