"""Rules for the catalogue's regexes: what text each needs, how far it can backtrack, and which anchors cover all."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MOST_STEPS = 20_000  # tries at one start position; lines are cut to 8 KiB
_SHORT = 5
_LONG = 9
# Healthy logs, to see which strings are everyday ones: an anchor found often makes every line a candidate.
_SAMPLE = Path(__file__).resolve().parent.parent / "tests" / "doctor" / "corpus" / "tune" / "healthy.txt"
_PASS_COST = 1.0  # searching one anchor through a block ...
_HIT_COST = 8.0  # ... and looking at a line, for each hit in a KiB of healthy text


def masked(text: str) -> str:
    """Mask digits as the matcher does."""
    return re.sub(r"[1-9]", "0", text)


@functools.cache
def _everyday() -> str:
    return masked(_SAMPLE.read_text(encoding="utf-8"))


def needed_literals(pattern: str) -> list[str]:
    """Return texts of which every match holds at least one; raises when the pattern needs none."""
    found = _needs(list(parser.parse(pattern)))
    if not found:
        raise ValueError(f"no text that every match holds: {pattern}")
    return sorted(set(found))


def most_steps(pattern: str) -> int:
    """Bound the ways a match can be tried from one start; raises where there is no bound."""
    items = list(parser.parse(pattern))
    anchored = bool(items) and items[0] == (parser.AT, parser.AT_BEGINNING)
    return max(1, _steps(items, inside=False) // (1000 if anchored else 1))  # a line has one beginning, and many bytes


def choose_anchors(literals: Iterable[str]) -> list[str]:
    """Cover all literals with few short strings that everyday lines seldom hold."""
    left = {masked(literal) for literal in literals}
    covers: dict[str, set[str]] = {}
    for literal in left:
        for piece in _substrings(literal):
            covers.setdefault(piece, set()).add(literal)
    chosen: list[str] = []
    while left:
        best = max(covers, key=lambda piece: (len(covers[piece] & left) / _cost(piece), len(piece), piece))
        chosen.append(best)
        left -= covers[best]
    return sorted(chosen)


@functools.cache
def _cost(piece: str) -> float:
    return _PASS_COST + _HIT_COST * _everyday().count(masked(piece)) * 1024 / len(_everyday())


def _substrings(literal: str) -> set[str]:
    return {literal[i : i + n] for n in range(_SHORT, _LONG) for i in range(len(literal) - n + 1)} or {literal}


def _needs(items: list[Any]) -> list[str]:
    candidates: list[list[str]] = []
    run = ""
    for operation, value in [*items, (None, None)]:
        if operation is parser.LITERAL:
            run += chr(value)
            continue
        if run:
            candidates.append([run])
            run = ""
        inner = _inner_needs(operation, value)
        if inner:
            candidates.append(inner)
    if not candidates:
        return []
    return max(candidates, key=lambda texts: (min(_weight(text) for text in texts), -len(texts)))


def _inner_needs(operation: Any, value: Any) -> list[str]:
    if operation is parser.SUBPATTERN:
        return _needs(list(value[-1]))
    if operation is parser.BRANCH:
        branches = [_needs(list(branch)) for branch in value[1]]
        return [text for branch in branches for text in branch] if all(branches) else []
    if operation in (parser.MAX_REPEAT, parser.MIN_REPEAT) and value[0] > 0:
        return _needs(list(value[2]))
    return []


def _weight(text: str) -> int:
    return 0 if _cost(text) > 2 * _PASS_COST else min(len(text), 24)


def _steps(items: list[Any], inside: bool) -> int:
    total = 1
    for operation, value in items:
        if operation in (parser.MAX_REPEAT, parser.MIN_REPEAT):
            low, high, body = value
            if high is parser.MAXREPEAT:
                raise ValueError("a repeat without an upper bound")
            if high > 1:
                if inside:
                    raise ValueError("a repeat inside a repeat")
                _steps(list(body), inside=True)
            total *= max(1, high - low + 1)
        elif operation is parser.SUBPATTERN:
            total *= _steps(list(value[-1]), inside)
        elif operation is parser.BRANCH:
            total *= sum(_steps(list(branch), inside) for branch in value[1]) if inside else _branches(value[1])
        elif operation in (parser.GROUPREF, parser.ASSERT, parser.ASSERT_NOT, parser.GROUPREF_EXISTS):
            raise ValueError("back-references and look-around are not needed here")
    return total


def _branches(branches: Any) -> int:
    return sum(_steps(list(branch), inside=False) for branch in branches)


def check(pattern: str) -> str:
    """Say what is wrong with a pattern, or nothing."""
    try:
        re.compile(pattern)
        steps = most_steps(pattern)
    except (re.error, ValueError) as error:
        return str(error)
    return f"{steps} ways to try one start; the most is {MOST_STEPS}" if steps > MOST_STEPS else ""
