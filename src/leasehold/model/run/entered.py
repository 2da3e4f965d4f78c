"""What a person's own command on a box came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entered:
    """Its exit code and where it ran; its output, where that was asked for as data."""

    code: int
    where: str
    out: str = ""
    err: str = ""
