"""Numbers that are not finite in artifacts at home: the text for a receipt's `nonfinite`, wherever it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.model.values.wording import one_line

_FILES_SHOWN = 5


def lines(nonfinite: Iterable[Mapping[str, Any]]) -> list[str]:
    """Describe which file holds how many, and in what; one line per file, the first few."""
    listed = list(nonfinite)
    said = [_line(entry) for entry in listed[:_FILES_SHOWN]]
    if len(listed) > _FILES_SHOWN:
        said.append(f"{len(listed) - _FILES_SHOWN} more files with NaN or infinity; receipt.json lists them")
    return said


def summary(nonfinite: Iterable[Mapping[str, Any]]) -> str:
    """Summarise what is not finite; empty if nothing is known to be."""
    listed = list(nonfinite)
    if not listed:
        return ""
    count = sum(_count(entry, "nan") + _count(entry, "inf") for entry in listed)
    files = "1 file" if len(listed) == 1 else f"{len(listed)} files"
    return f"{count:,} NaN or infinite in {files}"


def _line(entry: Mapping[str, Any]) -> str:
    counts = [(_count(entry, "nan"), "NaN"), (_count(entry, "inf"), "infinite")]
    what = " and ".join(f"{count:,} {word}" for count, word in counts if count)
    where = entry.get("where")
    rows = [row for row in where if isinstance(row, (list, tuple)) and len(row) == 2] if isinstance(where, list) else []
    named = ", ".join(f"{name} ({count:,})" for name, count in rows)
    more = f", and {_count(entry, 'more'):,} more" if _count(entry, "more") else ""
    return one_line(f"{entry.get('path')}: {what}" + (f", in {named}{more}" if named else ""))


def _count(entry: Mapping[str, Any], key: str) -> int:
    value = entry.get(key)
    return value if isinstance(value, int) else 0
