"""What lies beside the files of a state: its manifest, the pointer to the newest, the pins. Read without trust."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from leasehold.kit.files.canonical_json import canonical, sha256
from leasehold.kit.files.paths import UnsafePath, check_name, check_relative

from .layout import HIGHEST_EPOCH, check_id, number_of, state_id

STATE_SCHEMA, POINTER_SCHEMA, PINS_SCHEMA = "leasehold.state/1", "leasehold.pointer/1", "leasehold.pins/1"
MOST_BYTES = 64 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_KINDS = re.compile(r"[a-z0-9_.-]{1,40}\Z")


class BadRecord(ValueError):
    """A record cannot be used; str() gives the reason."""


class StateFile(NamedTuple):
    """One file of a state; the path is relative to the state's root."""

    path: str
    bytes: int
    sha256: str


class State(NamedTuple):
    """The manifest of one whole state of one cell."""

    run: str
    cell: str
    epoch: int
    box: str
    attempt: int
    step: Optional[int]
    number: int  # the step, else the place in the sequence of states
    made_unix: float
    copied_unix: float  # when the copy began
    kind: str  # what wrote it, as far as its name tells: file, folder, checkpoint-N, dcp …
    root: str  # the folder of the files relative to $LEASE_OUT; empty for $LEASE_OUT itself
    files: Tuple[StateFile, ...]

    @property
    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(one.bytes for one in self.files)


class Pointer(NamedTuple):
    """The newest state of one epoch of a cell, and what is kept beside it."""

    epoch: int
    id: str
    manifest_sha256: str
    step: Optional[int]
    made_unix: float
    copied_unix: float
    best: str = ""
    pinned: Tuple[str, ...] = ()
    best_value: Optional[float] = None

    @property
    def keeps(self) -> Tuple[str, ...]:
        """Return the states that must not be pruned."""
        return (self.id,) + ((self.best,) if self.best else ()) + self.pinned


def encode_state(state: State) -> Tuple[bytes, str, str]:
    """Return the manifest's bytes, their sha256, and the state's id."""
    value = dict(state._asdict(), schema=STATE_SCHEMA, files=[one._asdict() for one in state.files])
    data = canonical(value)
    hashed = sha256(data)
    return data, hashed, state_id(state.number, hashed)


def parse_state(data: bytes, run: str, cell: str, state: str) -> State:
    """Check and return a manifest; its hash must begin as the state's id ends."""
    value = _object(data, STATE_SCHEMA)
    if sha256(data)[:12] != check_id(state)[13:]:
        raise BadRecord("the manifest of %s has other bytes than its name says" % state)
    if value.get("run") != run or value.get("cell") != cell:
        raise BadRecord("the manifest is of %r, cell %r" % (value.get("run"), value.get("cell")))
    try:
        parsed = State(
            run=run,
            cell=check_name(cell, "cell"),
            epoch=_number(value, "epoch", HIGHEST_EPOCH),
            box=str(value.get("box") or "")[:200],
            attempt=_number(value, "attempt"),
            step=None if value.get("step") is None else _number(value, "step"),
            number=_number(value, "number"),
            made_unix=_time(value, "made_unix"),
            copied_unix=_time(value, "copied_unix"),
            kind=_kind(value.get("kind")),
            root=check_relative(value["root"]) if value.get("root") else "",
            files=_files(value.get("files")),
        )
    except UnsafePath as error:
        raise BadRecord(str(error)) from None
    if parsed.number != number_of(state):
        raise BadRecord("the manifest of %s says number %d" % (state, parsed.number))
    return parsed


def encode_pointer(pointer: Pointer) -> bytes:
    """Return the pointer's bytes."""
    return canonical(dict(pointer._asdict(), schema=POINTER_SCHEMA, pinned=list(pointer.pinned)))


def parse_pointer(data: bytes, epoch: int) -> Pointer:
    """Check and return a pointer."""
    value = _object(data, POINTER_SCHEMA)
    if value.get("epoch") != epoch:
        raise BadRecord("the pointer of epoch %d says epoch %r" % (epoch, value.get("epoch")))
    best, best_value = value.get("best") or "", value.get("best_value")
    return Pointer(
        epoch=epoch,
        id=_id(value.get("id")),
        manifest_sha256=_hash(value.get("manifest_sha256")),
        step=None if value.get("step") is None else _number(value, "step"),
        made_unix=_time(value, "made_unix"),
        copied_unix=_time(value, "copied_unix"),
        best=_id(best) if best else "",
        pinned=tuple(_ids(value.get("pinned"))),
        best_value=float(best_value) if isinstance(best_value, (int, float)) else None,
    )


def encode_pins(pins: Dict[str, List[str]]) -> bytes:
    """Return the bytes of the pins: for each cell, the states that a person pinned."""
    return canonical({"schema": PINS_SCHEMA, "cells": {cell: sorted(set(ids)) for cell, ids in pins.items()}})


def parse_pins(data: bytes) -> Dict[str, List[str]]:
    """Check and return the pins."""
    cells = _object(data, PINS_SCHEMA).get("cells")
    if not isinstance(cells, dict):
        raise BadRecord("the pins have no cells")
    return {str(cell): _ids(ids) for cell, ids in cells.items()}


def _object(data: bytes, schema: str) -> Dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise BadRecord("not readable as JSON; %s was expected" % schema) from None
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise BadRecord("not a record of schema %s" % schema)
    return value


def _files(value: Any) -> Tuple[StateFile, ...]:
    if not isinstance(value, list) or not value:
        raise BadRecord("the manifest names no file")
    files = []
    seen = set()
    for one in value:
        if not isinstance(one, dict):
            raise BadRecord("the manifest names a file that is none: %r" % (one,))
        path = check_relative(one.get("path"))
        if path in seen:
            raise BadRecord("%r is named twice" % path)
        seen.add(path)
        files.append(StateFile(path, _number(one, "bytes", 1 << 62), _hash(one.get("sha256"))))
    _check_nested(seen)
    return tuple(files)


def _check_nested(paths: Iterable[str]) -> None:
    """Refuse a path that lies below another file: the two cannot be laid into one folder."""
    known = set(paths)
    for path in known:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in known:
                raise BadRecord("%r lies below the file %r" % (path, parent))
            parent = parent.rpartition("/")[0]


def _number(value: Dict[str, Any], key: str, most: int = 10**12) -> int:
    found = value.get(key)
    if type(found) is not int or not 0 <= found <= most:
        raise BadRecord("%s is %r, not a number from 0 to %d" % (key, found, most))
    return found


def _time(value: Dict[str, Any], key: str) -> float:
    found = value.get(key)
    if type(found) not in (int, float) or not 0 <= found < 1e11:  # type: ignore[operator]
        raise BadRecord("%s is %r, not a time" % (key, found))
    return float(found)  # type: ignore[arg-type]


def _kind(value: Any) -> str:
    if not isinstance(value, str) or not _KINDS.match(value):
        raise BadRecord("kind is %r" % (value,))
    return value


def _hash(value: Any) -> str:
    if not isinstance(value, str) or not _SHA256.match(value):
        raise BadRecord("%r is no sha256" % (value,))
    return value


def _id(value: Any) -> str:
    try:
        return check_id(value if isinstance(value, str) else "")
    except ValueError as error:
        raise BadRecord(str(error)) from None


def _ids(value: Any) -> List[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRecord("%r is no list of states" % (value,))
    return [_id(one) for one in value]
