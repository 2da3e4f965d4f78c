"""Parquet: the footer, every column chunk in its place, every page by its header, size and checksum."""

from __future__ import annotations

import zlib
from typing import Dict, List, NamedTuple, Optional, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Counter
from leasehold.kit.readers.base.result import KeyList, Limits, Numbers, NumberTally, Reading, Unreadable, legible

from .extension_types import pickled_types
from .thrift import Compact, Found, Wanted

_MAGIC = b"PAR1"
_MOST_FOOTER_BYTES = 32 << 20
_MOST_CHUNKS = 500_000
_MOST_PAGE_HEADER_BYTES = 1 << 20
_CODECS = ("none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")
_FLOATS = {4: ("F32", 4), 5: ("F64", 8)}
_PLAIN = 0
_REQUIRED, _REPEATED = 0, 2
_DATA, _DICTIONARY, _DATA2 = 0, 2, 3
_FOOTER: Wanted = {
    1: None,
    2: {1: None, 3: None, 4: None, 5: None},
    3: None,
    4: {1: {1: None, 3: {1: None, 3: None, 4: None, 5: None, 6: None, 7: None, 9: None, 11: None}}, 3: None},
    6: None,
}
_PAGE: Wanted = {
    1: None, 2: None, 3: None, 4: None, 5: {1: None, 2: None}, 7: {1: None, 2: None},
    8: {1: None, 2: None, 4: None, 5: None, 6: None, 7: None},
}  # fmt: skip


class _Column(NamedTuple):
    """A leaf of the schema: the depth at which its values may be missing or repeated."""

    path: str
    kind: int
    may_miss: int
    may_repeat: int


class _Chunk(NamedTuple):
    """A column of a row group: the place of its pages."""

    column: _Column
    codec: int
    values: int
    begin: int
    end: int


def read_parquet(source: Source, limits: Limits) -> Reading:
    """Read the footer, then walk the pages of every column chunk."""
    footer, footer_at = _footer(source)
    columns = _columns(_list(footer, 2), limits)
    chunks, elsewhere = _chunks(_list(footer, 4), columns, footer_at)
    pages = _Pages(source)
    for chunk in chunks:
        pages.walk(chunk)
    rows, groups = _natural(footer, 3, "rows"), len(_list(footer, 4))
    in_groups = sum(_natural(group, 3, "rows of a group") for group in map(_found, _list(footer, 4)))
    if rows != in_groups:
        raise Unreadable("claims %d rows, its row groups hold %d" % (rows, in_groups))
    keys = KeyList(limits)
    keys.extend(column.path for column in columns)
    codecs = sorted({_codec(chunk.codec) for chunk in chunks})
    notes = ["%d rows in %d row groups, compressed by %s" % (rows, groups, ", ".join(codecs) or "none")]
    notes.append(
        "%d pages, %d of them with a checksum, which is right%s" % (pages.count, pages.with_sum, pages.blind())
    )
    if elsewhere:
        notes.append("%d column chunks lie in other files, which are not looked at" % elsewhere)
    values = sum(chunk.values for chunk in chunks)
    said = (*notes, *keys.notes())
    opaque = pickled_types(source.read_at(footer_at, source.size - footer_at))
    return Reading("parquet", source.size, len(columns), values, keys.names(), opaque, said, pages.numbers(elsewhere))


def _footer(source: Source) -> Tuple[Found, int]:
    if source.size < 12 or source.read_at(0, 4) not in (_MAGIC, b"PARE"):
        raise Unreadable("is not Parquet: it does not begin with PAR1")
    tail = source.read_at(source.size - 8, 8)
    if tail[4:] == b"PARE":
        raise Unreadable("is an encrypted Parquet file, which Leasehold cannot read")
    if tail[4:] != _MAGIC:
        raise Unreadable("cut short: a Parquet file ends with PAR1")
    length = int.from_bytes(tail[:4], "little")
    if length > source.size - 12 or length > _MOST_FOOTER_BYTES:
        raise Unreadable(
            "its footer claims %d bytes; the file has %d, and %d are read" % (length, source.size, _MOST_FOOTER_BYTES)
        )
    begin = source.size - 8 - length
    compact = Compact(source.read_at(begin, length))
    found = compact.structure(_FOOTER)
    if compact.at != length:
        raise Unreadable("its footer has %d bytes that belong to nothing" % (length - compact.at))
    return found, begin


