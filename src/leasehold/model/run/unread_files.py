"""Files of a receipt that are home and hash-equal, but that no reader has parsed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.kit.tables.file_endings import guess_kind
from leasehold.model.values.wording import one_line

_KINDS_SHOWN = 4


def unread(loads: Iterable[Mapping[str, Any]], cell: str = "") -> list[str]:
    """Return the paths of files that were accepted as bytes; of one cell, if it is named."""
    within = f"{cell}/" if cell else ""
    paths = (str(load.get("path", "")) for load in loads if load.get("kind") == "bytes")
    return [path for path in paths if path.startswith(within)]


def summary(paths: Iterable[str]) -> str:
    """Return how many files were not parsed, by their suffix, and why; empty if all were."""
    without, by_wish = Counter[str](), Counter[str]()
    for path in paths:
        counts = without if guess_kind(path) == "bytes" else by_wish
        counts[os.path.splitext(path)[1].lower() or "no suffix"] += 1
    files = without.total() + by_wish.total()
    if not files:
        return ""
    reasons = [f"no reader: {_kinds(without)}"] if without else []
    reasons += [f"the job loads as bytes: {_kinds(by_wish)}"] if by_wish else []
    return f"{files:,} file{'s' * (files != 1)} not read ({'; '.join(reasons)})"


def reason(path: str) -> str:
    """Explain why a file that was accepted as bytes was not parsed."""
    if guess_kind(path) != "bytes":
        return "the job loads it as bytes"
    suffix = os.path.splitext(path)[1].lower()
    return f"no reader for {one_line(suffix) or 'a name without a suffix'}"


def _kinds(counts: Counter[str]) -> str:
    shown = ", ".join(f"{count} {one_line(suffix)}" for suffix, count in counts.most_common(_KINDS_SHOWN))
    return shown + (f", {len(counts) - _KINDS_SHOWN} more kinds" if len(counts) > _KINDS_SHOWN else "")
