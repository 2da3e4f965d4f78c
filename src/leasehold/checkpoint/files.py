"""Write a snapshot so that it is whole or absent, and read a file back with every byte checked."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Tuple

from leasehold.kit.atomic import replacing, write_all
from leasehold.kit.checkpoint_file import (
    CHUNK_BYTES,
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
from .snapshot import Snapshot
from .tree import rebuild

_MAX_HASHERS = 8
_AHEAD_BYTES = 4 * CHUNK_BYTES


class Written(NamedTuple):
    """A file that is on the disk."""

    path: str
    bytes: int
    digest: str


def write_file(path: str, snapshot: Snapshot, facts: Dict[str, str]) -> Written:
    """Write beside the path, hash meanwhile, force to the disk, then rename over it."""
    with replacing(path, temp_name(path)) as fd:
        snapshot.wait()
        written = _write(fd, snapshot, facts)
    return Written(path, *written)


def temp_name(path: str) -> str:
    """Name the sibling that a file is written to first."""
    return os.path.join(os.path.dirname(path), ".%s.%d.tmp" % (os.path.basename(path), os.getpid()))


class Loaded:
    """A file that was found whole. It stays mapped until the last view of it is gone."""

    def __init__(self, header: Header, mapped: Any) -> None:
        self.header = header
        self._mapped = memoryview(mapped)[header.data_at :] if header.data_bytes else memoryview(b"")
        self._tree = json.loads(bytes(self._bytes(TREE)).decode("ascii"))
        self._copies: Dict[Tuple[str, str], Any] = {}

    @property
    def parts(self) -> List[str]:
        """Name what can be taken."""
        return list(self._tree)

    def part(self, name: str, borrowed: bool = False) -> Any:
        """Build a part again; borrowed arrays are views of the file, for one who copies them at once."""
        return rebuild(self._tree[name], self._view if borrowed else self._copy)

    def _view(self, name: str, library: str) -> Any:
        return make_again(self.header.entries[name], library, self._mapped)

    def _copy(self, name: str, library: str) -> Any:
        """Copy once, so that what was one array in two places is one again."""
        if (name, library) not in self._copies:
            view = self._view(name, library)
            copied = view.clone() if library == "torch" else view.copy() if library == "numpy" else view
            self._copies[name, library] = copied
        return self._copies[name, library]

    def _bytes(self, name: str) -> memoryview:
        entry = self.header.entries[name]
        return self._mapped[entry.begin : entry.end]


def load_file(path: str) -> Loaded:
    """Map a checkpoint and check its digest; raise Damaged if it is not what was written."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Damaged("it cannot be opened: %s" % error.strerror) from error
    try:
        header = parse_header(fd)
        # Mapped, not read: the bytes are hashed where they lie, and copied once, to where they belong.
        mapped = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)
        _check_digest(fd, mapped, header)
        return Loaded(header, mapped)
    except OSError as error:
        raise Damaged("it cannot be read: %s" % error.strerror) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged("its contents cannot be understood: %s" % str(error)[:120]) from error
    finally:
        os.close(fd)


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


def _check_digest(fd: int, mapped: Any, header: Header) -> None:
    data = memoryview(mapped)[header.data_at :]

    def look(span: Tuple[int, int]) -> bytes:
        if hasattr(os, "posix_fadvise"):  # fetch the next ones while this one is hashed
            os.posix_fadvise(fd, header.data_at + span[0], _AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
        return _sha256(data[span[0] : span[1]])

    with _pool() as pool:
        hashes = list(pool.map(look, chunk_spans(header.data_bytes)))
    if root_digest(header.raw, hashes) != header.digest:
        raise Damaged("its bytes do not have the digest it was written with")


def _sha256(data: memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def _pool(spare: int = 0) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, min(_MAX_HASHERS, (os.cpu_count() or 1) - spare)), "leasehold-hash")
