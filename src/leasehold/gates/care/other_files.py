"""Checks of files that are not torch checkpoints: whether their numbers are finite and whether loading runs code."""

from __future__ import annotations

from typing import Any

from leasehold.model.run.verdict import Finding, Verdict, passes, refuses, unknown

# Parts that none of our readers parse, and that other libraries may unpickle or execute.
MAY_HIDE_CODE = {
    **dict.fromkeys(("zip", "tar", "tar.gz"), "what its members hold"),
    "hdf5": "attributes and objects, which PyTables and pandas unpickle",
}
_NAMES = 5


def judge_file(kind: str, opaque: tuple[str, ...], numbers: Any) -> Verdict:
    """Judge the report of a reader for one of these formats."""
    return Verdict("file", (passes(f"its structure as {kind} is whole"), _finite(numbers), _code(kind, opaque)))


def _code(kind: str, opaque: tuple[str, ...]) -> Finding:
    if opaque:
        named = f"needs code to load: {', '.join(opaque[:_NAMES])}"
        return refuses(named, "save plain data (numbers, text, lists)")
    if kind in MAY_HIDE_CODE:
        return unknown(f"names no code in the parts that were read; not looked at: {MAY_HIDE_CODE[kind]}")
    return passes("names no code: plain data only")


def _finite(numbers: Any) -> Finding:
    if not isinstance(numbers, dict):
        return unknown("whether its numbers are finite was not looked at")
    if numbers["nan"] or numbers["inf"]:
        named = ", ".join(str(name) for name, _ in numbers["where"][:_NAMES])
        return refuses(f"NOT FINITE: {numbers['nan']} NaN and {numbers['inf']} infinite, in {named}")
    if numbers["unread"]:
        return unknown(f"no NaN or infinity in the parts that were read; not looked at: {numbers['unread']}")
    return passes("no NaN or infinity among its numbers")
