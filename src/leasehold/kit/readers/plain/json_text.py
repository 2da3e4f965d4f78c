"""Check JSON as a stream: memory stays bounded by one token and the depth, however large the file."""

from __future__ import annotations

import codecs
import json
import re
from itertools import accumulate
from typing import Iterator, List, Optional, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import KeyList, Limits, NumberTally, Reading, Unreadable, legible

_PUNCTUATION, _STRING, _WORD, _NON_FINITE, _NUMBER = range(1, 6)  # groups of _TOKEN
_PLAIN_STRING = r'"[^"\\\x00-\x1f]*"'
_PLAIN_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TOKEN = re.compile(rf"([\[\]{{}},:])|({_PLAIN_STRING})|(true|false|null)|(NaN|-?Infinity)|({_PLAIN_NUMBER})")
_BLANK = re.compile(r"[ \t\r\n]*")
# Runs of plain items and members, each with its comma: most of a large file, checked without a step for each.
_PLAIN = rf"[ \t\r\n]*(?:{_PLAIN_STRING}|true|false|null|{_PLAIN_NUMBER})[ \t\r\n]*,"
_ITEMS = re.compile(rf"(?:{_PLAIN}){{0,1000}}")
_MEMBERS = re.compile(rf"(?:[ \t\r\n]*{_PLAIN_STRING}[ \t\r\n]*:{_PLAIN}){{0,1000}}")
_SPELLED = ('"NaN"', '"Infinity"', '"-Infinity"')  # as writers of strict JSON put them
_KEY_CHARS = 60
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_QUOTED = re.compile(r'"[^"]*"')
_NO_BRACKETS = re.compile(r"[^\[\]{}]+")
_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
# At most 1000 escapes a match: the regex engine keeps about 100 bytes for each repetition of a group.
_STRING_PART = re.compile(rf'[^"\\\x00-\x1f]*(?:{_ESCAPE}[^"\\\x00-\x1f]*){{0,1000}}')
_UNFINISHED_CHARS = 2  # "1.", "1e", "1e+": what a number cut at the end of a piece can have after a valid number

# The tokens that may follow.
_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _COMMA_OR_END, _NOTHING = range(7)
_WANTED = ("a value", "a value or ]", "a key", "a key or }", "':'", "',' or the closing bracket", "the end")


def read_json(source: Source, limits: Limits) -> Reading:
    """Read one JSON document in UTF-8."""
    checker = JsonChecker(limits)
    for text in decoded_pieces(source):
        checker.feed(text)
    checker.finish()
    numbers = checker.numbers.numbers()
    return Reading("json", source.size, keys=checker.keys.names(), notes=tuple(checker.notes()), numbers=numbers)


def check_depth(text: str, limits: Limits) -> None:
    """Refuse text nested so deep that the standard parser could exhaust its stack on it."""
    if text.count("[") + text.count("{") <= limits.max_json_depth:
        return
    # Remove escapes, then strings, then everything but brackets; in text that is not JSON the count may be too high,
    # never too low up to where a parser stops.
    brackets = _NO_BRACKETS.sub("", _QUOTED.sub("", _ESCAPED.sub("", text)))
    steps = (1 if bracket in "[{" else -1 for bracket in brackets)
    if max(accumulate(steps), default=0) > limits.max_json_depth:
        raise Unreadable(f"JSON nests deeper than {limits.max_json_depth}")


