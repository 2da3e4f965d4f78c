"""A zip's central directory, read by one strict interpretation so that no two readers can see two archives.

Only what torch.save and numpy.savez write is accepted: no comment, no bytes before the first entry, one disk,
the directory ending exactly where its end record begins.
"""

from __future__ import annotations

import stat
import struct
from dataclasses import dataclass
from typing import Dict, List, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import Limits, Unreadable, legible

STORED = 0
DEFLATED = 8
HAS_DESCRIPTOR = 0x08
ZIP64_EXTRA = 1
MAX_16 = 0xFFFF
MAX_32 = 0xFFFFFFFF

_MAX_NAME_CHARS = 1024
_DOS_FOLDER = 0x10

_END = struct.Struct("<4s4H2IH")
_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
# Bits 1 and 2: how hard deflate tried; 3: descriptor; 11: UTF-8 names. The rest is encryption and patches.
_KNOWN_FLAGS = 0x02 | 0x04 | HAS_DESCRIPTOR | 0x800


@dataclass(frozen=True)
class Entry:
    """One member as the central directory describes it."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    stored_bytes: int
    bytes: int
    header_at: int


def read_directory(
    source: Source, limits: Limits, any_names: bool = False, folders: bool = False
) -> Tuple[List[Entry], int]:
    """Return the entries in directory order, and the offset at which the directory begins.

    `any_names`: the archive is never unpacked, its names are keys and not paths. `folders`: they may be listed.
    """
    count, size, start = _find_directory(source)
    if count > limits.max_zip_entries or size > limits.max_zip_directory_bytes:
        raise Unreadable(f"zip directory claims {count} entries in {size} bytes; that many are not read")
    raw = source.read_at(start, size)
    entries, at = [], 0
    for _ in range(count):
        entry, at = _parse_entry(raw, at, any_names, folders)
        entries.append(entry)
    if at != size:
        raise Unreadable(f"zip directory has {size - at} bytes after its {count} entries")
    _check_distinct(entries)
    return entries, start


def _find_directory(source: Source) -> Tuple[int, int, int]:
    """Return entry count, size and offset of the central directory."""
    end_at = source.size - _END.size
    if end_at < 0 or source.read_at(end_at, 4) != b"PK\x05\x06":
        raise Unreadable("zip end record is missing: the file is cut short, is not a zip, or has bytes after its end")
    fields = _END.unpack(source.read_at(end_at, _END.size))
    disk, directory_disk, here, count, size, start, comment = fields[1:]
    if disk or directory_disk or here != count or comment:
        raise Unreadable("zip end record claims several disks or a comment")
    directory_end = end_at
    # Some readers use the 64-bit records whenever they are present, so they must agree with the short ones.
    if end_at >= _LOCATOR.size and source.read_at(end_at - _LOCATOR.size, 4) == b"PK\x06\x07":
        directory_end, wide = _read_end64(source, end_at - _LOCATOR.size)
        for short, limit, long in zip((count, size, start), (MAX_16, MAX_32, MAX_32), wide):
            if short not in (limit, long):
                raise Unreadable(f"zip end records disagree: {short} and {long}")
        count, size, start = wide
    if start + size != directory_end:
        raise Unreadable(f"zip directory should end at byte {directory_end}, its record says {start + size}")
    return count, size, start


def _read_end64(source: Source, locator_at: int) -> Tuple[int, Tuple[int, int, int]]:
    _, disk, end64_at, disks = _LOCATOR.unpack(source.read_at(locator_at, _LOCATOR.size))
    if disk or disks != 1 or end64_at + _END64.size != locator_at:
        raise Unreadable("zip64 locator does not point at the record before it")
    fields = _END64.unpack(source.read_at(end64_at, _END64.size))
    magic, length, _, _, disk, directory_disk, here, count, size, start = fields
    if magic != b"PK\x06\x06" or length != _END64.size - 12 or disk or directory_disk or here != count:
        raise Unreadable("zip64 end record is malformed")
    return end64_at, (count, size, start)


def _parse_entry(raw: bytes, at: int, any_names: bool, folders: bool) -> Tuple[Entry, int]:
    if at + _CENTRAL.size > len(raw):
        raise Unreadable("zip directory ends inside an entry")
    fields = _CENTRAL.unpack_from(raw, at)
    magic, _, _, flags, method, _, _, crc, stored, size, name_len, extra_len, note_len, disk = fields[:14]
    name_at = at + _CENTRAL.size
    end = name_at + name_len + extra_len + note_len
    if magic != b"PK\x01\x02" or end > len(raw) or disk or note_len:
        raise Unreadable(f"zip directory entry at byte {at} is malformed")
    raw_name = raw[name_at : name_at + name_len]
    is_folder = folders and raw_name.endswith(b"/") and len(raw_name) > 1
    name = check_name(raw_name[:-1], any_names) + "/" if is_folder else check_name(raw_name, any_names)
    if is_folder and (stored or size or stat.S_IFMT(fields[15] >> 16) not in (0, stat.S_IFDIR)):
        raise Unreadable(f"zip entry {name!r} is named as a folder and is none")
    if not is_folder and not _is_plain_file(fields[15]):
        raise Unreadable(f"zip entry {name!r} is marked as a folder, a link or a device: torch reads no bytes of it")
    if flags & ~_KNOWN_FLAGS:
        raise Unreadable(f"zip entry {name!r} is encrypted or uses unknown features (flags {flags:#x})")
    size, stored, offset = _widen(raw[name_at + name_len : end], (size, stored, fields[16]), name)
    return Entry(name, raw_name, flags, method, crc, stored, size, offset), end


def _is_plain_file(attributes: int) -> bool:
    """Return whether neither the DOS half (bit 4: a folder) nor the Unix half marks an entry as anything but a file."""
    return not attributes & _DOS_FOLDER and stat.S_IFMT(attributes >> 16) in (0, stat.S_IFREG)


def _widen(extra: bytes, values: Tuple[int, int, int], name: str) -> Tuple[int, int, int]:
    """Replace each saturated 32-bit value by the next one of the zip64 field; the order is the format's."""
    wide = parse_extra(extra, name).get(ZIP64_EXTRA, b"")
    found, at = [], 0
    for value in values:
        if value == MAX_32:
            if at + 8 > len(wide):
                raise Unreadable(f"zip entry {name!r} lacks a 64-bit size")
            value, at = int.from_bytes(wide[at : at + 8], "little"), at + 8
        found.append(value)
    return found[0], found[1], found[2]


