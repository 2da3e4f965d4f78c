"""Count the steps of a backtracking match over Python's own parse tree: slow, exact, and without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Then = Callable[[int], bool]
sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))  # a repeat of 300 is 300 calls deep here


class TooManySteps(Exception):
    """The match went beyond its allowance."""


class Counter:
    """Tries a pattern at every start of a text, as `search` does, and counts."""

    def __init__(self, pattern: str, most: int) -> None:
        self._items = list(parser.parse(pattern))
        self._most = most
        self.steps = 0

    def search(self, text: str) -> bool:
        """Whether the pattern is found; raises when it takes too long."""
        self._text = text
        anchored = bool(self._items) and self._items[0] == (parser.AT, parser.AT_BEGINNING)
        starts = range(1 if anchored else len(text) + 1)
        return any(self._seq(self._items, 0, at, lambda end: True) for at in starts)

    def _seq(self, items: list[Any], index: int, at: int, then: Then) -> bool:
        self.steps += 1
        if self.steps > self._most:
            raise TooManySteps
        if index == len(items):
            return then(at)
        operation, value = items[index]
        if operation is parser.SUBPATTERN:
            return self._seq(list(value[-1]), 0, at, lambda end: self._seq(items, index + 1, end, then))
        if operation is parser.BRANCH:
            return any(
                self._seq(list(branch), 0, at, lambda end: self._seq(items, index + 1, end, then))
                for branch in value[1]
            )
        if operation in (parser.MAX_REPEAT, parser.MIN_REPEAT):
            return self._repeat(value, at, lambda end: self._seq(items, index + 1, end, then))
        if operation is parser.AT:
            return self._at(value, at) and self._seq(items, index + 1, at, then)
        return self._one(operation, value, at) and self._seq(items, index + 1, at + 1, then)

    def _repeat(self, value: Any, at: int, then: Then, count: int = 0) -> bool:
        low, high, body = value
        if count < high and self._seq(
            list(body), 0, at, lambda end: end > at and self._repeat(value, end, then, count + 1)
        ):
            return True
        return count >= low and then(at)

    def _at(self, value: Any, at: int) -> bool:
        if value in (parser.AT_BEGINNING, parser.AT_BEGINNING_STRING):
            return at == 0
        if value in (parser.AT_END, parser.AT_END_STRING):
            return at == len(self._text)
        inside = [0 <= i < len(self._text) and (self._text[i].isalnum() or self._text[i] == "_") for i in (at - 1, at)]
        return inside[0] != inside[1]

    def _one(self, operation: Any, value: Any, at: int) -> bool:
        if at >= len(self._text):
            return False
        char = self._text[at]
        if operation is parser.LITERAL:
            return char == chr(value)
        if operation is parser.NOT_LITERAL:
            return char != chr(value)
        if operation is parser.ANY:
            return char != "\n"
        assert operation is parser.IN, operation
        negated = value[0][0] is parser.NEGATE
        return negated != any(self._in(part, char) for part in value if part[0] is not parser.NEGATE)

    @staticmethod
    def _in(part: Any, char: str) -> bool:
        kind, value = part
        if kind is parser.LITERAL:
            return char == chr(value)
        if kind is parser.RANGE:
            return value[0] <= ord(char) <= value[1]
        tests = {
            parser.CATEGORY_DIGIT: char.isdigit(),
            parser.CATEGORY_SPACE: char.isspace(),
            parser.CATEGORY_WORD: char.isalnum() or char == "_",
        }
        opposite = {
            parser.CATEGORY_NOT_DIGIT: parser.CATEGORY_DIGIT,
            parser.CATEGORY_NOT_SPACE: parser.CATEGORY_SPACE,
            parser.CATEGORY_NOT_WORD: parser.CATEGORY_WORD,
        }
        return tests[value] if value in tests else not tests[opposite[value]]
