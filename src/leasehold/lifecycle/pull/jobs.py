"""Jobs that the desk hands out to the streams of a pull."""

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
    """A range with the same content as one that is here."""

    piece: Piece
    source: Coming
    source_start: int


@dataclass(frozen=True)
class Take:
    """A file that already lies elsewhere at home."""

    file: Coming
    places: list[Path]


@dataclass(frozen=True)
class Mend:
    """A file whose bytes are all here but whose sum is wrong."""

    file: Coming


@dataclass(frozen=True)
class Spare:
    """Nothing is left to request; other streams still bring what was requested of them."""


Job = Batch | Copy | Take | Mend | Spare
