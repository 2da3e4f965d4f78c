"""The members of a zip: local headers proven equal to the directory, contents proven by their CRC."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Callable, Iterator, List, Optional, Tuple, Union

from leasehold.kit.readers.base.bounded_file import CHUNK_BYTES, Source
from leasehold.kit.readers.base.result import Limits, Unreadable, legible

from .zip_directory import DEFLATED, HAS_DESCRIPTOR, MAX_32, STORED, ZIP64_EXTRA, Entry, parse_extra, read_directory

_LOCAL = struct.Struct("<4s5H3I2H")
Look = Callable[[Union[bytes, memoryview]], None]


@dataclass(frozen=True)
class Record:
    """A member whose place in the file is known and not shared."""

    entry: Entry
    data_at: int

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def bytes(self) -> int:
        return self.entry.bytes


def open_archive(source: Source, limits: Limits, any_names: bool = False, folders: bool = False) -> List[Record]:
    """Return the records in directory order, every byte of the file accounted for; contents are unread."""
    entries, directory_at = read_directory(source, limits, any_names, folders)
    _check_inflation(entries, limits)
    records, at = {}, 0
    for entry in sorted(entries, key=lambda each: each.header_at):
        if entry.header_at != at:
            fault = "overlaps the entry before it" if entry.header_at < at else f"leaves {entry.header_at - at} bytes"
            raise Unreadable(f"zip entry {entry.name!r} at byte {entry.header_at} {fault}")
        record = _locate(source, entry)
        records[entry.name] = record
        at = _record_end(source, record, directory_at)
    if at != directory_at:
        raise Unreadable(f"zip has {directory_at - at} bytes between its last entry and its directory")
    return [records[entry.name] for entry in entries]


def check_record(
    source: Source, record: Record, keep_bytes: int = 0, has_crc: bool = True, look: Optional[Look] = None
) -> bytes:
    """Stream a record against its CRC and sizes; return its first `keep_bytes`. `look` receives every piece."""
    kept = bytearray()
    crc = total = 0
    for piece in _contents(source, record):
        if look is not None:
            look(piece)
        crc = zlib.crc32(piece, crc)
        total += len(piece)
        if len(kept) < keep_bytes:
            kept += piece[: keep_bytes - len(kept)]
    if total != record.bytes:
        raise Unreadable(f"zip entry {record.name!r} has {total} bytes, its header says {record.bytes}")
    if has_crc and crc != record.entry.crc:
        raise Unreadable(f"zip entry {record.name!r} is damaged: CRC {crc:08x}, recorded {record.entry.crc:08x}")
    return bytes(kept)


def _check_inflation(entries: List[Entry], limits: Limits) -> None:
    inflated = sum(entry.bytes for entry in entries)
    stored = sum(entry.stored_bytes for entry in entries)
    if inflated > limits.max_inflated_bytes and inflated != stored:
        raise Unreadable(f"zip claims to inflate to {inflated} bytes; at most {limits.max_inflated_bytes} are read")
    if inflated > limits.ratio_free_bytes and inflated > stored * limits.max_inflate_ratio:
        raise Unreadable(f"zip bomb: {stored} stored bytes claim to inflate to {inflated}")


def _locate(source: Source, entry: Entry) -> Record:
    """Find where the contents begin; the local header must agree with the directory."""
    fields = _LOCAL.unpack(source.read_at(entry.header_at, _LOCAL.size))
    magic, _, flags, method, _, _, crc, stored, size, name_len, extra_len = fields
    if magic != b"PK\x03\x04":
        raise Unreadable(f"zip entry {entry.name!r} has no local header at byte {entry.header_at}")
    tail = source.read_at(entry.header_at + _LOCAL.size, name_len + extra_len)
    if tail[:name_len] != entry.raw_name:
        raise Unreadable(f"zip entry {entry.name!r} is called {legible(repr(tail[:name_len]))} by its local header")
    if (flags, method) != (entry.flags, entry.method) or method not in (STORED, DEFLATED):
        raise Unreadable(f"zip entry {entry.name!r} has flags or a method that differ or are unknown")
    if method == STORED and entry.bytes != entry.stored_bytes:
        raise Unreadable(f"zip entry {entry.name!r} is stored plainly, yet has two different sizes")
    extra = parse_extra(tail[name_len:], entry.name)
    stored, size = _local_sizes(extra.get(ZIP64_EXTRA, b""), stored, size)
    deferred = flags & HAS_DESCRIPTOR and (crc, stored, size) == (0, 0, 0)
    if not deferred and (crc, stored, size) != (entry.crc, entry.stored_bytes, entry.bytes):
        raise Unreadable(f"zip entry {entry.name!r}: directory and local header disagree about size or CRC")
    return Record(entry, entry.header_at + _LOCAL.size + name_len + extra_len)


def _local_sizes(wide: bytes, stored: int, size: int) -> Tuple[int, int]:
    if MAX_32 in (stored, size) and len(wide) >= 16:
        return int.from_bytes(wide[8:16], "little"), int.from_bytes(wide[:8], "little")
    return stored, size


def _record_end(source: Source, record: Record, directory_at: int) -> int:
    """Return where the next local header must begin."""
    entry, at = record.entry, record.data_at + record.entry.stored_bytes
    if at > directory_at:
        raise Unreadable(f"zip entry {entry.name!r} claims to end at byte {at}, inside the directory")
    if not entry.flags & HAS_DESCRIPTOR:
        return at
    # A descriptor is 16 bytes, or 24 with 64-bit sizes; nothing states which, so both are compared.
    found = source.read_at(at, min(24, directory_at - at))
    small = max(entry.stored_bytes, entry.bytes) <= MAX_32
    for form in ("<4s3I", "<4sI2Q") if small else ("<4sI2Q",):
        wanted = struct.pack(form, b"PK\x07\x08", entry.crc, entry.stored_bytes, entry.bytes)
        if found.startswith(wanted):
            return at + len(wanted)
    raise Unreadable(f"zip entry {entry.name!r}: the record after its contents disagrees with the directory")


def _contents(source: Source, record: Record) -> Iterator[Union[bytes, memoryview]]:
    stored = source.pieces(record.data_at, record.entry.stored_bytes)
    if record.entry.method == STORED:
        return stored
    return _inflated(stored, record)


def _inflated(stored: Iterator[memoryview], record: Record) -> Iterator[bytes]:
    stream, total = zlib.decompressobj(-zlib.MAX_WBITS), 0
    try:
        for piece in stored:
            waiting: Union[bytes, memoryview] = piece
            while waiting:
                inflated = stream.decompress(waiting, CHUNK_BYTES)
                waiting = stream.unconsumed_tail
                total += len(inflated)
                if total > record.bytes or stream.unused_data:
                    raise Unreadable(f"zip entry {record.name!r} holds more than the {record.bytes} bytes it claims")
                yield inflated
        yield stream.flush()  # at most one match is left inside, a few hundred bytes
    except zlib.error as error:
        raise Unreadable(f"zip entry {record.name!r} does not inflate: {error}") from error
    if not stream.eof:
        raise Unreadable(f"zip entry {record.name!r} is cut short: its deflate stream has no end")
