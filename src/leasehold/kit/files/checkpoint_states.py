"""Find whole states below the path that a job declares for its checkpoints: a file, a folder of them, or a pattern."""

from __future__ import annotations

import json
import os
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from .checkpoint_file import Damaged, parse_header
from .globbing import Found, compile_pattern, walk
from .newest_checkpoint import LAST_WRITTEN, NO_END_MARK, PASSING, UNKNOWN, sorted_states, why_not_whole

_MAGIC = "*?["
_RECORD = (".json", ".jsonl", ".csv", ".txt", ".log", ".yaml", ".yml", ".md", ".html", ".png", ".lock", ".done")
_SHARDED = re.compile(r"(?:checkpoint-|step[-_]|global_step|epoch[-_])\d+\Z|.*\.(?:dcp|saved)\Z")
_NAMED_STEP = re.compile(r"(?:global_?step|checkpoint|step|iter(?:ation)?|ckpt)[-_=]?(\d+)", re.I)
_MOST_JSON = 64 << 20


class State(NamedTuple):
    """A file or folder that a trainer saved: its path below the root, and its files."""

    path: str
    files: Tuple[Found, ...]  # paths below the root

    @property
    def made_unix(self) -> float:
        """Return when its last file was written."""
        return max(one.info.st_mtime for one in self.files)


class Newest(NamedTuple):
    """The newest whole state, and the newer ones that are not: path, why."""

    state: Optional[State]
    passed_over: Tuple[Tuple[str, str], ...] = ()


def states(root: str, path: str) -> List[State]:
    """List what lies below the path of a job's checkpoints as states, the newest first; whole or not."""
    pattern, records = _pattern(root, path)
    regex = compile_pattern(pattern)
    found: Dict[str, List[Found]] = {}
    for one in walk(root) if os.path.isdir(root) else ():
        parts = one.path.split("/")
        if not one.is_file or any(PASSING.search(part) for part in parts):
            continue
        for depth in range(1, len(parts) + 1):
            top = "/".join(parts[:depth])
            if regex.match(top):
                if records or depth < len(parts) or not _is_record(top):
                    found.setdefault(top, []).append(one)
                break
    times = {top: [(_below(one.path, top), one.info.st_mtime_ns) for one in files] for top, files in found.items()}
    return [State(top, tuple(found[top])) for top, _ in sorted_states(times)]


def newest_whole(root: str, path: str, stable: bool = False, most: int = 20) -> Newest:
    """Return the newest state that is whole by what its format or its writer says.

    stable: nobody writes these files any more, so that one that has no end or end mark is whole too.
    """
    listed = states(root, path)
    passed: List[Tuple[str, str]] = []
    for number, one in enumerate(listed[:most]):
        before = listed[number + 1] if number + 1 < len(listed) else None
        why = why_torn(root, one, before)
        if not why or (stable and why in (UNKNOWN, NO_END_MARK)):
            return Newest(one, tuple(passed))
        passed.append((one.path, why))
    return Newest(None, tuple(passed))


def why_torn(root: str, state: State, before: Optional[State] = None) -> str:
    """Return why a state is not known to be whole, empty if it is; a folder is compared with the one before it."""
    older = (before.path, _names(before)) if before is not None else None
    return why_not_whole(root, state.path, _names(state), older)


def step_of(root: str, state: State) -> Optional[int]:
    """Return the step of a state: as its writer recorded it, else as its name says; None where neither does."""
    for one in state.files:
        name = os.path.basename(one.path)
        if name == "trainer_state.json":
            return _json_step(os.path.join(root, one.path), "global_step") or _named_step(state.path)
        if name == "leasehold.json":
            return _json_step(os.path.join(root, one.path), "step") or _named_step(state.path)
    if len(state.files) == 1 and state.path.endswith(".safetensors"):
        return _own_step(os.path.join(root, state.files[0].path)) or _named_step(state.path)
    return _named_step(state.path)


def _pattern(root: str, path: str) -> Tuple[str, bool]:
    """Return the pattern of states, and whether records such as JSON files may be states: in a folder they are not."""
    path = path.strip("/")
    place = os.path.join(root, path)
    if path.rpartition("/")[2] in ("*", "**"):
        return path, False
    if any(sign in path for sign in _MAGIC) or not os.path.isdir(place):
        return path, True
    if _SHARDED.match(os.path.basename(path)) or any(LAST_WRITTEN.match(name) for name in os.listdir(place)):
        return path, True
    return path + "/*", False


def _is_record(path: str) -> bool:
    return path.endswith(_RECORD) or os.path.basename(path).startswith(".")


def _names(state: State) -> List[Tuple[str, int]]:
    return [(_below(one.path, state.path), one.info.st_mtime_ns) for one in state.files]


def _below(path: str, top: str) -> str:
    return path[len(top) + 1 :]


def _named_step(path: str) -> Optional[int]:
    for part in reversed(path.split("/")):
        found = _NAMED_STEP.findall(part)
        if found:
            return int(found[-1])
    return None


def _json_step(path: str, key: str) -> Optional[int]:
    try:
        if os.path.getsize(path) > _MOST_JSON:
            return None
        with open(path, "rb") as file:
            step = json.loads(file.read().decode("utf-8")).get(key)
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    return step if type(step) is int and step >= 0 else None


def _own_step(path: str) -> Optional[int]:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        step = parse_header(fd).facts.get("step", "")
    except (Damaged, OSError):
        return None
    finally:
        os.close(fd)
    return int(step) if step.isdigit() else None
