"""Find and end the processes of a test bed, each by its pid."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Set


class Process(NamedTuple):
    """One line of /proc."""

    pid: int
    parent: int
    name: str
    state: str


def snapshot() -> Dict[int, Process]:
    """Read all live processes; the dead but unreaped are left out."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            text = Path("/proc", entry, "stat").read_text(encoding="utf-8", errors="replace")
            name = text[text.index("(") + 1 : text.rindex(")")]
            state, parent = text[text.rindex(")") + 2 :].split()[:2]
            if state not in ("Z", "X"):
                found[int(entry)] = Process(int(entry), int(parent), name, state)
    return found


def descendants(root: int, follow: Callable[[Process], bool]) -> List[int]:
    """List the pids below root, parents first, not looking below a process that follow() turns down."""
    live = snapshot()
    found: List[int] = []
    parents = [root]
    while parents:
        parent = parents.pop()
        below = [p.pid for p in live.values() if p.parent == parent and follow(p)]
        found += below
        parents += below
    return found


def marked(mark: str, folder: str) -> List[int]:
    """List processes that started with mark (NAME=VALUE) in their environment, or work inside folder.

    This test run itself and its ancestors are never listed.
    """
    live = snapshot()
    spared = _ancestry(live)
    return [pid for pid in live if pid not in spared and (_has_mark(pid, mark) or _works_in(pid, folder))]


def send(pids: List[int], number: int) -> None:
    """Signal each pid that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end(find: Callable[[], List[int]], limit_s: float = 60.0) -> int:
    """Kill what find() lists until it lists nothing, since keepers respawn; return how many died."""
    deadline = time.monotonic() + limit_s
    killed: Set[int] = set()
    while True:
        pids = find()
        if not pids:
            return len(killed)
        if time.monotonic() > deadline:
            raise TimeoutError("still alive after %.0f s of SIGKILL: %s" % (limit_s, pids))
        send(pids, signal.SIGKILL)
        killed.update(pids)
        time.sleep(0.002)


def _ancestry(live: Dict[int, Process]) -> Set[int]:
    pids = set()
    pid = os.getpid()
    while pid in live:
        pids.add(pid)
        pid = live[pid].parent
    return pids


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return os.fsencode(mark) in Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _works_in(pid: int, folder: str) -> bool:
    try:
        place = os.readlink("/proc/%d/cwd" % pid)
    except OSError:
        return False
    return place == folder or place.startswith(folder + "/")
