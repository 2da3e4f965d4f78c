"""The data of a job: files and folders of this machine, hashed once, listed as the box will have them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from leasehold.errors import UserError
from leasehold.kit.files.code_tree import tree_text
from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.files.sha256 import blocks, hash_blocks
from leasehold.kit.wire.frames import CHUNK_BYTES
from leasehold.model.job.job import Job, LocalData
from leasehold.model.run.note import Note, Report
from leasehold.model.values.units import say_bytes

from .hash_cache import TreeMemory

_SAY_EVERY_S = 5.0
_SAID_FROM_BYTES = 1 << 30  # less is read in a few seconds


@dataclass(frozen=True)
class DataTree:
    """One entry of `data:` at this moment."""

    item: LocalData
    source: Path  # the source: a file, or the folder of these files
    entries: tuple[dict[str, Any], ...]

    @cached_property
    def text(self) -> bytes:
        """Return the list of files whose hash names the entry."""
        return tree_text(self.entries)

    @cached_property
    def sha256(self) -> str:
        """Return its name on every box."""
        return sha256(self.text).hexdigest()

    def path(self, entry: dict[str, Any]) -> Path:
        """Return where a file of it lies here."""
        return self.source / str(entry["path"]) if self.item.folder else self.source

    def read(self, entry: dict[str, Any], offset: int) -> Iterator[bytes]:
        """Yield a file's bytes from offset on, never more than were hashed."""
        missing = int(entry["bytes"]) - offset
        with open(self.path(entry), "rb", buffering=0) as file:
            file.seek(offset)
            while missing and (chunk := file.read(min(CHUNK_BYTES, missing))):
                missing -= len(chunk)
                yield chunk


def source_of(item: LocalData, project: Path) -> Path:
    """Find the source of an entry: relative to the job file; `~` is the user's home folder."""
    return Path(os.path.normpath(project / os.path.expanduser(item.source)))


def apart(job: Job, project: Path) -> tuple[str, ...]:
    """Return what is data and so not code, whatever git says of it, as prefixes of the project's paths."""
    found = (os.path.relpath(source_of(item, project), project).replace(os.sep, "/") for item in job.data)
    return tuple(f"{path}/" for path in found if path.split("/")[0] != "..")


def read_data(job: Job, project: Path, memory: Path | None, report: Report) -> tuple[Job, tuple[DataTree, ...]]:
    """Hash the data that the job names and return the job with it; unchanged data is not read again."""
    if not job.data:
        return job, ()
    reader = _Reader(memory.with_suffix(".data.json") if memory else None, report)
    trees = tuple(reader.tree(item, source_of(item, project)) for item in job.data)
    reader.memory.save()
    return replace(job, data=tuple(tree.item for tree in trees)), trees


def count(item: LocalData, project: Path) -> tuple[int, int]:
    """Return how many files an entry has and their size, without reading them; (0, 0) where it is missing."""
    source = source_of(item, project)
    if source.is_file():
        return 1, source.stat().st_size
    sizes = [os.stat(path).st_size for path in _files(source)] if source.is_dir() else []
    return len(sizes), sum(sizes)


def say_data(job: Job, project: Path) -> str:
    """Format the size of the job's data, from file sizes alone: a plan reads none of it."""
    said = []
    for item in job.data:
        files, size = count(item, project)
        many = "1 file" if files == 1 else f"{files:,} files"
        said.append(f"{item.source}, {many}, {say_bytes(size)}" if files else f"{item.source}, which is not there")
    return f"data is uploaded once to each box: {'; '.join(said)}" if said else ""


