"""Prove that artifacts from a rented box load, in processes that can do nothing else.

Each file is read by its own process; small files of plain data share one, thirty-two at a time, and are read singly
if that process does not answer for all of them (decision 33). Torch checkpoints that pass are then loaded by
torch itself (weights_only) where an interpreter has it; those share a process, because importing torch takes seconds,
and a crash costs only the file it was on.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from leasehold.model.job.job import Artifact

from .fork_client import Readers
from .reader_limits import Room, room_for
from .spawn import Child, Conversation, converse

_GIB = 1024**3
_HERE = os.path.dirname(os.path.abspath(__file__))
_READERS_AT_ONCE = 4
_TOGETHER = 32
_SMALL_BYTES = 64 << 10
_PLAIN = ("json", "jsonl", "csv", "npy", "safetensors", "bytes")
_MOST_NAMED = 64  # keys or tensors with non-finite numbers, in one answer
_QUESTION_BYTES = 16 << 10  # bytes of paths in one question
_TOGETHER_S = 60.0  # for each of a group; a file that takes longer gets its own time
_TORCH_START_S = 120.0  # importing torch from a cold or networked disk
_TORCH_SLOWER = 6  # its own safe unpickler is written in Python, and builds what it reads
_TORCH_ADDRESS_BYTES = 32 * _GIB  # a CUDA build of torch maps about 10 GiB of address space without using it
# One thread per library: the walls forbid starting threads.
_TORCH_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_ANSWER_TYPES = {
    "kind": str,
    "bytes": int,
    "tensors": int,
    "numel": int,
    "keys": list,
    "opaque": list,
    "notes": list,
}


@dataclass(frozen=True)
class LoadRequest:
    """A file that must load; `kind` is one of kit.readers.KINDS."""

    path: str
    kind: str
    allow_opaque: bool = False
    required_keys: tuple[str, ...] = ()
    memory_bytes: int = 0  # for its reader; 0: by the file's size
    cpu_s: float = 0.0

    @property
    def room(self) -> Room:
        """Return the limits for reading it."""
        return room_for(self.path, self.kind, self.memory_bytes, self.cpu_s)


@dataclass(frozen=True)
class LoadResult:
    """Whether a file loads. `confinement` lists the walls that its reader was behind; `reading` is {} if unread."""

    path: str
    ok: bool
    reason: str = ""
    reading: dict[str, object] = field(default_factory=dict)
    confinement: tuple[str, ...] = ()
    torch_load: str = ""


def load_request(path: str, artifact: Artifact) -> LoadRequest:
    """Request a check of what the job promised of a file."""
    room = artifact.read_memory_bytes, artifact.read_s
    return LoadRequest(path, artifact.loads, artifact.allow_opaque, artifact.keys, *room)


def check_loads(
    requests: Sequence[LoadRequest],
    *,
    python: str | None = None,
    wall_s: float = 600.0,
    memory_bytes: int = 0,
) -> list[LoadResult]:
    """Return one result per request, in order; `wall_s` bounds the reading of each file, as does its `room`.

    `python` is an interpreter that may have torch; None means this one. `memory_bytes` is the default limit.
    """
    requests = [replace(each, memory_bytes=each.memory_bytes or memory_bytes) for each in requests]
    results = _read_all(requests, wall_s)
    at = [i for i, each in enumerate(requests) if _is_for_torch(each.kind, results[i])]
    loads = _load_with_torch([requests[i] for i in at], python or sys.executable, wall_s)
    for i, load in zip(at, loads, strict=True):
        results[i] = _judge_torch(requests[i], results[i], load)
    return results


def _is_for_torch(kind: str, result: LoadResult) -> bool:
    """Return whether torch must load it too."""
    return result.ok and (kind == "torch" or (kind == "checkpoint" and result.reading.get("kind") == "torch"))


def _read_all(requests: Sequence[LoadRequest], wall_s: float) -> list[LoadResult]:
    """Read several at once: each thread has a process that forks readers for it."""
    results: dict[int, LoadResult] = {}
    groups = _groups(requests)
    waiting = iter(groups)

    def work() -> None:
        with Readers(_HERE) as readers:
            for group in waiting:
                found = _read_group(readers, [requests[number] for number in group], wall_s)
                results.update(zip(group, found, strict=True))

    count = min(_READERS_AT_ONCE, len(groups), os.cpu_count() or 1)
    with ThreadPoolExecutor(max(1, count)) as pool:
        for done in [pool.submit(work) for _ in range(count)]:
            done.result()
    return [results[number] for number in range(len(requests))]


def _groups(requests: Sequence[LoadRequest]) -> list[list[int]]:
    """Return which files are read together, by their numbers."""
    groups: list[list[int]] = []
    last, room = "", 0
    for number, request in enumerate(requests):
        stated = request.memory_bytes or request.cpu_s
        kind = request.kind if request.kind in _PLAIN and not stated and _is_small_file(request.path) else ""
        spelled = 6 * len(os.path.abspath(request.path))  # at most: escaping an odd character takes six
        if not kind or kind != last or len(groups[-1]) == _TOGETHER or room < spelled:
            groups.append([])
            room = _QUESTION_BYTES
        groups[-1].append(number)
        last, room = kind, room - spelled
    return groups


def _read_group(readers: Readers, requests: Sequence[LoadRequest], wall_s: float) -> list[LoadResult]:
    """Read a group in one process; files without an answer get a process each."""
    talk = Conversation()
    if len(requests) > 1:
        within_s = min(wall_s, _TOGETHER_S)
        paths = [os.path.abspath(request.path) for request in requests]
        room = requests[0].room  # they are small: the limits of one suffice for all
        question = {"paths": paths, "kind": requests[0].kind, "cpu_s": room.cpu_s, "memory_bytes": room.memory_bytes}
        talk = readers.ask(question, within_s, len(paths))
    told = [
        _judge_reading(request, answer, talk.confinement)
        for request, answer in zip(requests, talk.answers, strict=False)
    ]
    return told + [_read_confined(readers, request, wall_s) for request in requests[len(told) :]]


def _read_confined(readers: Readers, request: LoadRequest, wall_s: float) -> LoadResult:
    room = request.room
    message = {
        "path": os.path.abspath(request.path),
        "kind": request.kind,
        "cpu_s": room.cpu_s,
        "memory_bytes": room.memory_bytes,
        "too_much": f"reading it takes too much: {room.said()}",
    }
    talk = readers.ask(message, wall_s)
    if not talk.answers:
        ending = f"{talk.ending}: {room.said()}" if talk.ending.startswith("was killed by") else talk.ending
        return LoadResult(request.path, False, f"the confined reader {ending}", {}, talk.confinement)
    return _judge_reading(request, talk.answers[0], talk.confinement)


def _judge_reading(request: LoadRequest, answer: dict[str, object], confinement: tuple[str, ...]) -> LoadResult:
    unread = LoadResult(request.path, False, confinement=confinement)
    if answer.get("ok") is not True:
        return replace(unread, reason=str(answer.get("reason", "the confined reader gave no reason"))[:1000])
    reading = answer.get("reading")
    if not isinstance(reading, dict) or not _is_reading(reading):
        return replace(unread, reason="the confined reader answered something that is no reading")
    result = replace(unread, ok=True, reading=reading)
    missing = [key for key in request.required_keys if key not in reading["keys"]]
    if missing:
        seen = ", ".join(reading["keys"][:10]) or "none"
        return replace(result, ok=False, reason=f"lacks the keys {', '.join(missing)}; top-level keys seen: {seen}")
    if reading["opaque"] and not request.allow_opaque:
        named = ", ".join(reading["opaque"][:10])
        return replace(
            result,
            ok=False,
            reason=f"needs classes that are never loaded here: {named};"
            " save plain data, or let the job say `allow_opaque: true`",
        )
    return result


def _is_reading(reading: dict[str, object]) -> bool:
    if set(reading) != {*_ANSWER_TYPES, "numbers"} or not _is_numbers(reading["numbers"]):
        return False
    if not all(type(reading[name]) is kind for name, kind in _ANSWER_TYPES.items()):
        return False
    lists = [value for value in reading.values() if isinstance(value, list)]
    return all(isinstance(item, str) for each in lists for item in each)


def _is_numbers(value: object) -> bool:
    """Return whether it is a reader's report of numbers; None where it examined none."""
    if value is None:
        return True
    if not isinstance(value, dict) or set(value) != {"nan", "inf", "where", "more", "unread"}:
        return False
    counts = [value[name] for name in ("nan", "inf", "more")]
    where = value["where"]
    if type(value["unread"]) is not str or not isinstance(where, list) or len(where) > _MOST_NAMED:
        return False
    if not all(isinstance(row, list) and len(row) == 2 and type(row[0]) is str for row in where):
        return False
    return all(type(count) is int and count >= 0 for count in [*counts, *(row[1] for row in where)])


