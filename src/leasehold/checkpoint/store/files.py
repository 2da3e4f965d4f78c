"""Write a snapshot so that it is whole or absent, and read a file back with every byte checked."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Tuple

from leasehold.checkpoint.state.leaves import make_again
from leasehold.checkpoint.state.snapshot import Snapshot
from leasehold.checkpoint.state.tree import rebuild
from leasehold.kit.files.atomic import replacing, write_all
from leasehold.kit.files.checkpoint_file import (
    DIGEST_AT,
    TREE,
    Damaged,
    Header,
    chunk_spans,
    parse_header,
    root_digest,
    spell_header,
)

from .direct import Arriving, put_past_cache
from .shelf import temp_name

_MAX_HASHERS = 8


class Written(NamedTuple):
    """A file that is on the disk."""

    path: str
    bytes: int
    digest: str


def write_file(path: str, snapshot: Snapshot, facts: Dict[str, str]) -> Written:
    """Write to a temporary sibling, hash meanwhile, fsync, then rename it into place."""
    with replacing(path, temp_name(path)) as fd:
        snapshot.wait()
        written = _write(fd, snapshot, facts)
    return Written(path, *written)


class Loaded:
    """A file that was found whole. Its memory stays until the last view of it is gone."""

    def __init__(self, header: Header, data: memoryview) -> None:
        self.header = header
        self._data = data
        self._tree = json.loads(bytes(self._bytes(TREE)).decode("ascii"))
        self._copies: Dict[Tuple[str, str], Any] = {}

    @property
    def parts(self) -> List[str]:
        """List the available parts."""
        return list(self._tree)

    def part(self, name: str, borrowed: bool = False) -> Any:
        """Rebuild a part; borrowed arrays are views of the file, for a caller that copies them at once."""
        return rebuild(self._tree[name], self._view if borrowed else self._copy)

    def _view(self, name: str, library: str) -> Any:
        return make_again(self.header.entries[name], library, self._data)

    def _copy(self, name: str, library: str) -> Any:
        """Copy once, so that what was one array in two places is one again."""
        if (name, library) not in self._copies:
            view = self._view(name, library)
            copied = view.clone() if library == "torch" else view.copy() if library == "numpy" else view
            self._copies[name, library] = copied
        return self._copies[name, library]

    def _bytes(self, name: str) -> memoryview:
        entry = self.header.entries[name]
        return self._data[entry.begin : entry.end]


def load_file(path: str) -> Loaded:
    """Load a checkpoint into memory and check its digest; raise Damaged if it is not what was written."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Damaged("it cannot be opened: %s" % error.strerror) from error
    try:
        header = parse_header(fd)
        return Loaded(header, _checked(Arriving(fd, header.data_at, header.data_bytes), header))
    except OSError as error:
        raise Damaged("it cannot be read: %s" % error.strerror) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged("its contents cannot be understood: %s" % str(error)[:120]) from error
    finally:
        os.close(fd)


def _write(fd: int, snapshot: Snapshot, facts: Dict[str, str]) -> Tuple[int, str]:
    header = spell_header(snapshot.entries, facts)
    data = memoryview(snapshot.buffer)[: snapshot.data_bytes]
    with _pool() as pool:
        hashes = [pool.submit(_sha256, data[begin:end]) for begin, end in chunk_spans(snapshot.data_bytes)]
        put_past_cache(fd, data, len(header))
        digest = root_digest(header, [hashed.result() for hashed in hashes])
    os.lseek(fd, 0, os.SEEK_SET)
    write_all(fd, header[:DIGEST_AT] + digest.encode("ascii") + header[DIGEST_AT + len(digest) :])
    return len(header) + snapshot.data_bytes, digest


def _checked(arriving: Arriving, header: Header) -> memoryview:
    """Hash every chunk as it arrives; return the data if the digest matches."""
    with _pool() as pool:
        hashes = [pool.submit(_sha256, arriving.data[begin:end]) for begin, end in arriving]
        found = root_digest(header.raw, [hashed.result() for hashed in hashes])
    if found != header.digest:
        raise Damaged("its bytes do not have the digest it was written with")
    return arriving.data


def _sha256(data: memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(_MAX_HASHERS, os.cpu_count() or 1), "leasehold-hash")
