"""Tar shards (webdataset): every header's checksum, every name safe, nothing but files, and an end marker."""

from __future__ import annotations

import re
from typing import Dict, Tuple

from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import KeyList, Limits, Reading, Unreadable, legible

_BLOCK = 512
_FILES = (b"0", b"\0", b"7")
_NAME_BYTES = 1 << 16
_OCTAL = re.compile(rb" *([0-7]{0,12})[ \0]*")
_NUMBERS = ((100, 108), (108, 116), (116, 124), (136, 148), (329, 337), (337, 345))  # mode to device; size is apart
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def read_tar(source: Source, limits: Limits) -> Reading:
    """Walk the headers from the first byte to the two empty blocks that end a tar."""
    keys, notes = KeyList(limits), []
    at = members = 0
    extended = False
    pending: Dict[str, str] = {}
    while True:
        block = source.read_at(at, _BLOCK)
        if not any(block):
            break
        kind, name, size = _header(block, at)
        data_at = at + _BLOCK
        at = data_at + -(-size // _BLOCK) * _BLOCK
        if at > source.size:
            raise Unreadable("cut short: %s ends at byte %d, the tar has %d" % (legible(name), at, source.size))
        if kind in (b"L", b"x", b"g"):
            found = _extension(source, kind, data_at, size)
            if pending.keys() & found.keys():
                raise Unreadable("two extensions name one member (byte %d): readers differ about which one counts" % at)
            pending.update(found)
            extended = True
            continue
        extended = False
        if kind == b"5" and size:  # some readers skip the size of a folder, some its bytes
            raise Unreadable("the folder %s has %d bytes: readers differ about what follows" % (legible(name), size))
        members += 1
        if members > limits.max_items:
            raise Unreadable("holds more than %d members" % limits.max_items)
        name = pending.pop("path", name)
        _check_member(kind, name, at)
        keys.add(name.rpartition("/")[2].partition(".")[2] or name)
    if extended:
        raise Unreadable("ends with an extension that belongs to no member")
    _check_end(source, at)
    if not members:
        notes.append("holds no members")
    return Reading("tar", source.size, 0, members, keys.names(), (), tuple(notes + keys.notes()))


def _header(block: bytes, at: int) -> Tuple[bytes, str, int]:
    claimed = _octal(block[148:156], "checksum", at)
    if sum(block[:148]) + sum(block[156:]) + 8 * 32 != claimed:
        raise Unreadable("header at byte %d is damaged: its checksum is wrong" % at)
    for begin, end in _NUMBERS:
        field = block[begin:end]
        if field[0] not in (0x80, 0xFF):  # base 256
            _octal(field, "number", at)
    name = block[:100].split(b"\0")[0]
    is_posix = block[257:263] == b"ustar\0"
    if block[345] and not is_posix:
        raise Unreadable("header at byte %d has a prefix and is not POSIX: readers differ about its name" % at)
    prefix = block[345:500].split(b"\0")[0] if is_posix else b""
    full = (prefix + b"/" + name if prefix else name).decode("utf-8", "surrogateescape")
    return block[156:157], full, _octal(block[124:136], "size", at)


def _octal(field: bytes, what: str, at: int) -> int:
    found = _OCTAL.fullmatch(field)
    if not found:
        raise Unreadable("header at byte %d has no octal number as its %s" % (at, what))
    return int(found.group(1) or b"0", 8)


def _extension(source: Source, kind: bytes, at: int, size: int) -> Dict[str, str]:
    """Read a long name, or the fields of a pax header that change what follows."""
    if size > _NAME_BYTES:
        raise Unreadable("an extension at byte %d has %d bytes; at most %d are read" % (at, size, _NAME_BYTES))
    data = source.read_at(at, size)
    if kind == b"L":
        return {"path": data.rstrip(b"\0").decode("utf-8", "surrogateescape")}
    fields = {}
    while data:
        length, space, rest = data.partition(b" ")
        if not space or not length.isdigit() or len(length) > 6 or not 5 <= int(length) <= len(data):
            raise Unreadable("a pax header at byte %d is malformed" % at)
        record, data = data[len(length) + 1 : int(length)], data[int(length) :]
        key, _, value = record.rstrip(b"\n").partition(b"=")
        fields[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
    _check_fields(fields, kind)
    return {"path": fields["path"]} if "path" in fields else {}


def _check_fields(fields: Dict[str, str], kind: bytes) -> None:
    """Refuse fields that would give members another size or content, and names that apply to all that follow."""
    if "size" in fields:
        raise Unreadable("a member's size is given by an extension, which is for files above 8 GiB")
    sparse = next((key for key in fields if key.startswith("GNU.sparse.")), None)
    if sparse is not None:
        raise Unreadable("is a sparse tar (%s): readers differ about what its members hold" % legible(sparse))
    if kind == b"g" and ("path" in fields or "linkpath" in fields):
        raise Unreadable("a global extension names every member that follows")


def _check_member(kind: bytes, name: str, at: int) -> None:
    if kind == b"5":
        name = name.rstrip("/") or "."
    elif kind not in _FILES:
        raise Unreadable("%s is not a file (type %r): links and devices are refused" % (legible(name), kind))
    if name in (".", "./"):
        return
    if _CONTROL.search(name):
        raise Unreadable("member before byte %d: the name %s holds control characters" % (at, legible(name)))
    try:
        check_relative(name[2:] if name.startswith("./") else name)
    except UnsafePath as problem:
        raise Unreadable("member before byte %d: %s" % (at, legible(str(problem)))) from problem


def _check_end(source: Source, at: int) -> None:
    for piece in source.pieces(at, source.size - at):
        if any(piece):
            raise Unreadable("bytes that are not zero lie behind the end of the tar (byte %d)" % at)
    if source.size - at < 2 * _BLOCK:
        raise Unreadable("cut short: a tar ends with two empty blocks, here is one")
