"""Adopt orphans and end exactly our own processes."""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, List, Sequence, Tuple

from leasehold.kit.run.processes import Process, descendants, in_groups, is_alive, look, marked


def trainer_processes(pid: int, started: str, mark: str) -> List[Process]:
    """List the live processes of an attempt: its process group, and marked processes that left the group."""
    return processes_of([(pid, started)], mark)


def processes_of(trainers: Sequence[Tuple[int, str]], mark: str) -> List[Process]:
    """List the live processes of many attempts under one mark, with one scan of the machine for all of them."""
    found = {process.pid: process for process in marked(mark)}
    groups = {process.group for process in found.values()}
    leaders = {pid for pid, started in trainers if pid in groups or is_alive(pid, started)}
    if not leaders:
        return list(found.values())
    found.update({process.pid: process for process in in_groups(leaders)})
    for pid, started in trainers:
        alone = look(pid) if pid in leaders else None
        if alone is not None and alone.started == started and not alone.gone:
            found[pid] = alone  # an adopted trainer may belong to a group that is not its own
    return list(found.values())


def signal_all(processes: List[Process], group: int, number: int) -> None:
    """Signal the group once and stragglers one by one, each checked by its start time."""
    if any(process.group == group for process in processes):
        _quietly(os.killpg, group, number)
    for process in processes:
        if process.group != group and is_alive(process.pid, process.started):
            _quietly(os.kill, process.pid, number)


def end_processes(group: int, started: str, mark: str, grace_s: float, below: int = 0) -> int:
    """End what lives of an attempt: TERM, a grace, KILL; return how many processes there were.

    `below` is a subreaper that has no other children: its descendants belong to the attempt too, marked or not.
    """

    def living() -> List[Process]:
        found = {process.pid: process for process in trainer_processes(group, started, mark)}
        found.update({process.pid: process for process in (descendants(below) if below else ())})
        return list(found.values())

    return _end(living, group, grace_s)


def end_listed(processes: Sequence[Tuple[int, str]], grace_s: float) -> None:
    """End exactly these processes: TERM, a grace, KILL."""

    def living() -> List[Process]:
        seen = [(look(pid), started) for pid, started in processes]
        return [one for one, started in seen if one is not None and one.started == started and not one.gone]

    _end(living, 0, grace_s)


def _end(living: Callable[[], List[Process]], group: int, grace_s: float) -> int:
    alive = living()
    count = len(alive)
    signal_all(alive, group, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while alive and time.monotonic() < deadline:
        time.sleep(0.05)
        alive = living()
    signal_all(alive, group, signal.SIGKILL)
    return count


def poke(pid: int, started: str) -> bool:
    """Wake a caretaker if it is still that very process."""
    if not is_alive(pid, started):
        return False
    return _quietly(os.kill, pid, signal.SIGUSR1)


def _quietly(kill: Callable[[int, int], None], target: int, number: int) -> bool:
    try:
        kill(target, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
