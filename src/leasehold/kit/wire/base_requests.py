"""The fields that many requests share."""

from __future__ import annotations

from typing import TypedDict


class Nothing(TypedDict):
    """Only the request's name."""


class OfRun(TypedDict):
    """A request about one run."""

    run: str


class OfCell(OfRun):
    """A request about one cell of a run."""

    cell: str


class Held(OfRun):
    """A request by a home that must hold the run."""

    home: str
