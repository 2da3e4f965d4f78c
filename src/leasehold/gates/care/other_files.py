"""What is known of a file that is no torch checkpoint: are its numbers finite, does loading run code."""

from __future__ import annotations

from typing import Any

from leasehold.model.run.verdict import Finding, Verdict, judge, passes, refuses, unknown

_NAMES = 5


def judge_file(kind: str, opaque: tuple[str, ...], numbers: Any) -> Verdict:
    """Judge what a reader of one of these formats reported."""
    code = judge(
        not opaque,
        "names no code: plain data only",
        "save plain data (numbers, text, lists)",
        otherwise=f"needs code to load: {', '.join(opaque[:_NAMES])}",
    )
    return Verdict("file", (passes(f"its structure as {kind} is whole"), _finite(numbers), code))


def _finite(numbers: Any) -> Finding:
    if not isinstance(numbers, dict):
        return unknown("whether its numbers are finite was not looked at")
    if numbers["nan"] or numbers["inf"]:
        named = ", ".join(str(name) for name, _ in numbers["where"][:_NAMES])
        return refuses(f"NOT FINITE: {numbers['nan']} NaN and {numbers['inf']} infinite, in {named}")
    if numbers["unread"]:
        return unknown(f"no NaN or infinity where it was looked; not looked at: {numbers['unread']}")
    return passes("no NaN or infinity among its numbers")