class _Reader:
    """Hashes files and reports progress: a large file takes minutes the first time."""

    def __init__(self, memory: Path | None, report: Report) -> None:
        self.memory = TreeMemory(memory)
        self._known = self.memory.unchanged("/")
        self._report = report
        self._read = 0
        self._due = time.monotonic() + _SAY_EVERY_S

    def tree(self, item: LocalData, source: Path) -> DataTree:
        if not os.path.lexists(source):
            raise UserError(
                "data.missing", f"data: there is no {item.source}", seen=f"looked for {source}",
                hint="a path in `data:` is relative to the job file",
            )  # fmt: skip
        folder = source.is_dir()
        found = sorted(_files(source)) if folder else [str(source)]
        names = [os.path.relpath(path, source).replace(os.sep, "/") for path in found] if folder else [item.to]
        names = names if folder else [names[0].rpartition("/")[2]]
        entries = tuple(self._entry(item, path, name) for path, name in zip(found, names, strict=True))
        if not entries:
            raise UserError("data.empty", f"data: {item.source} holds no file", hint="leave it out, or fill it")
        tree = DataTree(replace(item, folder=folder), source, entries)
        size = sum(int(entry["bytes"]) for entry in entries)
        return replace(tree, item=replace(tree.item, sha256=tree.sha256, bytes=size, files=len(entries)))

    def _entry(self, item: LocalData, path: str, name: str) -> dict[str, Any]:
        try:
            check_relative(name)
        except UnsafePath as error:
            raise UserError("data.unsafe_path", f"data: {item.source}: {error}", hint="rename it") from None
        real = os.path.realpath(path)
        noted = self._known.get(real.lstrip("/"))
        if noted is not None:
            self.memory.keep(real.lstrip("/"), noted[0])
            return {"path": name, "bytes": noted[0][0], "sha256": noted[0][4]}
        size, digest = self._hash(item, real)
        return {"path": name, "bytes": size, "sha256": digest}

    def _hash(self, item: LocalData, path: str) -> tuple[int, str]:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise UserError("data.no_file", f"data: {path} is no plain file", hint="leave it out of the folder")
            with open(path, "rb", buffering=0) as file:
                before = os.fstat(file.fileno())
                size, digest = hash_blocks(blocks(file.read), each=lambda block: self._tell(item, len(block)))
                after = os.fstat(file.fileno())
        except OSError as error:
            raise UserError("data.unreadable", f"data: {path}: {error}", hint="fix its permissions") from None
        if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, size):
            raise UserError("data.changing", f"data: {path} changed while it was read", hint="wait for its writer")
        self.memory.note(path.lstrip("/"), after, size, digest)
        return size, digest

    def _tell(self, item: LocalData, more: int) -> None:
        self._read += more
        if self._read >= _SAID_FROM_BYTES and time.monotonic() >= self._due:
            self._due = time.monotonic() + _SAY_EVERY_S
            text = f"data {item.source}: {say_bytes(self._read)} read; unchanged files are not read again next time"
            self._report(Note("data_reading", text, {"bytes": self._read}))


def _files(folder: Path) -> Iterator[str]:
    """Yield every file below a folder; a link to a file counts as the file, a link to a folder is refused by name."""
    for where, folders, files in os.walk(folder):
        for name in folders:
            if os.path.islink(path := os.path.join(where, name)):
                raise UserError(
                    "data.link", f"data: {path} is a link to a folder", seen=f"-> {os.readlink(path)}",
                    hint="name the folder itself in `data:`, with a `to` of its own",
                )  # fmt: skip
        for name in files:
            if not os.path.exists(path := os.path.join(where, name)):
                raise UserError("data.link", f"data: {path} is a link to nothing", hint="remove or fix it")
            yield os.path.join(where, name)


def refuse_collisions(job: Job, paths: Sequence[str]) -> None:
    """Refuse data and code that claim the same place in the working folder."""
    for item in job.data:
        for path in paths:
            if f"{path}/".startswith(f"{item.to}/") or f"{item.to}/".startswith(f"{path}/"):
                raise UserError(
                    "data.collides", f"data: {item.to} is where the code has {path}", seen=f"from {item.source}",
                    hint="give the data another `to`, or keep that file out of the code: .leaseignore",
                )  # fmt: skip
