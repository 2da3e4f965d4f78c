"""Readers of text made of rows: jsonl and csv."""

from __future__ import annotations

import csv
import json
from typing import Dict, Iterator, List, Set, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import KeyList, Limits, Numbers, NumberTally, Reading, Unreadable, legible

from .json_text import check_depth

_KEY_CHARS = 60
_SPELLED = ("NaN", "Infinity", "-Infinity")
_SIGNS = ("", "+", "-")
_NAN_WORDS = frozenset(sign + word for sign in _SIGNS for word in ("nan", "NaN", "NAN", "Nan"))
_INF_WORDS = frozenset(sign + word for sign in _SIGNS for word in ("inf", "Inf", "INF", "infinity", "Infinity"))
_KIND_ROWS = 100  # after this many rows it is known whether a column holds numbers
_BOM = b"\xef\xbb\xbf"
_NO_LINE_END = "the last line has no line end: the writer may have been cut off inside its last value"


def read_jsonl(source: Source, limits: Limits) -> Reading:
    """Read JSON records, one a line; blank lines are skipped, `keys` is the union over the records."""
    keys, records = KeyList(limits), _Records(limits)
    ended = True
    for number, line, ended in _lines(source, limits):
        if line.strip():
            record = records.parse(line, number, ended)
            keys.extend(record if isinstance(record, dict) else ())
    if not records.count:
        raise Unreadable(f"holds no record: all {source.size} bytes are blank")
    notes = ["holds NaN or Infinity, which strict JSON parsers refuse"] if records.non_finite else []
    notes += [] if ended else [_NO_LINE_END]
    numbers = records.numbers.numbers()
    return Reading("jsonl", source.size, keys=keys.names(), notes=tuple(notes + keys.notes()), numbers=numbers)


