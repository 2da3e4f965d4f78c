"""Write a snapshot so that it is whole or absent, and read a file back with every byte checked."""

from __future__ import annotations

import contextlib
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Tuple

from leasehold.kit.atomic import fsync_folder, write_all
from leasehold.kit.checkpoint_file import (
    DIGEST_AT,
    TREE,
    Damaged,
    Header,
    chunk_spans,
    parse_header,
    root_digest,
    spell_header,
)

from .leaves import make_again
from .snapshot import Snapshot, anonymous
from .tree import rebuild

_MAX_HASHERS = 8


class Written(NamedTuple):
    """A file that is on the disk."""

    path: str
    bytes: int
    digest: str


def write_file(path: str, snapshot: Snapshot, facts: Dict[str, str]) -> Written:
    """Write beside the path, hash meanwhile, force to the disk, then rename over it."""
    temp = temp_name(path)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        try:
            snapshot.wait()
            written = _write(fd, snapshot, facts)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    fsync_folder(os.path.dirname(path) or ".")
    return Written(path, *written)


def temp_name(path: str) -> str:
    """Name the sibling that a file is written to first."""
    return os.path.join(os.path.dirname(path), ".%s.%d.tmp" % (os.path.basename(path), os.getpid()))


class Loaded(NamedTuple):
    """A file that was read and found whole."""

    path: str
    header: Header
    value: Any


def load_file(path: str) -> Loaded:
    """Read a checkpoint into fresh memory and check its digest; raise Damaged if it is not what was written."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Damaged("it cannot be opened: %s" % error.strerror) from error
    try:
        header = parse_header(fd)
        buffer = _read_checked(fd, header)
    except OSError as error:
        raise Damaged("it cannot be read: %s" % error.strerror) from error
    finally:
        os.close(fd)
    made: Dict[Tuple[str, str], Any] = {}

    def array(name: str, library: str) -> Any:
        if (name, library) not in made:
            made[name, library] = make_again(header.entries[name], library, buffer)
        return made[name, library]

    text = bytes(array(TREE, "bytes")).decode("ascii")
    return Loaded(path, header, rebuild(text, array))


def _write(fd: int, snapshot: Snapshot, facts: Dict[str, str]) -> Tuple[int, str]:
    header = spell_header(snapshot.entries, facts)
    data = memoryview(snapshot.buffer)[: snapshot.data_bytes]
    with _pool(spare=1) as pool:  # one core is for the writing itself
        hashes = [pool.submit(_sha256, data[begin:end]) for begin, end in chunk_spans(snapshot.data_bytes)]
        write_all(fd, header)
        for begin, end in chunk_spans(snapshot.data_bytes):
            write_all(fd, data[begin:end])
        digest = root_digest(header, [hashed.result() for hashed in hashes])
    os.pwrite(fd, digest.encode("ascii"), DIGEST_AT)
    return len(header) + snapshot.data_bytes, digest


def _read_checked(fd: int, header: Header) -> Any:
    buffer = anonymous(header.data_bytes)
    view = memoryview(buffer)

    def take(span: Tuple[int, int]) -> bytes:
        _fill(fd, view[span[0] : span[1]], header.data_at + span[0])
        return _sha256(view[span[0] : span[1]])

    with _pool() as pool:
        hashes: List[bytes] = list(pool.map(take, chunk_spans(header.data_bytes)))
    if root_digest(header.raw, hashes) != header.digest:
        raise Damaged("its bytes do not have the digest it was written with")
    return buffer


def _fill(fd: int, view: memoryview, at: int) -> None:
    while view:
        if hasattr(os, "preadv"):
            got = os.preadv(fd, [view], at)
        else:  # PyPy, old macOS
            data = os.pread(fd, len(view), at)
            got = len(data)
            view[:got] = data
        if not got:
            raise Damaged("it ended at byte %d" % at)
        view, at = view[got:], at + got


def _sha256(data: memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def _pool(spare: int = 0) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, min(_MAX_HASHERS, (os.cpu_count() or 1) - spare)), "leasehold-hash")
