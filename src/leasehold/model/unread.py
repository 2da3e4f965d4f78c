"""Files of a receipt that are home and hash-equal, and that no reader has read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .words import one_line

_KINDS_SHOWN = 4


def unread(loads: Iterable[Mapping[str, Any]], cell: str = "") -> list[str]:
    """Return the paths of files that were taken as bytes; of one cell, where it is named."""
    within = f"{cell}/" if cell else ""
    paths = (str(load.get("path", "")) for load in loads if load.get("kind") == "bytes")
    return [path for path in paths if path.startswith(within)]


def summary(paths: Iterable[str]) -> str:
    """Return how many files were not read, by their suffix; empty when all were."""
    counts = Counter(os.path.splitext(path)[1].lower() or "no suffix" for path in paths)
    if not counts:
        return ""
    shown = ", ".join(f"{count} {one_line(suffix)}" for suffix, count in counts.most_common(_KINDS_SHOWN))
    more = f", {len(counts) - _KINDS_SHOWN} more kinds" if len(counts) > _KINDS_SHOWN else ""
    files = sum(counts.values())
    return f"{files:,} file{'s' * (files != 1)} not read (taken as bytes: {shown}{more})"