class _Records:
    """Parses lines, and records their count and the keys that held NaN or Infinity."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # len: int() takes quadratic time in the number of digits, and no number is used here.
        self._decoder = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=self._constant)
        self.count = 0
        self.non_finite = False
        self.numbers = NumberTally()
        self._found = False  # in the current line

    def parse(self, line: bytes, number: int, ended: bool) -> object:
        try:
            text = line.decode("utf-8")
            check_depth(text, self._limits)
            self._found = 'NaN"' in text or 'Infinity"' in text
            record = self._decoder.decode(text)
        except Unreadable as error:
            raise Unreadable(f"line {number}: {error.reason}") from error
        except UnicodeDecodeError as error:
            raise Unreadable(f"line {number} is not UTF-8 text (byte {error.start} of the line)") from error
        except ValueError as error:
            torn = "" if ended else "; it is the last line and has no line end, so it is torn"
            raise Unreadable(f"line {number} is not JSON: {legible(str(error))}{torn}") from error
        self.count += 1
        if self._found:
            self._name(record, "")
        return record

    def _constant(self, name: str) -> float:
        self.non_finite = self._found = True
        return float(name)

    def _name(self, value: object, path: str) -> None:
        """Count what is not finite by its place in the record; check_depth has bounded its depth."""
        if isinstance(value, dict):
            for key, item in value.items():
                self._name(item, path + "." + legible(key, _KEY_CHARS))
        elif isinstance(value, list):
            for item in value:
                self._name(item, path + "[]")
        elif isinstance(value, float) or value in _SPELLED:
            nan = value != value or value == "NaN"  # no other number is a float here
            self.numbers.add(path.lstrip(".") or "the record itself", int(nan), int(not nan))


def read_csv(source: Source, limits: Limits) -> Reading:
    """Read comma-separated rows under a header, all of one width."""
    lines = _CsvLines(source, limits)
    # The module's own limit on a value (128 KiB, process-wide) would refuse files that pandas loads.
    outside = csv.field_size_limit(limits.max_line_bytes)
    try:
        header, count, numbers = _check_table(lines)
    except csv.Error as error:
        raise Unreadable(f"line {lines.number}: {error}") from error
    finally:
        csv.field_size_limit(outside)
    keys = KeyList(limits)
    keys.extend(header)
    notes = [] if lines.ended else [_NO_LINE_END]
    if not count and not lines.ended:
        raise Unreadable("ends inside its header: no row, and no line end")
    if not count:
        notes.append(f"has a header of {len(header)} columns and no row")
    if len(set(header)) < len(header):
        notes.append("the header names a column twice")
    return Reading("csv", source.size, keys=keys.names(), notes=tuple(notes + keys.notes()), numbers=numbers)


def _check_table(lines: _CsvLines) -> Tuple[List[str], int, Numbers]:
    # strict: otherwise a quote left open at the end of a truncated file passes as a value.
    rows = csv.reader(lines, strict=True)
    header = next(rows, [])
    lines.start_row()
    if not any(name.strip() for name in header):
        raise Unreadable("has no header: the first line is blank")
    columns = _Columns(header)
    return header, _check_rows(rows, lines, columns), columns.numbers()


def _check_rows(rows: Iterator[List[str]], lines: _CsvLines, columns: _Columns) -> int:
    count, width = 0, len(columns.header)
    for row in rows:
        lines.start_row()
        if not row:  # a blank line
            continue
        count += 1
        if len(row) != width:
            raise Unreadable(f"row {count} (line {lines.number}) has {len(row)} columns, the header has {width}")
        columns.take(row, count)
    return count


class _Columns:
    """Counts NaN and infinity by column; in a column of words, such as language codes, `nan` is a word."""

    def __init__(self, header: List[str]) -> None:
        self.header = header
        self._words: Set[int] = set()  # columns that hold something that is not a number
        self._counts: Dict[Tuple[int, bool], int] = {}

    def take(self, row: List[str], number: int) -> None:
        """Process one row of as many values as the header has."""
        for place, value in enumerate(row):
            if number <= _KIND_ROWS and place not in self._words and not _is_number(value):
                self._words.add(place)
            if value in _WORDS or (value[:1] == " " and value.strip() in _WORDS):
                key = place, value.strip() in _NAN_WORDS
                self._counts[key] = self._counts.get(key, 0) + 1

    def numbers(self) -> Numbers:
        """Return what was counted in columns of numbers."""
        tally = NumberTally()
        for (place, nan), count in sorted(self._counts.items()):
            if place not in self._words:
                tally.add(self.header[place] or "column %d" % (place + 1), count * nan, count * (not nan))
        return tally.numbers()


_WORDS = _NAN_WORDS | _INF_WORDS


def _is_number(value: str) -> bool:
    if not value or value.isspace():
        return True  # an empty value, which says nothing about the others
    try:
        float(value)
    except ValueError:
        return False
    return True


class _CsvLines:
    """Lines of text for csv.reader, which joins the lines of a quoted value without any limit of its own."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._lines = _lines(source, limits)
        self._max_bytes = limits.max_line_bytes
        self._row_bytes = 0
        self.number = 0
        self.ended = True

    def start_row(self) -> None:
        self._row_bytes = 0

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        self.number, line, self.ended = next(self._lines)
        self._row_bytes += len(line)
        if self._row_bytes > self._max_bytes:
            raise Unreadable(f"line {self.number}: a row is longer than {self._max_bytes} bytes")
        if b"\0" in line:
            raise Unreadable(f"line {self.number} holds a NUL byte: the file was truncated by a crash, or is not text")
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unreadable(f"line {self.number} is not UTF-8 text (byte {error.start} of the line)") from error


def _lines(source: Source, limits: Limits) -> Iterator[Tuple[int, bytes, bool]]:
    """Yield (number from 1, line with its end, whether it had one); memory is bounded by one line."""
    held, number = b"", 0
    for piece in source.pieces(0, source.size):
        *whole, held = (held + bytes(piece)).split(b"\n")
        for line in whole:
            number += 1
            _bound(line, number, limits)
            yield number, _without_bom(line, number) + b"\n", True
        _bound(held, number + 1, limits)
    if held:
        yield number + 1, _without_bom(held, number + 1), False


def _without_bom(line: bytes, number: int) -> bytes:
    return line[len(_BOM) :] if number == 1 and line.startswith(_BOM) else line


def _bound(line: bytes, number: int, limits: Limits) -> None:
    if len(line) > limits.max_line_bytes:
        raise Unreadable(f"line {number} is longer than {limits.max_line_bytes} bytes")
