"""What a desk hands out to those who carry a pull."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from leasehold.lifecycle.pull.files.incoming_file import Coming


class Piece(NamedTuple):
    """A range of a file."""

    file: Coming
    start: int
    end: int


@dataclass(frozen=True)
class Batch:
    """Ranges to fetch in one request."""

    pieces: list[Piece]


@dataclass(frozen=True)
class Copy:
    """A range that equals one that is here."""

    piece: Piece
    source: Coming
    source_start: int


@dataclass(frozen=True)
class Take:
    """A file that lies elsewhere at home."""

    file: Coming
    places: list[Path]


@dataclass(frozen=True)
class Mend:
    """A file whose bytes are all here and whose sum is wrong."""

    file: Coming


@dataclass(frozen=True)
class Spare:
    """Nothing is left to ask for; others still bring what they were asked for."""


Job = Batch | Copy | Take | Mend | Spare
