"""The fields of requests that fence a run, and read, claim and lay states."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, TypedDict

from .base_requests import Held, OfCell


class Fence(Held, total=False):
    """The claim from which on the run goes on elsewhere."""

    epoch: int
    nonce: str
    to: str
    who: str


class LeftState(OfCell, total=False):
    """The epoch and the box's name, for the manifest of what a cell left."""

    epoch: int
    box: str


class LayState(OfCell, total=False):
    """A state to lay below $LEASE_OUT: its files [path, bytes, sha256], and where it comes from."""

    home: str
    who: str
    epoch: int
    state: str
    files: Sequence[Sequence[Any]]
    pattern: str
    facts: Mapping[str, Any]


class InPlace(TypedDict):
    """A place that the box sees: {folder}, or {bucket, environ}."""

    place: Mapping[str, Any]


class FetchState(LayState, InPlace, total=False):
    """The state in a place that the box copies and lays."""

    kept: Mapping[str, Any]


class KeptIn(InPlace):
    """The runs and cells whose states are listed."""

    cells: Sequence[Sequence[str]]


class ClaimEpoch(InPlace):
    """The claim to make; None only reads."""

    run: str
    claim: Any


class OfKept(InPlace):
    """A state in a place."""

    run: str
    cell: str
    state: str


class ReadKept(OfKept):
    """A file of a state, from an offset on."""

    path: str
    offset: int
