"""State of our tasks in Slurm: the controller first, the accounts for what it has forgotten."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from leasehold.caretaker.run.run_folder import RunFolder

from .batch_script import NAME
from .commands import SlurmDown, SlurmRefused, ask, ask_accounts
from .explain import GONE
from .submit import Submission, output_of

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
LIVE = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
_TAIL_BYTES = 4000
_LINE_CHARS = 200
_DUE_TO = {"PREEMPTION": "PREEMPTED", "TIME LIMIT": "TIMEOUT", "NODE FAILURE": "NODE_FAIL"}


class Task(NamedTuple):
    """One task of an array as Slurm reports it."""

    cell: str
    job: str
    place: int  # in the array
    state: str
    reason: str

    @property
    def name(self) -> str:
        """The name that scancel and scontrol use."""
        return "%s_%d" % (self.job, self.place)

    @property
    def in_queue(self) -> bool:
        """Whether Slurm will still do something with it by itself."""
        return self.state in WAITING or self.state in LIVE

    @property
    def rank(self) -> Tuple[int, int]:
        """Order of a cell's tasks by which shows its state: one that runs, else one that waits, else the newest."""
        return 2 if self.state in LIVE else 1 if self.state in WAITING else 0, int(self.job)


def tasks(folder: RunFolder, known: List[Submission], wanted: Optional[Iterable[str]] = None) -> Dict[str, Task]:
    """Return for every cell the task that shows its state; a submitted cell among `wanted` is never absent."""
    cells = {(one.job, index): cell for one in known if one.job for index, cell in enumerate(one.cells)}
    withdrawn = {one.job for one in known if one.withdrawn}
    asked = ["squeue", "-h", "-r", "-a", "--me", "-t", "all", "-n", NAME + folder.run, "-o", "%F|%K|%T|%r"]
    found: Dict[str, Task] = {}
    for words in (line.split("|", 3) for line in ask(asked).splitlines()):
        if len(words) < 4:
            continue
        for job, index in places(words[0], words[1], cells):
            task = Task(cells[job, index], job, index, words[2].split()[0], words[3].strip())
            if job in withdrawn and task.state in ("PENDING", "CANCELLED"):
                continue  # our own doing: the cell waits for another
            if task.cell not in found or task.rank > found[task.cell].rank:
                found[task.cell] = task
    lasting = [one for one in known if one.job and not one.withdrawn]
    newest = {cell: (one.job, index) for one in lasting for index, cell in enumerate(one.cells)}
    forgotten = [cell for cell in (newest if wanted is None else wanted) if cell in newest and cell not in found]
    found.update(_forgotten({cell: newest[cell] for cell in forgotten}))
    return found


def places(job: str, index: str, cells: Mapping[Tuple[str, int], str]) -> List[Tuple[str, int]]:
    """List the tasks of a line; an array that was ended before it began is one line, without an index."""
    if index.isdigit():
        return [(job, int(index))] if (job, int(index)) in cells else []  # else a job of ours that is not this run's
    ranges = [part.partition("-") for part in index.strip("[]").partition("%")[0].split(",")]
    spans = [(int(first), int(last or first)) for first, _, last in ranges if first.isdigit()]
    mine = [place for place in cells if place[0] == job]
    return [place for place in mine if any(a <= place[1] <= b for a, b in spans)] if spans else mine


def _forgotten(newest: Dict[str, Tuple[str, int]]) -> Dict[str, Task]:
    """Return how tasks ended that the controller has forgotten: it answered, so they neither run nor wait."""
    if not newest:
        return {}
    recorded = _recorded({place: cell for cell, place in newest.items()})
    found = {}
    for cell, (job, index) in newest.items():
        state = recorded.get((job, index), GONE)
        found[cell] = Task(cell, job, index, GONE if state in WAITING or state in LIVE else state, "")
    return found


def _recorded(cells: Mapping[Tuple[str, int], str]) -> Dict[Tuple[str, int], str]:
    """Query the accounts; many clusters keep none."""
    jobs = ",".join(sorted({job for job, _ in cells}))
    try:
        said = ask_accounts(["sacct", "-X", "-n", "-P", "-D", "-j", jobs, "-o", "JobID,State"])
    except (SlurmRefused, SlurmDown):
        return {}
    found: Dict[Tuple[str, int], str] = {}
    for line in said.splitlines():
        name, _, state = line.partition("|")
        job, _, index = name.partition("_")
        if "." not in name and state:
            found.update((place, state.split()[0]) for place in places(job, index or "N/A", cells))
    return found


def put_back_for(folder: RunFolder, job: str, place: int) -> str:
    """Return the state in which a task was ended, from slurmstepd's message in its output; "" where there is none."""
    text = "\n".join(_tail(output_of(folder, job, place)))
    found = re.findall(r"CANCELLED AT \S+(?: DUE TO ([A-Z ]+?))? \*\*\*", text)
    return _DUE_TO.get(found[-1], "") if found else ""


def _tail(path: str) -> List[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def last_line(path: str) -> str:
    """Read the batch script's last output line; slurmstepd's own remarks are less useful than the line before them."""
    lines = _tail(path)
    told = [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("slurmstepd")]
    return told[-1][:_LINE_CHARS] if told else ""
