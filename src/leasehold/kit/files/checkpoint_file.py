"""The file a Checkpointer writes: plain safetensors whose metadata carries facts and a digest of every byte.

Layout: 8 bytes of length, a JSON header padded so that data begins on a page, tensors end to end, widest first,
so that each lies aligned. The tensor named TREE holds the shape of the saved Python values as JSON text. The digest is
sha256(header with the digest as zeros + sha256 of each CHUNK_BYTES of data), so threads can share the work.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

SCHEMA = "leasehold.checkpoint/1"
SUFFIX = ".safetensors"
TREE = "leasehold.tree"
PICKLED = "leasehold.pickled."  # tensors of this name hold a pickle: what no plain value could represent
CHUNK_BYTES = 16 << 20
PAGE_BYTES = 4096
_NO_DIGEST = "0" * 64
_LEAD = b'{"__metadata__":{"digest":"'
DIGEST_AT = 8 + len(_LEAD)
_MAX_HEADER_BYTES = 100_000_000  # what the safetensors library accepts


class Damaged(Exception):
    """The file is not what its writer wrote; str() describes what was found."""


class Entry(NamedTuple):
    """One tensor of the file; begin and end count from the start of the data."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """The contents of a file's header."""

    facts: Dict[str, str]
    entries: Dict[str, Entry]
    data_at: int
    data_bytes: int
    raw: bytes  # with the digest as zeros
    digest: str


def spell_header(entries: Iterable[Entry], facts: Dict[str, str]) -> bytes:
    """Encode the beginning of a file, with zeros for its digest."""
    spelled = {
        entry.name: {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [entry.begin, entry.end]}
        for entry in entries
    }
    metadata = {"digest": _NO_DIGEST, "schema": SCHEMA, **facts}
    text = json.dumps({"__metadata__": metadata, **spelled}, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    assert text.startswith(_LEAD)
    text += b" " * (-(8 + len(text)) % PAGE_BYTES)
    return len(text).to_bytes(8, "little") + text


def root_digest(raw_header: bytes, chunks: Iterable[bytes]) -> str:
    """Combine the header and the digests of all chunks into one."""
    root = hashlib.sha256(raw_header)
    for chunk in chunks:
        root.update(chunk)
    return root.hexdigest()


def chunk_spans(data_bytes: int) -> List[Tuple[int, int]]:
    """List where each chunk of data begins and ends."""
    return [(at, min(at + CHUNK_BYTES, data_bytes)) for at in range(0, data_bytes, CHUNK_BYTES)]


def parse_header(fd: int) -> Header:
    """Read the beginning of an open file of ours, or raise Damaged. The digest is not checked here."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, 8, 0)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
        raise Damaged("the file has %d bytes, its header claims %d" % (size, length))
    text = os.pread(fd, length, 8)
    if len(text) != length or not text.startswith(_LEAD):
        raise Damaged("it does not begin as a checkpoint of ours")
    digest = text[len(_LEAD) : len(_LEAD) + 64]
    raw = head + _LEAD + _NO_DIGEST.encode() + text[len(_LEAD) + 64 :]
    try:
        spelled = json.loads(text.decode("ascii"))
        facts = spelled.pop("__metadata__")
        entries = {name: _entry(name, fields) for name, fields in spelled.items()}
        ours = facts["schema"] == SCHEMA
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged("its header cannot be read: %s" % str(error)[:120]) from error
    if not ours:
        raise Damaged("its schema is %r, this version reads %s" % (str(facts["schema"])[:60], SCHEMA))
    data_at, data_bytes = 8 + length, max([entry.end for entry in entries.values()] or [0])
    if size != data_at + data_bytes:
        raise Damaged("the file has %d bytes, its header accounts for %d" % (size, data_at + data_bytes))
    return Header(facts, entries, data_at, data_bytes, raw, digest.decode("ascii", "replace"))


def _entry(name: str, fields: Any) -> Entry:
    begin, end = (int(at) for at in fields["data_offsets"])
    if not 0 <= begin <= end:
        raise ValueError("tensor %r has offsets %d to %d" % (name[:60], begin, end))
    return Entry(name, str(fields["dtype"]), tuple(int(size) for size in fields["shape"]), begin, end)