@dataclass(frozen=True)
class _TorchLoad:
    said: str
    fails: bool
    by_policy: bool = False
    by_protocol: bool = False  # torch cannot read pickles of this protocol that way, whatever they hold
    confinement: tuple[str, ...] = ()  # empty: torch was not asked


def _load_with_torch(requests: Sequence[LoadRequest], python: str, wall_s: float) -> list[_TorchLoad]:
    """Load each file with torch; a process that dies costs the file it was on, the rest go to a new one."""
    command = [_program(python), "-I", "-B", os.path.join(_HERE, "torch_child.py")]
    child = Child(command, _TORCH_ENVIRONMENT, start_s=max(wall_s, _TORCH_START_S), wall_s=wall_s)
    loads: list[_TorchLoad] = []
    while len(loads) < len(requests):
        waiting = requests[len(loads) :]
        rooms = [request.room for request in waiting]
        # torch maps the file privately, which counts as memory although it is not.
        data = max(2 * room.memory_bytes + 4 * _size(each.path) for room, each in zip(rooms, waiting, strict=True))
        message = {
            "paths": [os.path.abspath(each.path) for each in waiting],
            "cpu_s": [_TORCH_SLOWER * room.cpu_s for room in rooms],
            "data_bytes": data,
            "address_bytes": data + _TORCH_ADDRESS_BYTES,
        }
        talk = converse(child, message, answers=len(waiting))
        if not talk.confinement and not talk.answers:  # it ended before it loaded anything
            absent = talk.absent or f"torch not usable: its process {talk.ending}"
            return loads + [_TorchLoad(absent, fails=False)] * len(waiting)
        found = [_torch_answer(answer) for answer in talk.answers]
        if len(found) < len(waiting):
            found.append(_TorchLoad(f"failed: the process that loads it {talk.ending}", fails=True))
        loads += [replace(load, confinement=talk.confinement) for load in found]
    return loads