def _columns(schema: List[object], limits: Limits) -> List[_Column]:
    """Return the leaves of the schema, which is a tree written parents first."""
    found: List[_Column] = []
    open_groups: List[Tuple[int, str, int, int]] = []  # children to come, path, levels
    for place, element in enumerate(map(_found, schema)):
        name, children = _text(element, 4), _natural(element, 5, "children", 0)
        while open_groups and not open_groups[-1][0]:
            open_groups.pop()
        if place and not open_groups:
            raise Unreadable("its schema has columns that belong to no group")
        left, path, missing, repeated = open_groups.pop() if place else (0, "", 0, 0)
        if place:
            open_groups.append((left - 1, path, missing, repeated))
            kind = _natural(element, 3, "repetition", _REQUIRED)
            missing, repeated = missing + (kind != _REQUIRED), repeated + (kind == _REPEATED)
            path = "%s.%s" % (path, name) if path else name
        if len(open_groups) > 100 or len(found) > limits.max_items:
            raise Unreadable("its schema is deeper or wider than what is read")
        if children or not place:
            open_groups.append((children, path, missing, repeated))
        else:
            found.append(_Column(path, _natural(element, 1, "type"), missing, repeated))
    if any(group[0] for group in open_groups):
        raise Unreadable("its schema names more columns than it holds")
    return found


def _chunks(groups: List[object], columns: List[_Column], footer_at: int) -> Tuple[List[_Chunk], int]:
    """Return the column chunks of every row group, none of which overlaps another or the footer."""
    found: List[_Chunk] = []
    elsewhere = 0
    for group in map(_found, groups):
        chunks = _list(group, 1)
        if len(chunks) != len(columns):
            raise Unreadable("a row group has %d columns, the schema %d" % (len(chunks), len(columns)))
        for column, chunk in zip(columns, map(_found, chunks)):
            if 1 in chunk:
                elsewhere += 1
            else:
                found.append(_chunk(column, _found(chunk.get(3, {}))))
            if len(found) > _MOST_CHUNKS:
                raise Unreadable("has more than %d column chunks" % _MOST_CHUNKS)
    at = len(_MAGIC)
    for each in sorted(found, key=lambda each: each.begin):
        if each.begin < at or each.end > footer_at:
            seen = (legible(each.column.path), each.begin, each.end)
            raise Unreadable("column %s lies from byte %d to %d: it overlaps another part or ends past the data" % seen)
        at = each.end
    return found, elsewhere


def _chunk(column: _Column, facts: Found) -> _Chunk:
    if ".".join(_plain_text(part) for part in _list(facts, 3)) != column.path:
        raise Unreadable("a column chunk is of another column than %s" % legible(column.path))
    if _natural(facts, 1, "type") != column.kind:
        raise Unreadable("a chunk of column %s has another type" % legible(column.path))
    begin = _natural(facts, 9, "offset")
    dictionary = _natural(facts, 11, "offset", 0)
    begin = dictionary if dictionary and (not begin or dictionary < begin) else begin  # without rows, the first is 0
    size = _natural(facts, 7, "size")
    return _Chunk(column, _natural(facts, 4, "codec"), _natural(facts, 5, "values"), begin, begin + size)


