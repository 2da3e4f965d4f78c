"""TensorBoard's event files: every record's length and contents are checked by CRC-32C, then tags and values read."""

from __future__ import annotations

import math
import struct
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Counter
from leasehold.kit.readers.base.result import KeyList, Limits, NumberTally, Reading, Unreadable
from leasehold.kit.readers.formats.crc32c import masked, sums

from .protobuf import BYTES, NARROW, VARINT, Field, Window

_HEAD, _FOOT = struct.Struct("<QI"), struct.Struct("<I")
_BATCH_BYTES = 4 << 20
_MOST_RECORD_BYTES = 256 << 20
_LOOKED_AT = 100_000  # events whose values are examined; parsing one costs more than its checksum
_FLOATS = {1: ("F32", 5), 2: ("F64", 6)}  # TensorFlow's type -> ours, and the field of its plain values


class _Record(NamedTuple):
    at: int
    length: bytes
    length_sum: int
    data: bytes
    data_sum: int


def read_tfevents(source: Source, limits: Limits) -> Reading:
    """Check every record; a truncated last one is reported, not refused, since a killed writer leaves one."""
    look, count, left_over = _Look(limits), 0, ""
    for batch, cut in _batches(source):
        _check(batch)
        if not count:
            _check_first(batch)
        count, left_over = count + len(batch), cut
        for record in batch:
            look.event(record)
    notes = ["%d records, every checksum right" % count, *([left_over] if left_over else [])]
    return look.reading(source.size, notes)


def _batches(source: Source) -> Iterator[Tuple[List[_Record], str]]:
    """Yield records, a few MiB at once; with the last ones the remainder of an incomplete record."""
    window, at, held = Window(source), 0, 0
    batch: List[_Record] = []
    while at < source.size:
        left = source.size - at
        if left < _HEAD.size:
            break
        head = window.take(at, _HEAD.size)
        length, length_sum = _HEAD.unpack(head)
        if _HEAD.size + length + _FOOT.size > left or length > _MOST_RECORD_BYTES:
            if masked(sums([head[:8]])[0]) != length_sum:
                raise Unreadable("is damaged: the length of the record at byte %d has a wrong checksum" % at)
            if length > _MOST_RECORD_BYTES:
                raise Unreadable("a record at byte %d has %d bytes; that many are not read" % (at, length))
            break
        body = window.take(at + _HEAD.size, length + _FOOT.size)
        batch.append(_Record(at, head[:8], length_sum, body[:length], _FOOT.unpack(body[length:])[0]))
        at, held = at + _HEAD.size + length + _FOOT.size, held + length + 200
        if held > _BATCH_BYTES:
            yield batch, ""
            batch, held = [], 0
    if at == 0:
        raise Unreadable("is cut short: it has %d bytes and no whole record" % source.size)
    yield batch, _cut_words(at, source.size) if at < source.size else ""


def _cut_words(at: int, size: int) -> str:
    return "cut short: the last %d bytes are a record without an end, which TensorBoard passes over" % (size - at)


def _check(batch: List[_Record]) -> None:
    lengths, contents = sums([each.length for each in batch]), sums([each.data for each in batch])
    for record, length_sum, data_sum in zip(batch, lengths, contents):
        if masked(length_sum) != record.length_sum or masked(data_sum) != record.data_sum:
            raise Unreadable("is damaged: the record at byte %d has a wrong checksum" % record.at)


def _check_first(batch: List[_Record]) -> None:
    """Check that the file begins with its version, as event files do; other record files do not."""
    if b"brain.Event:" not in batch[0].data[:64]:
        raise Unreadable("is not a TensorBoard event file: its first record has no version")


class _Look:
    """Parses events, up to a limit."""

    def __init__(self, limits: Limits) -> None:
        self._keys, self._tally = KeyList(limits), NumberTally()
        self._values = self._looked = self._others = self._unread = 0

    def event(self, record: _Record) -> None:
        """Look for tags and values."""
        if self._looked >= _LOOKED_AT:
            self._unread += 1
            return
        self._looked += 1
        window = _Bytes(record.data)
        for field in window.fields(0, len(record.data), "the event at byte %d" % record.at):
            if field.number == 5 and field.wire == BYTES:
                for value in window.fields(field.at, field.at + field.value, "a summary"):
                    if value.number == 1 and value.wire == BYTES:
                        self._value(window, value)

    def _value(self, window: Window, value: Field) -> None:
        tag, other = "", True
        nan = inf = 0
        for field in window.fields(value.at, value.at + value.value, "a value"):
            raw = window.take(field.at, field.value) if field.wire in (BYTES, NARROW) else b""
            if field.number == 1 and field.wire == BYTES:
                tag = raw.decode("utf-8", "replace")
            elif field.number == 2 and field.wire == NARROW:
                number = struct.unpack("<f", raw)[0]
                nan, inf, other = nan + math.isnan(number), inf + math.isinf(number), False
            elif field.number == 8 and field.wire == BYTES:
                found = _tensor(window, field)
                other = found is None
                nan, inf = (nan + found[0], inf + found[1]) if found else (nan, inf)
        self._values += 1
        self._others += other
        self._keys.add(tag)
        self._tally.add(tag or "a value", nan, inf)

    def reading(self, size: int, notes: List[str]) -> Reading:
        """Return the reading."""
        left = []
        if self._others:
            left.append("%d values that are no floats (images, texts, histograms)" % self._others)
        if self._unread:
            left.append("%d events behind the first %d" % (self._unread, _LOOKED_AT))
        self._tally.unread = ", ".join(left)
        said = (*notes, *self._keys.notes())
        return Reading("tfevents", size, 0, self._values, self._keys.names(), (), said, self._tally.numbers())


class _Bytes(Window):
    """A message that is in memory already."""

    def __init__(self, data: bytes) -> None:
        self._begin, self._held = 0, data

    def take(self, at: int, count: int) -> bytes:
        """Return a piece of it."""
        return self._held[at : at + count]


def _tensor(window: Window, place: Field) -> Optional[Tuple[int, int]]:
    """Count NaN and infinity in a tensor of floats; None for another type."""
    dtype = 0
    pieces: Dict[int, List[bytes]] = {}
    for field in window.fields(place.at, place.at + place.value, "a tensor"):
        if field.number == 1 and field.wire == VARINT:
            dtype = field.value
        elif field.wire != VARINT:
            pieces.setdefault(field.number, []).append(window.take(field.at, field.value))
    if dtype not in _FLOATS:
        return None
    kind, plain = _FLOATS[dtype]
    nan = inf = 0
    for number in (4, plain):
        counter = Counter(kind)
        counter.take(b"".join(pieces.get(number, [])))
        nan, inf = nan + counter.nan, inf + counter.inf
    return nan, inf
