"""What Slurm says of our tasks: the controller first, the accounts for what it has forgotten."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from leasehold.caretaker.layout import RunFolder

from .script import NAME
from .submit import Submission, output_of
from .tools import SlurmDown, SlurmRefused, ask
from .words import GONE, Ended

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
LIVE = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
_TAIL_BYTES = 4000
_LINE_CHARS = 200
_ACCOUNTS = "State,ExitCode,ElapsedRaw,MaxRSS,ReqMem,NodeList"
_DUE_TO = {"PREEMPTION": "PREEMPTED", "TIME LIMIT": "TIMEOUT", "NODE FAILURE": "NODE_FAIL"}
_SCALE = {"K": 10, "M": 20, "G": 30, "T": 40}


class Task(NamedTuple):
    """One task of an array as Slurm tells it."""

    cell: str
    job: str
    place: int  # in the array
    state: str
    reason: str

    @property
    def name(self) -> str:
        """How scancel and scontrol call it."""
        return "%s_%d" % (self.job, self.place)

    @property
    def in_queue(self) -> bool:
        """Whether Slurm will still do something with it by itself."""
        return self.state in WAITING or self.state in LIVE

    @property
    def rank(self) -> Tuple[int, int]:
        """Which of a cell's tasks tells how it stands: one that runs, else one that waits, else the newest."""
        return 2 if self.state in LIVE else 1 if self.state in WAITING else 0, int(self.job)


def tasks(folder: RunFolder, known: List[Submission], wanted: Optional[Iterable[str]] = None) -> Dict[str, Task]:
    """Ask for the task of every cell that tells how it stands; of wanted cells none is absent if one was submitted."""
    cells = {(one.job, index): cell for one in known if one.job for index, cell in enumerate(one.cells)}
    withdrawn = {one.job for one in known if one.withdrawn}
    asked = ["squeue", "-h", "-r", "-a", "--me", "-t", "all", "-n", NAME + folder.run, "-o", "%F|%K|%T|%r"]
    found: Dict[str, Task] = {}
    for words in (line.split("|", 3) for line in ask(asked).splitlines()):
        if len(words) < 4:
            continue
        for job, index in _places(words[0], words[1], cells):
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


def _places(job: str, index: str, cells: Mapping[Tuple[str, int], str]) -> List[Tuple[str, int]]:
    """Name the tasks that a line speaks of; an array that was ended before it began is one line, without an index."""
    if index.isdigit():
        return [(job, int(index))] if (job, int(index)) in cells else []  # else a job of ours that is not this run's
    ranges = [part.partition("-") for part in index.strip("[]").partition("%")[0].split(",")]
    spans = [(int(first), int(last or first)) for first, _, last in ranges if first.isdigit()]
    mine = [place for place in cells if place[0] == job]
    return [place for place in mine if any(a <= place[1] <= b for a, b in spans)] if spans else mine


def _forgotten(newest: Dict[str, Tuple[str, int]]) -> Dict[str, Task]:
    """Say how tasks ended that the controller has forgotten: it answered, so they neither run nor wait."""
    if not newest:
        return {}
    recorded = _recorded({place: cell for cell, place in newest.items()})
    found = {}
    for cell, (job, index) in newest.items():
        state = recorded.get((job, index), GONE)
        found[cell] = Task(cell, job, index, GONE if state in WAITING or state in LIVE else state, "")
    return found


def _recorded(cells: Mapping[Tuple[str, int], str]) -> Dict[Tuple[str, int], str]:
    """Ask the accounts; many clusters keep none."""
    jobs = ",".join(sorted({job for job, _ in cells}))
    try:
        said = ask(["sacct", "-X", "-n", "-P", "-D", "-j", jobs, "-o", "JobID,State"])
    except (SlurmRefused, SlurmDown):
        return {}
    found: Dict[Tuple[str, int], str] = {}
    for line in said.splitlines():
        name, _, state = line.partition("|")
        job, _, index = name.partition("_")
        if "." not in name and state:
            found.update((place, state.split()[0]) for place in _places(job, index or "N/A", cells))
    return found


def look_back(folder: RunFolder, task: Task) -> Ended:
    """Find out how one task ended: from the accounts where the site keeps them, else from the controller."""
    said = _last_line(output_of(folder, task.job, task.place))
    try:
        found = _from_accounts(ask(["sacct", "-n", "-P", "-j", task.name, "-o", _ACCOUNTS]), task.state)
    except (SlurmRefused, SlurmDown):
        found = None
    if found is None:
        try:
            found = _from_controller(ask(["scontrol", "-o", "show", "job", task.name]), task.state)
        except (SlurmRefused, SlurmDown):
            found = Ended(task.state)
    return found._replace(said=said)


def _from_accounts(said: str, state: str) -> Optional[Ended]:
    rows = [line.split("|") for line in said.splitlines() if line.count("|") == _ACCOUNTS.count(",")]
    if not rows:
        return None
    whole = rows[0]
    code, _, by_signal = whole[1].partition(":")
    by = whole[0].partition(" by ")[2]
    return Ended(
        state,
        code=_int(code),
        signal=_int(by_signal),
        node=whole[5],
        elapsed_s=_int(whole[2]),
        asked_mem=whole[4],
        max_rss_bytes=max(_size(row[3]) for row in rows),
        by=_user(by),
    )


def _from_controller(said: str, state: str) -> Ended:
    facts = dict(word.partition("=")[::2] for word in said.split())
    code, _, by_signal = facts.get("ExitCode", "").partition(":")
    node, memory = facts.get("NodeList", ""), facts.get("MinMemoryNode") or facts.get("MinMemoryCPU", "")
    return Ended(
        state, code=_int(code), signal=_int(by_signal), node="" if node == "(null)" else node, asked_mem=memory
    )


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


def put_back_for(folder: RunFolder, job: str, place: int) -> str:
    """Say in which state a task was ended, by what slurmstepd left in its output; "" where that says nothing."""
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


def _last_line(path: str) -> str:
    """Read what the batch script said last; slurmstepd's own remarks say less than the line before them."""
    lines = _tail(path)
    told = [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("slurmstepd")]
    return told[-1][:_LINE_CHARS] if told else ""
