"""The boxes where each cell of a run was, with its attempts there: told in the receipt of a run that moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.kit.text.safe_text import one_line

_MOST = 1000
_WORD_CHARS = 120


def stays_of(seen: Mapping[str, Any], box: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return, for each cell that came from another box, its stays in order; nothing for a run that never moved."""
    found = {}
    for name, cell in seen.get("cells", {}).items():
        came = [one for one in cell.get("came") or () if isinstance(one, dict)][:_MOST]
        if came:
            here = {"box": box, "attempts": attempts_here(cell), "step": None}
            found[str(name)] = tuple(_stay(one) for one in (*came, here))
    return found


def attempts_here(cell: Mapping[str, Any]) -> int | None:
    """Return how many attempts a cell had on its box since it came there."""
    attempt, arrived = _whole(cell.get("attempt")), _whole(cell.get("arrived"))
    return None if attempt is None else attempt - arrived + 1 if arrived else attempt


def _stay(said: Mapping[str, Any]) -> dict[str, Any]:
    box = one_line(str(said.get("box") or ""))[:_WORD_CHARS]
    return {"box": box, "attempts": _whole(said.get("attempts")), "step": _whole(said.get("step"))}


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1e15 else None
