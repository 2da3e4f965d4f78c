"""What a stopped run leaves for another box: the newest state that is whole, hashed, and the files beside it."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from leasehold.caretaker.refuge.found_states import Candidate, candidates, why_not
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.globbing import matching, walk
from leasehold.kit.files.newest_checkpoint import PASSING, UNKNOWN, why_unended
from leasehold.kit.files.paths import open_below
from leasehold.kit.files.sha256 import blocks, hash_blocks
from leasehold.kit.refuge.records import State, StateFile, encode_state

_MOST_TORN = 20
_AT_THE_END_S = 5.0  # a file last written so shortly before its trainer was killed may be half of one
_DIGITS = re.compile(r"\d+")

Tick = Callable[[int], None]


class Left(NamedTuple):
    """What one cell leaves."""

    state: State
    beside: Tuple[StateFile, ...]  # other files of $LEASE_OUT: curves, finished artifacts; no older states
    torn: Tuple[str, ...]  # newer states that are not whole, each with the reason


class Leaver(NamedTuple):
    """The attempt that wrote it: on which box and epoch, when it ended, whether a signal ended it."""

    epoch: int
    box: str
    attempt: int
    ended_unix: float
    killed: bool


def leave(folder: RunFolder, plan: Mapping[str, Any], cell: str, by: Leaver, tick: Tick) -> Optional[Left]:
    """Hash what the cell leaves; None if no state of it is whole."""
    job = plan.get("job", {})
    pattern = str((job.get("checkpoint") or {}).get("path") or "").strip("/")
    out = folder.out(cell)
    if not pattern:
        return _all_of(folder, cell, list(job.get("scratch") or ()), by, tick)
    found = in_order(candidates(out, pattern)) if os.path.isdir(out) else []
    torn: List[str] = []
    for place, one in enumerate(found[:_MOST_TORN]):
        why = why_torn(out, one, found[place + 1] if place + 1 < len(found) else None, by)
        if not why:
            return _left(folder, cell, (one, found), list(job.get("scratch") or ()), by, tuple(torn), tick)
        torn.append("%s: %s" % (one.name, why))
    return None


def in_order(found: List[Candidate]) -> List[Candidate]:
    """Order states newest first: by step if all of one series name theirs, since a clock may have jumped."""
    steps = [one.step for one in found]
    same = len({_DIGITS.sub("#", one.name) for one in found}) == 1
    if not same or None in steps or len(set(steps)) != len(steps):
        return found
    return sorted(found, key=lambda one: one.step or 0, reverse=True)


def why_torn(out: str, one: Candidate, older: Optional[Candidate], by: Leaver) -> str:
    """Return why a state of a stopped trainer cannot be relied on; empty if it can."""
    why = why_not(out, one, older, True, time.time())
    if why or not by.killed or one.made_ns / 1e9 < by.ended_unix - _AT_THE_END_S:
        return why
    for row in one.rows:
        path = os.path.join(out, one.root, row[0])
        if why_unended(path) == UNKNOWN and not _reads(path):
            return "%s was written as its trainer was killed, and %s" % (row[0], UNKNOWN)
    return ""


def _reads(path: str) -> bool:
    """Return whether the file reads to its end as the kind that its name suggests."""
    from leasehold.kit.readers import Unreadable, guess_kind, read  # few states come here

    kind = guess_kind(path)
    try:
        return kind != "bytes" and bool(read(path, kind))
    except (Unreadable, OSError):
        return False


def _left(
    folder: RunFolder, cell: str, found: Tuple[Candidate, List[Candidate]], scratch: List[str], by: Leaver,
    torn: Tuple[str, ...], tick: Tick,
) -> Left:  # fmt: skip
    one, states = found
    out = folder.out(cell)
    own = {_below(one.root, row[0]) for row in one.rows}
    state = State(
        run=folder.run,
        cell=cell,
        epoch=by.epoch,
        box=by.box,
        attempt=by.attempt,
        step=one.step,
        number=one.step or 0,
        made_unix=round(one.made_ns / 1e9, 3),
        copied_unix=round(time.time(), 3),
        kind=one.kind,
        root=one.root,
        files=tuple(_hashed(out, one.root, row[0], tick) for row in one.rows),
    )
    others = {_below(other.root, row[0]) for other in states if other is not one for row in other.rows}
    dropped = own | others | _matched(out, scratch)
    beside = [path for path in _plain_files(out) if path not in dropped]
    return Left(state, tuple(_hashed(out, "", path, tick) for path in beside), torn)


def _all_of(folder: RunFolder, cell: str, scratch: List[str], by: Leaver, tick: Tick) -> Optional[Left]:
    """Take every file: the job names no checkpoint, so any of them may be what the trainer loads."""
    out = folder.out(cell)
    dropped = _matched(out, scratch)
    paths = [path for path in _plain_files(out) if path not in dropped] if os.path.isdir(out) else []
    if not paths:
        return None
    made = max(os.lstat(os.path.join(out, path)).st_mtime for path in paths)
    files = tuple(_hashed(out, "", path, tick) for path in paths)
    now = round(time.time(), 3)
    state = State(folder.run, cell, by.epoch, by.box, by.attempt, None, 0, round(made, 3), now, "everything", "", files)
    return Left(state, (), ())


def _below(root: str, path: str) -> str:
    return "%s/%s" % (root, path) if root else path


def _plain_files(out: str) -> Iterator[str]:
    for one in walk(out):
        if one.is_file and not any(PASSING.search(part) for part in one.path.split("/")):
            yield one.path


def _matched(out: str, patterns: List[str]) -> Set[str]:
    if not patterns:
        return set()
    return {one.path for listed in matching(out, [str(item) for item in patterns]) for one in listed}


def _hashed(out: str, root: str, path: str, tick: Tick) -> StateFile:
    fd = open_below(out, _below(root, path))
    try:
        size, sha256 = hash_blocks(blocks(lambda count: os.read(fd, count)), each=lambda block: tick(len(block)))
    finally:
        os.close(fd)
    return StateFile(path, size, sha256)


def described(left: Left) -> Dict[str, Any]:
    """Return the form for the wire."""
    _, hashed, name = encode_state(left.state)
    state = dict(left.state._asdict(), files=[one._asdict() for one in left.state.files])
    beside = [one._asdict() for one in left.beside]
    return {"id": name, "manifest_sha256": hashed, "state": state, "beside": beside, "torn": list(left.torn)}
