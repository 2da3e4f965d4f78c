"""How things are said."""

from __future__ import annotations

from leasehold.kit.terminal import one_line

__all__ = ["ago", "one_line"]


def ago(seconds: float) -> str:
    """Say a duration in its two largest units."""
    whole = int(max(0, seconds))
    for size, unit, below, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"
