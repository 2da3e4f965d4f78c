"""What a stopped run leaves for another box: the newest state that loads, hashed, and the files beside it."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.work_clock import literal_part
from leasehold.kit.files.globbing import Found, matching, walk
from leasehold.kit.files.paths import open_below
from leasehold.kit.files.sha256 import blocks, hash_blocks
from leasehold.kit.refuge.records import State, StateFile, encode_state

_DIGITS = re.compile(r"\d+")
_STEP = re.compile(r"(?:step|checkpoint|iter|it|ckpt)[=_-]?(\d+)", re.IGNORECASE)
_UNFINISHED = (".tmp", ".part", ".partial", ".incomplete")
_MOST_TORN = 20

Tick = Callable[[int], None]


class Unit(NamedTuple):
    """One state on the disk: a file, or a folder with all its files."""

    path: str  # relative to $LEASE_OUT
    files: Tuple[str, ...]
    mtime_ns: int

    @property
    def shape(self) -> str:
        """Return the name without its numbers: states of one series share it."""
        return _DIGITS.sub("#", self.path)

    @property
    def step(self) -> Optional[int]:
        """Return the step in its name, if it names one beyond doubt."""
        name = self.path.rpartition("/")[2]
        said = _STEP.findall(name) or _DIGITS.findall(name.partition(".")[0])
        return int(said[-1]) if len(said) == 1 and int(said[-1]) < 10**12 else None


class Left(NamedTuple):
    """What one cell leaves."""

    state: State
    beside: Tuple[StateFile, ...]  # other files of $LEASE_OUT: curves, finished artifacts; no older states
    torn: Tuple[str, ...]  # newer states that do not load, each with the reason


def leave(
    folder: RunFolder, plan: Mapping[str, Any], cell: str, facts: Mapping[str, Any], tick: Tick
) -> Optional[Left]:
    """Hash what the cell leaves; None if no state of it loads. facts: epoch, box, attempt."""
    job = plan.get("job", {})
    pattern = str((job.get("checkpoint") or {}).get("path") or "").strip("/")
    out = folder.out(cell)
    units = units_below(out, pattern)
    torn: List[str] = []
    for unit in units:
        why = why_torn(out, unit)
        if not why:
            return _left(folder, cell, (unit, units), job, facts, tuple(torn), tick)
        torn.append("%s: %s" % (unit.path, why))
        if len(torn) >= _MOST_TORN:
            break
    return None


def units_below(out: str, pattern: str) -> List[Unit]:
    """List the states that a pattern matches, the newest first."""
    if not pattern:
        return []
    try:
        hits = {one.path: one for listed in matching(out, [pattern, pattern + "/**"]) for one in listed if one.is_file}
    except OSError:
        return []
    found: Dict[str, List[Found]] = {}
    for one in hits.values():
        name = os.path.basename(one.path)
        if name.startswith(".") or name.endswith(_UNFINISHED):
            continue
        found.setdefault(_unit_of(one.path, literal_part(pattern)), []).append(one)
    units = [
        Unit(path, tuple(sorted(one.path for one in files)), max(one.info.st_mtime_ns for one in files))
        for path, files in found.items()
    ]
    series = [unit for unit in units if _DIGITS.search(os.path.basename(unit.path))]
    named = series or [unit for unit in units if os.path.basename(unit.path) != "index.json"] or units
    return sorted(named, key=lambda unit: (unit.mtime_ns, unit.path), reverse=True)


def _unit_of(path: str, literal: str) -> str:
    """Return the folder that is one state with all its files, such as checkpoint-500, else the file itself."""
    parts = path.split("/")
    below = 0 if not literal or literal == path else len(literal.split("/"))
    for count in range(max(1, below), len(parts)):
        name = parts[count - 1]
        if count >= below and (_STEP.search(name) or name.endswith((".dcp", ".saved"))):
            return "/".join(parts[:count])
    return path


def why_torn(out: str, unit: Unit) -> str:
    """Return why a state does not load as far as its kind can be read, and empty if it does."""
    from leasehold.kit.readers import Unreadable, guess_kind, read

    for path in unit.files:
        kind = guess_kind(path)
        try:
            full = os.path.join(out, path)
            if kind == "bytes":
                if not os.path.getsize(full) and len(unit.files) == 1:
                    return "%s is empty" % path
                continue
            read(full, kind)
        except (Unreadable, OSError) as error:
            return "%s does not load: %s" % (path, error)
    return ""


def _left(
    folder: RunFolder, cell: str, found: Tuple[Unit, List[Unit]], job: Mapping[str, Any], facts: Mapping[str, Any],
    torn: Tuple[str, ...], tick: Tick,
) -> Left:  # fmt: skip
    unit, units = found
    out = folder.out(cell)
    state = State(
        run=folder.run,
        cell=cell,
        epoch=int(facts.get("epoch") or 0),
        box=str(facts.get("box") or ""),
        attempt=int(facts.get("attempt") or 0),
        step=unit.step,
        number=unit.step or 0,
        made_unix=round(unit.mtime_ns / 1e9, 3),
        copied_unix=round(time.time(), 3),
        kind="disk",
        root="",
        files=tuple(_hashed(out, path, tick) for path in unit.files),
    )
    others = {path for other in units if other is not unit for path in other.files}
    scratch = _matched(out, list(job.get("scratch") or ()))
    beside = [path for path in _plain_files(out) if path not in others and path not in scratch | set(unit.files)]
    return Left(state, tuple(_hashed(out, path, tick) for path in beside), torn)


def _plain_files(out: str) -> Iterator[str]:
    for one in walk(out):
        if one.is_file and not one.path.endswith(_UNFINISHED):
            yield one.path


def _matched(out: str, patterns: List[str]) -> Set[str]:
    if not patterns:
        return set()
    return {one.path for listed in matching(out, [str(item) for item in patterns]) for one in listed}


def _hashed(out: str, path: str, tick: Tick) -> StateFile:
    fd = open_below(out, path)
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
