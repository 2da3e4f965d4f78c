"""Find the newest whole checkpoint, and restore it; report what was skipped and what is missing."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from leasehold.checkpoint.state.facts import OURS
from leasehold.checkpoint.state.parts import copies_at_once, one_copying_thread, put_back, set_random_states
from leasehold.checkpoint.state.ranks import Ranks
from leasehold.kit.files.checkpoint_file import Damaged
from leasehold.kit.text.units import say_bytes

from . import sharded as shards
from .files import load_file
from .shelf import SHARDED, Shelf

Say = Callable[[str], None]


class CheckpointError(RuntimeError):
    """An error that needs a person; the message states what to do."""


class Restored(NamedTuple):
    """The position at which the training continues."""

    step: int = 0  # the next one
    epoch: Optional[float] = None
    metrics: Dict[str, float] = {}
    best: Optional[float] = None  # of the metric that Keep names
    path: str = ""  # empty for a fresh start
    notes: Tuple[str, ...] = ()


def restore_into(parts: Dict[str, Any], shelf: Shelf, ranks: Ranks, say: Say) -> Restored:
    """Restore every part from the newest whole checkpoint; nothing there is a fresh start, only damage is an error."""
    begun = time.monotonic()
    passed: List[str] = []
    while True:
        there = ranks.first([kept.path for kept in shelf.all()] if ranks.rank == 0 else None)
        if not there:
            break
        value, problem = _load(there[-1], parts, ranks)
        if not problem:
            return _put_back(value, there[-1], parts, ranks, _Telling(say, begun, passed))
        passed.append("%s is damaged and was passed over: %s" % (os.path.basename(there[-1]), problem))
        say("checkpoint: " + passed[-1])
        if ranks.rank == 0:
            shelf.set_aside(shelf.all()[-1])
    if passed:
        raise CheckpointError(
            "every checkpoint in %s is damaged (%s); they were renamed to damaged-…: look at them, "
            "then run the same command again to start fresh" % (shelf.folder, "; ".join(passed))
        )
    say("checkpoint: none in %s, a fresh start" % shelf.folder)
    return Restored()


class _Telling(NamedTuple):
    say: Say
    begun: float
    passed: List[str]


def _load(path: str, parts: Dict[str, Any], ranks: Ranks) -> Tuple[Any, str]:
    """Read on every process; return the value, or the first problem that any of them met."""
    value, problem = None, ""
    try:
        if path.endswith(SHARDED):
            return shards.load(path, parts, ranks)
        if ranks.rank == 0 or os.path.exists(path):
            value = load_file(path)
        else:
            problem = "process %d does not see it: put the folder on a disk all share, or use sharded=True" % ranks.rank
    except Damaged as damage:
        problem = str(damage)
    problems = ranks.gather(problem)
    if not problems[0] and any(problems):
        raise CheckpointError("%s: %s" % (path, next(said for said in problems if said)))
    return value, problems[0]


def _put_back(value: Any, path: str, parts: Dict[str, Any], ranks: Ranks, telling: _Telling) -> Restored:
    ours = value.part(OURS)
    notes = list(telling.passed)
    saved = ours["ranks"]
    mine = saved[ranks.rank] if ranks.rank < len(saved) else None
    if len(saved) != ranks.world:
        notes.append("saved by %d processes, here are %d: random states may differ" % (len(saved), ranks.world))
    local = (mine or {"parts": {}})["parts"]
    with one_copying_thread():
        for name, part in parts.items():
            if name in value.parts:
                put_back(part, value.part(name, borrowed=copies_at_once(part)), name)
            elif name in local:
                put_back(part, local[name], name)
            elif not (path.endswith(SHARDED) and shards.holds(part)):
                notes.append("the checkpoint holds no %s; it starts fresh" % name)
    notes += ["the checkpoint's %s is not asked for" % name for name in sorted(set(value.parts) - {OURS, *parts})]
    if mine is not None:
        notes += set_random_states(mine["rng"])
    step, took = ours["step"], time.monotonic() - telling.begun
    telling.say("checkpoint: resumes at step %d from %s (%s, verified in %.3g s)" % (step, path, _bytes(path), took))
    for note in notes[len(telling.passed) :]:
        telling.say("checkpoint: " + note)
    return Restored(step, ours["epoch"], ours["metrics"], ours["best"], path, tuple(notes))


def _bytes(path: str) -> str:
    if os.path.isdir(path):
        return say_bytes(sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)))
    return say_bytes(os.path.getsize(path))
