"""The result of a person's own command on a box."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entered:
    """Its exit code and where it ran; its output, if that was requested as data."""

    code: int
    where: str
    out: str = ""
    err: str = ""
