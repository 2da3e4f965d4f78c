"""Non-finite numbers found by the readers, for the receipt and the screen. Nothing is refused for them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from leasehold.lifecycle.confine.check_loads import LoadResult
from leasehold.model.run.nonfinite import lines
from leasehold.model.run.note import Note

FINITE, NONFINITE, UNREAD = "finite", "not finite", "not looked at"


def facts_of(root: Path, results: Sequence[LoadResult]) -> tuple[dict[str, Any], ...]:
    """List the files that hold NaN or infinity: how many, and the first keys, columns or tensors."""
    found = []
    for result in results:
        numbers = result.reading.get("numbers")
        if isinstance(numbers, dict) and (numbers["nan"] or numbers["inf"]):
            facts = {key: numbers[key] for key in ("nan", "inf", "where", "more")}
            found.append({"path": os.path.relpath(result.path, root), **facts})
    return tuple(found)


def word_of(result: LoadResult) -> str:
    """Return what is known of a file's numbers."""
    numbers = result.reading.get("numbers")
    if not isinstance(numbers, dict):
        return UNREAD
    if numbers["nan"] or numbers["inf"]:
        return NONFINITE
    return f"{FINITE}, but for {numbers['unread']}" if numbers["unread"] else FINITE


def notes_of(nonfinite: Iterable[dict[str, Any]]) -> Iterator[Note]:
    """Yield one warning for each file."""
    for line in lines(nonfinite):
        yield Note("nonfinite", f"not finite: {line}")