def parse_extra(extra: bytes, name: str) -> Dict[int, bytes]:
    """Split an extra area into its fields; readers disagree on a duplicate tag, so it is refused."""
    fields: Dict[int, bytes] = {}
    at = 0
    while at < len(extra):
        tag = int.from_bytes(extra[at : at + 2], "little")
        length = int.from_bytes(extra[at + 2 : at + 4], "little")
        if at + 4 + length > len(extra) or tag in fields:
            raise Unreadable(f"zip entry {name!r} has a malformed extra area")
        fields[tag] = extra[at + 4 : at + 4 + length]
        at += 4 + length
    return fields


def check_name(raw: bytes, any_names: bool = False) -> str:
    """Return an entry's name; one that could mean a path outside is refused, unless the archive is never unpacked."""
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"zip entry name {legible(repr(raw))} is not UTF-8") from error
    if len(name) > _MAX_NAME_CHARS:
        raise Unreadable(f"zip entry name of {len(name)} characters, beginning with {legible(ascii(name))}")
    if any_names and name.isprintable() and ".." not in name.replace("\\", "/").split("/"):
        return name
    if not name.isprintable() or "\\" in name or ":" in name:
        raise Unreadable(f"zip entry name {legible(ascii(name))} holds characters that no archive of ours has")
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise Unreadable(f"zip entry name {legible(ascii(name))} is not a plain relative path")
    return name


def _check_distinct(entries: List[Entry]) -> None:
    seen = set()
    for entry in entries:
        if entry.name in seen:
            raise Unreadable(f"zip names {legible(entry.name)!r} twice")
        seen.add(entry.name)
