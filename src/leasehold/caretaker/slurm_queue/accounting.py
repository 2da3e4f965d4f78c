"""Find out how tasks ended that left no record of ours: from the accounts where a site has them, else the controller.

A whole sweep may be cancelled at once, so Slurm is asked about many tasks together, not about each.
"""

from __future__ import annotations

import os
import re
import time
from typing import Dict, List, Mapping, Tuple

from leasehold.caretaker.run.run_folder import RunFolder

from .commands import SlurmDown, SlurmRefused, ask, ask_accounts
from .explain import Ended
from .states import LIVE, WAITING, Task, last_line, places
from .submit import output_of

_BY_NAME = 20  # few enough to query by name: their array may have ten thousand others
_FACTS = "JobID,State,ExitCode,ElapsedRaw,MaxRSS,ReqMem,NodeList"
_TRIES = 4  # the controller reports to the accounts, so they learn of an end after it
_TRY_AFTER_S = 0.5
_SCALE = {"K": 10, "M": 20, "G": 30, "T": 40}

Place = Tuple[str, int]  # a job and an index in its array


def look_back(folder: RunFolder, ended: List[Task]) -> Dict[str, Ended]:
    """Find out how each of these tasks ended, by its cell."""
    wanted = {(task.job, task.place): task for task in ended}
    found = _from_accounts(wanted)
    unknown = {place: task for place, task in wanted.items() if place not in found}
    found.update(_from_controller(unknown))
    return {
        task.cell: found.get(place, Ended(task.state))._replace(
            state=task.state, said=last_line(output_of(folder, task.job, task.place))
        )
        for place, task in wanted.items()
    }


def _names(wanted: Mapping[Place, Task]) -> List[str]:
    """Return what to query: each of a few tasks, or the arrays of many."""
    if len(wanted) <= _BY_NAME:
        return [task.name for task in wanted.values()]
    return list(dict.fromkeys(job for job, _ in wanted))


def _from_accounts(wanted: Mapping[Place, Task]) -> Dict[Place, Ended]:
    """Query the accounts; retry while they lack the start or end of a task that has ended."""
    found: Dict[Place, Ended] = {}
    for number in range(_TRIES if wanted else 0):
        time.sleep(_TRY_AFTER_S * number)
        try:
            found = _read_accounts(wanted)
        except (SlurmRefused, SlurmDown):
            break  # many clusters keep none
        if len(found) == len(wanted) and not any(one.state in WAITING + LIVE for one in found.values()):
            break
    return found


def _read_accounts(wanted: Mapping[Place, Task]) -> Dict[Place, Ended]:
    said = ask_accounts(["sacct", "-n", "-P", "-j", ",".join(_names(wanted)), "-o", _FACTS])
    cells = {place: task.cell for place, task in wanted.items()}
    rows: Dict[Place, List[List[str]]] = {}
    for row in (line.split("|") for line in said.splitlines() if line.count("|") == _FACTS.count(",")):
        job, _, index = row[0].partition(".")[0].partition("_")
        for place in places(job, index or "N/A", cells):
            rows.setdefault(place, []).append(row)
    return {place: _accounted(mine) for place, mine in rows.items()}


def _accounted(rows: List[List[str]]) -> Ended:
    """Read a task's rows: itself first, then its steps, which have its peak memory."""
    _, state, codes, elapsed_s, _, asked_mem, node = rows[0]
    code, _, by_signal = codes.partition(":")
    return Ended(
        state,
        code=_int(code),
        signal=_int(by_signal),
        node=node,
        elapsed_s=_int(elapsed_s),
        asked_mem=asked_mem,
        max_rss_bytes=max(_size(row[4]) for row in rows),
        by=_user(state.partition(" by ")[2]),
    )


def _from_controller(wanted: Mapping[Place, Task]) -> Dict[Place, Ended]:
    cells = {place: task.cell for place, task in wanted.items()}
    found: Dict[Place, Ended] = {}
    for name in _names(wanted):
        try:
            said = ask(["scontrol", "-o", "show", "job", name])
        except SlurmRefused:
            continue  # it has forgotten this one
        except SlurmDown:
            break
        for facts in (dict(word.partition("=")[::2] for word in line.split()) for line in said.splitlines()):
            job, index = facts.get("ArrayJobId", ""), facts.get("ArrayTaskId", "")
            found.update((place, _remembered(facts)) for place in places(job, index, cells))
    return found


def _remembered(facts: Mapping[str, str]) -> Ended:
    code, _, by_signal = facts.get("ExitCode", "").partition(":")
    node, memory = facts.get("NodeList", ""), facts.get("MinMemoryNode") or facts.get("MinMemoryCPU", "")
    return Ended("", code=_int(code), signal=_int(by_signal), node="" if node == "(null)" else node, asked_mem=memory)


def _user(number: str) -> str:
    if not number.isdigit():
        return number
    if int(number) == os.getuid():
        return "you"
    import pwd  # only for a cancelled task

    try:
        return pwd.getpwuid(int(number)).pw_name
    except KeyError:
        return "user %s" % number


def _size(text: str) -> int:
    found = re.match(r"(\d+(?:\.\d+)?)([KMGT]?)\Z", text)
    return int(float(found.group(1)) * (1 << _SCALE.get(found.group(2), 0))) if found else 0


def _int(text: str) -> int:
    return int(text) if text.isdigit() else 0