class _Pages:
    """The pages of all chunks, and the findings in those with plain encoding."""

    def __init__(self, source: Source) -> None:
        self._source, self._tally = source, NumberTally()
        self.count = self.with_sum = 0
        self._unread: Dict[str, None] = {}
        self._looked = False

    def walk(self, chunk: _Chunk) -> None:
        """Walk the pages: they must fill the chunk, and hold as many values as it claims."""
        at, values = chunk.begin, 0
        while at < chunk.end:
            room = min(_MOST_PAGE_HEADER_BYTES, chunk.end - at)
            header, length = self._header(at, room, chunk)
            size = _natural(header, 3, "page size")
            if at + length + size > chunk.end:
                raise Unreadable(
                    "cut short or lying: a page of column %s ends past its chunk" % legible(chunk.column.path)
                )
            values += self._page(chunk, header, at + length, size)
            at += length + size
        if values != chunk.values:
            seen = (legible(chunk.column.path), chunk.values, values)
            raise Unreadable("column %s claims %d values, its pages hold %d" % seen)

    def _header(self, at: int, room: int, chunk: _Chunk) -> Tuple[Found, int]:
        for size in (512, room):
            try:
                compact = Compact(self._source.read_at(at, min(size, room)))
                return compact.structure(_PAGE), compact.at
            except Unreadable as problem:
                if size >= room:
                    raise Unreadable(
                        "page at byte %d of column %s: %s" % (at, legible(chunk.column.path), problem.reason)
                    ) from None
        raise AssertionError("the loop ends by returning or raising")

    def _page(self, chunk: _Chunk, header: Found, at: int, size: int) -> int:
        """Check a page, and examine its numbers if they are plain; return its count of values."""
        self.count += 1
        kind = _natural(header, 1, "page type")
        if chunk.codec == 0 and _natural(header, 2, "page size") != size:
            raise Unreadable("a page at byte %d is not compressed and has two sizes" % at)
        if 4 in header:
            self._check_sum(header[4], at, size)
        facts = _found(header.get({_DATA: 5, _DICTIONARY: 7, _DATA2: 8}.get(kind, 0), {}))
        if kind not in (_DATA, _DICTIONARY, _DATA2):
            return 0
        if chunk.column.kind in _FLOATS:
            self._look(chunk, kind, facts, at, size)
        return 0 if kind == _DICTIONARY else _natural(facts, 1, "page values")

    def _check_sum(self, expected: object, at: int, size: int) -> None:
        crc = 0
        for piece in self._source.pieces(at, size):
            crc = zlib.crc32(piece, crc)
        if not isinstance(expected, int) or crc != expected & 0xFFFFFFFF:
            raise Unreadable("is damaged: the page at byte %d has a wrong checksum" % at)
        self.with_sum += 1

    def _look(self, chunk: _Chunk, kind: int, facts: Found, at: int, size: int) -> None:
        """Count NaN in a page of plain floats; of a dictionary, how often a value is used is unknown."""
        encoding = facts.get(4 if kind == _DATA2 else 2)
        if chunk.codec or chunk.column.may_repeat or encoding != _PLAIN or kind == _DICTIONARY:
            self._pass_over(chunk, "compressed" if chunk.codec else "encoded")
            return
        skip = 0
        if kind == _DATA2:
            skip = _natural(facts, 5, "levels", 0) + _natural(facts, 6, "levels", 0)
        elif chunk.column.may_miss:
            skip = 4 + int.from_bytes(self._source.read_at(at, min(4, size)), "little")
        dtype, width = _FLOATS[chunk.column.kind]
        if skip > size or (size - skip) % width:
            raise Unreadable("a page of column %s does not hold whole values" % legible(chunk.column.path))
        self._looked, counter = True, Counter(dtype)
        for piece in self._source.pieces(at + skip, size - skip):
            counter.take(piece)
        self._tally.add(chunk.column.path, counter.nan, counter.inf)

    def _pass_over(self, chunk: _Chunk, why: str) -> None:
        if len(self._unread) < _MOST_CHUNKS:
            self._unread["%s (%s)" % (legible(chunk.column.path, 60), why)] = None

    def blind(self) -> str:
        """Report that damage inside pages without a checksum is not detected."""
        return "" if self.with_sum == self.count else "; damage inside the others is unseen"

    def numbers(self, elsewhere: int) -> Optional[Numbers]:
        """Return what was counted, and which columns of floats were not examined; None if none was."""
        if (self._unread or elsewhere) and not self._looked:
            return None
        found, names = self._tally.numbers(), list(self._unread)
        unread = "columns of floats: %s%s" % (
            ", ".join(names[:5]),
            " and %d more" % (len(names) - 5) if names[5:] else "",
        )
        left = [unread] if names else []
        left += ["%d column chunks in other files" % elsewhere] if elsewhere else []
        return Numbers(found.nan, found.inf, found.where, found.more, ", ".join(left))


def _codec(number: int) -> str:
    return _CODECS[number] if number < len(_CODECS) else "method %d" % number


def _list(facts: Found, number: int) -> List[object]:
    found = facts.get(number, [])
    if not isinstance(found, list):
        raise Unreadable("its footer has something else where a list should be")
    return found


def _found(value: object) -> Found:
    if not isinstance(value, dict):
        raise Unreadable("its footer has something else where a structure should be")
    return value


def _natural(facts: Found, number: int, what: str, absent: int = -1) -> int:
    found = facts.get(number, absent)
    if type(found) is not int or not 0 <= found < 1 << 62:
        raise Unreadable("has no natural number as its %s" % what)
    return found


def _text(facts: Found, number: int) -> str:
    return _plain_text(facts.get(number))


def _plain_text(value: object) -> str:
    if not isinstance(value, bytes):
        raise Unreadable("its footer has something else where a name should be")
    return value.decode("utf-8", "replace")