def _program(python: str) -> str:
    # The child's folder is / and its PATH is empty, so the name is resolved here.
    return os.path.abspath(shutil.which(python) or python)


def _torch_answer(answer: dict[str, object]) -> _TorchLoad:
    said = answer.get("torch_load")
    if not isinstance(said, str):
        return _TorchLoad("failed: the process that loads it gave no answer", fails=True)
    by_policy, by_protocol = (answer.get(key) is True for key in ("by_policy", "by_protocol"))
    return _TorchLoad(said[:1000], said != "ok", by_policy, by_protocol)


def _judge_torch(request: LoadRequest, result: LoadResult, load: _TorchLoad) -> LoadResult:
    # Two processes read the file: the receipt claims only the walls that both were behind.
    walls = tuple(w for w in result.confinement if not load.confinement or w in load.confinement)
    result = replace(result, torch_load=load.said, confinement=walls)
    if not load.fails or load.by_protocol or (load.by_policy and request.allow_opaque):
        return result
    advice = "; save plain data, or let the job say `allow_opaque: true`" if load.by_policy else ""
    return replace(result, ok=False, reason=f"torch.load(weights_only=True) {load.said}{advice}")


def _is_small_file(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= _SMALL_BYTES


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # it was read a moment ago; torch will report that it is gone
        return 0
