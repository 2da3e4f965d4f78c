"""Files that are small or plain, and that cost a careless reader memory or time out of all proportion."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.unit.kit.readers.forge import (
    LEGACY_MAGIC,
    called,
    dcp_object,
    finished,
    mapping,
    named,
    number,
    text,
    torch_legacy,
    torch_zip,
)


def laughs(generations: int = 30) -> bytes:
    """A pickle's list that holds ten of another, which holds ten of another: 359 bytes, 10**30 items when printed."""
    lists = (b"](" + b"h%c" % n * 10 + b"eq%c0" % (n + 1) for n in range(generations))
    return b"]q\x000" + b"".join(lists) + b"h%c" % generations


def legacy_protocol(value: bytes) -> bytes:
    """A legacy file whose protocol version is something else."""
    return LEGACY_MAGIC + b"\x80\x02" + value + b"."


def list_of_range(count: int) -> bytes:
    """A checkpoint that asks for list(range(count)): 399 bytes for as much memory as its writer likes."""
    made = called("__builtin__.list", called("__builtin__.xrange", number(count)))
    return torch_zip(finished(mapping({"x": made})))


def bytearray_of(count: int) -> bytes:
    """A checkpoint that asks for bytearray(count)."""
    return torch_zip(finished(mapping({"x": called("__builtin__.bytearray", number(count))})))


def legacy_pickles(size_bytes: int, value: bytes = b"N0") -> bytes:
    """A legacy file whose value is preceded by as many operations as fit; each of them does nothing that stays."""
    filler = value * (size_bytes // len(value))
    tail = mapping({"step": number(3)})
    return torch_legacy(filler + tail, keys=(), raw=b"")


def floats(count: int) -> bytes:
    """A checkpoint with a plain list of numbers: what a training script that keeps its losses writes."""
    one = b"G" + struct.pack(">d", 0.25)
    batch = b"(" + one * 1000 + b"e"
    return torch_zip(finished(mapping({"losses": b"]" + batch * (count // 1000)})), {})


def long_text(size_bytes: int) -> bytes:
    """A checkpoint with one text of this length, with a letter at its end that takes four bytes for each in memory."""
    raw = b"a" * (size_bytes - 4) + "😀".encode()
    return torch_zip(finished(mapping({"x": b"X" + struct.pack("<I", len(raw)) + raw})), {})


def dcp_parts(count: int) -> Iterator[bytes]:
    """The list of a DCP folder with this many parts, in pieces."""
    index, place = "metadata.MetadataIndex", "filesystem._StorageInfo"
    yield b"\x80\x02" + named("torch.distributed.checkpoint.metadata.Metadata") + b")\x81}("
    yield text("state_dict_metadata") + b"}("
    for at in range(count):
        yield text(f"v{at}") + dcp_object("metadata.BytesStorageMetadata", {})
    yield b"u" + text("storage_data") + b"}("
    for at in range(count):
        yield dcp_object(index, {"fqn": text(f"v{at}"), "offset": b"N"})
        yield dcp_object(place, {"relative_path": text("s"), "offset": number(at), "length": number(1)})
    yield b"uub."


def nested_tuples(depth: int) -> list[bytes]:
    """A key whose hash costs 2**depth steps to whoever computes it."""
    return [b")"] + [b"2\x86"] * depth