def decoded_pieces(source: Source) -> Iterator[str]:
    """Yield the file as text; a byte order mark at the start is dropped, as most parsers drop it."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    at = 0
    for piece in source.pieces(0, source.size):
        at += len(piece)
        yield _decode(decoder, bytes(piece), at, at == source.size)


def _decode(decoder: codecs.IncrementalDecoder, piece: bytes, end: int, final: bool) -> str:
    try:
        return decoder.decode(piece, final)
    except UnicodeDecodeError as error:
        at = max(0, end - len(error.object)) + error.start
        raise Unreadable(f"is not UTF-8 text: byte {at} is {error.object[error.start]:#04x}") from error


class JsonChecker:
    """Accepts JSON text in pieces of any size; raises Unreadable at the first fault."""

    def __init__(self, limits: Limits) -> None:
        self.keys = KeyList(limits)
        self._limits = limits
        self._held = ""  # text that may be the beginning of a longer token
        self._passed = 0  # characters before _held
        self._open: List[str] = []
        self._next = _VALUE
        self.numbers = NumberTally()
        self._bare = False  # NaN or Infinity occurs as a token, not as text
        self._path: List[str] = []  # for each open bracket, the key being read in it

    def feed(self, text: str) -> None:
        """Check more text."""
        self._held = text if not self._held else self._held + text
        self._consume(final=False)
        if len(self._held) > self._limits.max_line_bytes:
            raise self._fault(0, f"a token longer than {self._limits.max_line_bytes} characters")

    def finish(self) -> None:
        """Check that the text so far is whole."""
        self._consume(final=True)
        if self._open or self._next != _NOTHING:
            raise Unreadable(f"JSON ends too early: {_WANTED[self._next]} should follow {self._where(0)}")

    def notes(self) -> List[str]:
        """Return notes for a reader of this file."""
        spoken = ["holds NaN or Infinity, which strict JSON parsers refuse"] if self._bare else []
        return spoken + self.keys.notes()

    def _consume(self, final: bool) -> None:
        text, at = self._held, 0
        spelled = 'NaN"' in text or 'Infinity"' in text  # then no run is skipped unseen
        while True:
            at = _end_of(_BLANK, text, at if spelled else self._skip_run(text, at))
            token = _token(text, at)
            if token is None or (not final and _may_go_on(token, text)):
                break
            self._take(token[0], text[at : token[1]], at)
            at = token[1]
        if at < len(text) and (final or (token is None and text[at] not in '"-NIntf')):
            raise self._fault(at, ascii(text[at : at + 20]))
        self._held, self._passed = text[at:], self._passed + at

    def _skip_run(self, text: str, at: int) -> int:
        """Skip plain items or members if more must follow; never the top-level keys, which are listed."""
        if self._next == _VALUE and self._open and self._open[-1] == "[":
            return _end_of(_ITEMS, text, at)
        if self._next == _KEY and len(self._open) > 1:
            return _end_of(_MEMBERS, text, at)
        return at

    def _take(self, kind: int, token: str, at: int) -> None:
        if kind == _PUNCTUATION:
            self._punctuate(token, at)
        elif kind == _STRING and self._next in (_KEY, _KEY_OR_END):
            key = json.loads(token)
            self._path[-1] = "." + legible(key, _KEY_CHARS)
            if len(self._open) == 1:
                self.keys.add(key)
            self._next = _COLON
        elif self._next in (_VALUE, _VALUE_OR_END):
            self._count(kind, token)
            self._next = self._after_value()
        else:
            raise self._fault(at, legible(token, 40))

    def _count(self, kind: int, token: str) -> None:
        if kind == _NON_FINITE:
            self._bare = True
        elif kind != _STRING or token not in _SPELLED:
            return
        nan = "NaN" in token
        self.numbers.add("".join(self._path).lstrip(".") or "the value itself", int(nan), int(not nan))

    def _punctuate(self, token: str, at: int) -> None:
        if token in "[{" and self._next in (_VALUE, _VALUE_OR_END):
            if len(self._open) >= self._limits.max_json_depth:
                raise Unreadable(f"JSON nests deeper than {self._limits.max_json_depth} {self._where(at)}")
            self._open.append(token)
            self._path.append("[]" if token == "[" else "")
            self._next = _VALUE_OR_END if token == "[" else _KEY_OR_END
        elif token in "]}" and self._closes(token):
            self._open.pop()
            self._path.pop()
            self._next = self._after_value()
        elif token == "," and self._next == _COMMA_OR_END:
            self._next = _VALUE if self._open[-1] == "[" else _KEY
        elif token == ":" and self._next == _COLON:
            self._next = _VALUE
        else:
            raise self._fault(at, token)

    def _closes(self, token: str) -> bool:
        if not self._open or self._open[-1] != {"]": "[", "}": "{"}[token]:
            return False
        return self._next in (_COMMA_OR_END, _VALUE_OR_END if token == "]" else _KEY_OR_END)

    def _after_value(self) -> int:
        return _COMMA_OR_END if self._open else _NOTHING

    def _fault(self, at: int, seen: str) -> Unreadable:
        return Unreadable(f"is not JSON: {_WANTED[self._next]} should follow, saw {seen} {self._where(at)}")

    def _where(self, at: int) -> str:
        return f"at character {self._passed + at}"


def _token(text: str, at: int) -> Optional[Tuple[int, int]]:
    """Return the kind and the end of the token at `at`; None if there is none, or not all of it."""
    match = _TOKEN.match(text, at)
    if match is not None:
        return match.lastindex or 0, match.end()
    if not text.startswith('"', at):
        return None
    end = _string_end(text, at + 1)
    return None if end is None else (_STRING, end)


def _string_end(text: str, at: int) -> Optional[int]:
    while True:
        end = _end_of(_STRING_PART, text, at)
        if text.startswith('"', end):
            return end + 1
        if end == at:
            return None
        at = end


def _may_go_on(token: Tuple[int, int], text: str) -> bool:
    kind, end = token
    return kind == _NUMBER and end + _UNFINISHED_CHARS >= len(text)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
