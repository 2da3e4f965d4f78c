"""What Slurm says of our tasks, and what its words mean to a person."""

from __future__ import annotations

from typing import Dict, List, NamedTuple

from leasehold.caretaker.layout import RunFolder

from .script import NAME
from .submit import Submission
from .tools import SlurmRefused, ask

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
LIVE = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")


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


def tasks(folder: RunFolder, known: List[Submission]) -> Dict[str, Task]:
    """Ask for the newest task of every cell; what Slurm has forgotten is absent."""
    cells = {(one.job, index): cell for one in known if one.job for index, cell in enumerate(one.cells)}
    found: Dict[str, Task] = {}
    for line in _lines(folder, known):
        words = line.split("|", 3)
        if len(words) < 4 or not words[1].isdigit():
            continue
        cell = cells.get((words[0], int(words[1])))
        if cell is None:
            continue  # a job of ours by name, and not one that this run submitted
        task = Task(cell, words[0], int(words[1]), words[2].split()[0], words[3].strip())
        if cell not in found or int(task.job) >= int(found[cell].job):
            found[cell] = task
    return found


def _lines(folder: RunFolder, known: List[Submission]) -> List[str]:
    asked = ["squeue", "-h", "-r", "-a", "--me", "-t", "all", "-n", NAME + folder.run, "-o", "%F|%K|%T|%r"]
    lines = ask(asked).splitlines()
    seen = {line.split("|", 1)[0] for line in lines}
    forgotten = [one.job for one in known if one.job and one.job not in seen]
    return _recorded(forgotten) + lines if forgotten else lines


def _recorded(jobs: List[str]) -> List[str]:
    """Ask the accounting for what the controller has forgotten; many clusters keep none."""
    try:
        said = ask(["sacct", "-X", "-n", "-P", "-D", "-j", ",".join(jobs), "-o", "JobID,State,Reason"])
    except SlurmRefused:
        return []
    lines = []
    for line in said.splitlines():
        name, state, reason = (line.split("|", 2) + ["", ""])[:3]
        job, _, index = name.partition("_")
        if index.isdigit() and state:
            lines.append("%s|%s|%s|%s" % (job, index, state.split()[0], reason))
    return lines


_WHY_WAITING = {  # https://slurm.schedmd.com/job_reason_codes.html
    "Resources": "it is next, and waits until enough of the cluster is free",
    "Priority": "jobs with a higher priority are before it",
    "Dependency": "it waits for another job",
    "DependencyNeverSatisfied": "it waits for a job that failed, and will never start: cancel it",
    "JobArrayTaskLimit": "as many of its cells run as `at_once` allows",
    "QOSMaxJobsPerUserLimit": "the QOS allows you no more jobs at once",
    "QOSMaxGRESPerUser": "the QOS allows you no more GPUs at once",
    "QOSGrpGRES": "the QOS has all its GPUs in use",
    "AssocGrpGRES": "your account has all its GPUs in use",
    "AssocMaxJobsLimit": "your account allows no more jobs at once",
    "AssocGrpBillingMinutes": "your allocation is used up: ask for more, or use another account",
    "AssocGrpCPUMinutesLimit": "your allocation is used up: ask for more, or use another account",
    "PartitionTimeLimit": "it asks for more time than the partition allows: lower slurm.time",
    "PartitionNodeLimit": "it asks for more nodes than the partition has",
    "PartitionDown": "the partition is down: ask the site",
    "PartitionInactive": "the partition takes no jobs now: ask the site",
    "ReqNodeNotAvail": "the nodes it needs are down or reserved, often for maintenance",
    "BadConstraints": "no node of the partition has what it asks for: check slurm.constraint and resources.gpu",
    "InvalidQOS": "the QOS is not yours: check slurm.qos",
    "InvalidAccount": "the account is not yours: check slurm.account",
    "BeginTime": "it was put back and waits a moment before it starts again",
    "JobHeldUser": "you hold it: scontrol release continues it",
    "JobHeldAdmin": "the site holds it: ask them",
    "launch_failed_requeued_held": "its start failed and Slurm holds it: look at the node, then scontrol release",
    "None": "Slurm has not looked at it yet",
}
_HOW_ENDED = {
    "TIMEOUT": "its wall time was up",
    "OUT_OF_MEMORY": "Slurm ended it: more memory than it asked for (slurm.mem)",
    "NODE_FAIL": "its node failed",
    "PREEMPTED": "a job with a higher priority took its place",
    "CANCELLED": "it was cancelled",
    "BOOT_FAIL": "its node did not boot",
    "DEADLINE": "its deadline passed",
    "FAILED": "its batch script failed",
    "REVOKED": "another cluster took it",
}


def say_waiting(reason: str) -> str:
    """Say why a task waits."""
    word = reason.strip("()").split(",")[0].split()[0] if reason.strip("()").strip() else "None"
    return _WHY_WAITING.get(word, "Slurm says %s" % reason)


def say_ended(state: str) -> str:
    """Say how a task ended that left no exit record of ours."""
    return _HOW_ENDED.get(state, "Slurm says %s" % state)
