"""Evidence beside the results: journal, status, readings, and each attempt's log and exit record; limited in size."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.kit.files.rings import LEVELS

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen
    from leasehold.model.run.plan import Plan
    from leasehold.platforms.contract import Engine


FOLDER = "evidence"
JOURNAL, STATUS, READINGS = "journal.jsonl", "status.json", "readings"
_MAX_LOGS = 1000
_HEAD_BYTES, _TAIL_BYTES = 1 << 20, 31 << 20  # of one log
_MOST_BYTES = 512 << 20  # in total: anything beyond that is left out


def pull_evidence(engine: Engine, plan: Plan, place: Path, seen: RunSeen) -> None:
    """Save what shows how the run went; it is evidence, not promised results."""
    wanted = [("run", "", name) for name in (JOURNAL, "plan.json", STATUS)]
    wanted += [("run", "", f"{READINGS}/{level.name}") for level in LEVELS]
    for cell in plan.cells:  # never the box's own names: they would choose where we write
        last = int(seen["cells"].get(cell, {}).get("attempt", 0))
        for attempt in range(max(1, last - _MAX_LOGS + 1), last + 1):
            wanted += [("cells", cell, f"attempt-{attempt:04d}/{name}") for name in ("log", "exit.json")]
    left = _MOST_BYTES
    came = engine.ranges.get_many(plan.run, wanted)  # an attempt that vanished has no exit record
    for number, parts in groupby(came, key=lambda part: part[0]):
        _, cell, path = wanted[number]
        left -= _write(place / FOLDER / cell / path, (chunk for _, chunk in parts), min(left, _TAIL_BYTES))


def _write(target: Path, chunks: Iterable[bytes], tail_bytes: int) -> int:
    """Write a file's beginning and end; the middle of a huge one is replaced by the number of bytes left out."""
    target.parent.mkdir(parents=True, exist_ok=True)
    head, held, left_out = 0, 0, 0
    tail: deque[bytes] = deque()
    with open(target, "wb", opener=_private) as file:
        for chunk in chunks:
            if head < _HEAD_BYTES:
                head += file.write(chunk)
                continue
            tail.append(chunk)
            held += len(chunk)
            while tail and held - len(tail[0]) >= max(0, tail_bytes):
                gone = len(tail.popleft())
                held, left_out = held - gone, left_out + gone
        if left_out:
            file.write(b"\n[... %d bytes were left out of this copy ...]\n" % left_out)
        file.writelines(tail)
    return head + held


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
