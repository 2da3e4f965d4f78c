"""Slurm's states and reasons in words for people, and what to do about each; one line a word."""

from __future__ import annotations

import re
from typing import NamedTuple

GONE = "GONE"  # ours: Slurm answers and does not know the task any more, and no accounts have it

_WHY_WAITING = {  # https://slurm.schedmd.com/job_reason_codes.html
    "None": "Slurm has not looked at it yet",
    "Resources": "it is next, and starts as soon as enough of the cluster is free",
    "Priority": "jobs with a higher priority are before it; sprio and squeue --start say more",
    "Reservation": "it waits for its reservation to begin",
    "Licenses": "it waits for a licence",
    "Cleaning": "its last start is still being cleaned up; it starts after that",
    "Prolog": "its node is being prepared",
    "NodeDown": "a node it needs is down: wait for the site, or change slurm.constraint",
    "BeginTime": "it was requeued, and Slurm waits a moment before it starts it again",
    "JobArrayTaskLimit": "as many of its cells run as `cells.at_once` allows",
    "Dependency": "it waits for another job to end (slurm.after)",
    "DependencyNeverSatisfied": (
        "it waits for a job that failed, and will not start by itself: fix and run that one, then the same lease run"
    ),
    "PartitionTimeLimit": "it asks for more time than its partition allows, and will not start: lower slurm.time",
    "PartitionNodeLimit": "it asks for more nodes than its partition gives, and will not start: change slurm.flags",
    "PartitionDown": "its partition is down: ask the site, or choose another slurm.partition",
    "PartitionInactive": "its partition takes no jobs now: ask the site, or choose another slurm.partition",
    "PartitionConfig": "its partition does not allow what it asks for: change slurm.partition or what it asks for",
    "AccountNotAllowed": "its account may not use the partition: change slurm.account or slurm.partition",
    "QOSNotAllowed": "its QOS may not be used here: change slurm.qos or slurm.partition",
    "ReqNodeNotAvail": (
        "a node it needs is down or reserved, often for maintenance: wait, or ask for less slurm.time so that it ends"
        " before (scontrol show reservation)"
    ),
    "BadConstraints": (
        "no node of its partition has what it asks for, and it will not start: check slurm.constraint, gres, mem, cpus"
    ),
    "InvalidQOS": "the QOS is not yours: check slurm.qos (sacctmgr show assoc user=$USER)",
    "InvalidAccount": "the account is not yours: check slurm.account (sacctmgr show assoc user=$USER)",
    "JobHeldUser": "you hold it: scontrol release lets it start",
    "JobHeldAdmin": "the site holds it: ask them",
    "JobHoldMaxRequeue": "Slurm requeued it too often and holds it: look at its node, then scontrol release",
    "launch_failed_requeued_held": (
        "Slurm could not start it and holds it: look at the node (scontrol show node), then scontrol release"
    ),
    "QOSUsageThreshold": "your use is above what the QOS allows for now: wait, or use another slurm.qos",
    "QOSTimeLimit": "the QOS has used up its time: use another slurm.qos, or ask the site",
    "QOSJobLimit": "the QOS allows no more jobs at once: it starts when some end",
    "QOSResourceLimit": "the QOS has all it may use in use: it starts when some jobs end",
    "DeadLine": "it cannot end before its deadline, and will not start",
    "BurstBufferResources": "it waits for room in the burst buffer",
    "FrontEndDown": "no front end can run it now: ask the site",
    "SystemFailure": "Slurm could not start it: ask the site",
}
_SENTENCES = {"launch failed": "launch_failed_requeued_held", "Nodes required for job are": "ReqNodeNotAvail"}
# Limits of an account or a QOS have some hundred names, all of this form.
_LIMIT = re.compile(
    r"(?P<whose>Assoc|QOS|)(?P<kind>Grp|Max|Min)(?P<what>Wall|Cpu|CPU|GRES|Mem|Memory|Node|Jobs?|SubmitJobs?|Billing|"
    r"BB|Energy|License|UnknownTRES|Tres|TRES)(?P<of>Duration|RunMinutes|Minutes|NotSatisfied|)"
    r"(?P<per>PerJob|PerUser|PerAccount|PerNode|)(?:Limit|)\Z"
)
_WHAT = {
    "cpu": "cores", "gres": "GPUs", "mem": "memory", "memory": "memory", "node": "nodes", "job": "jobs",
    "jobs": "jobs", "submitjob": "waiting jobs", "submitjobs": "waiting jobs", "billing": "billing units",
    "license": "licences", "wall": "time",
}  # fmt: skip
_LOWER = {"cores": "slurm.cpus", "GPUs": "resources.gpu.count", "memory": "slurm.mem", "time": "slurm.time"}

_HOW_ENDED = {
    "TIMEOUT": "its wall time was up (slurm.time)",
    "OUT_OF_MEMORY": "Slurm ended it for memory: it needs more than it asked for",
    "NODE_FAIL": "its node failed",
    "PREEMPTED": "a job with a higher priority took its place",
    "CANCELLED": "somebody cancelled it",
    "BOOT_FAIL": "its node did not boot",
    "DEADLINE": "its deadline passed",
    "FAILED": "its batch script failed",
    "REVOKED": "another cluster took it",
    "COMPLETED": "its batch script ended before its cell did",
    GONE: "it has ended, and Slurm no longer knows how (the site keeps no accounts, or they do not answer)",
}


class Ended(NamedTuple):
    """How a task ended, as far as Slurm reports; what is unknown is empty."""

    state: str
    code: int = 0
    signal: int = 0
    node: str = ""
    elapsed_s: int = 0
    asked_mem: str = ""  # as Slurm writes it: 64000M, 4Gc
    max_rss_bytes: int = 0
    by: str = ""  # who cancelled it
    said: str = ""  # the last line of its output


def say_waiting(reason: str) -> str:
    """Format why a task waits, and what to do if waiting will not help."""
    bare = reason.strip("()").strip()
    word = re.split(r"[,\s]", bare)[0] if bare else "None"
    word = next((name for start, name in _SENTENCES.items() if bare.startswith(start)), word)
    return _WHY_WAITING.get(word) or _say_limit(word) or "Slurm says %s" % bare


def _say_limit(word: str) -> str:
    found = _LIMIT.match(word)
    if found is None:
        return ""
    whose = {"QOS": "the QOS", "Assoc": "your account", "": "your account"}[found.group("whose")]
    what = _WHAT.get(found.group("what").lower(), found.group("what"))
    kind, of, per = found.group("kind"), found.group("of"), found.group("per")
    if of == "RunMinutes":
        return "%s has as much time of %s set aside for running jobs as it may: a shorter slurm.time helps" % (
            whose,
            what,
        )
    if kind == "Grp" and (of == "Minutes" or what == "time"):
        return "%s has used up its hours of %s: ask for more, or use another slurm.account or qos" % (whose, what)
    if kind == "Min":
        return "it asks for fewer %s than %s demands, and will not start: ask for more, or change slurm.qos" % (
            what,
            whose,
        )
    if what == "time" or per in ("PerJob", "PerNode") or of:
        mend = _LOWER.get("time" if of else what, "what it asks for")
        return "it asks for more %s than %s allows one job, and will not start: lower %s" % (what, whose, mend)
    if kind == "Max" and per != "PerAccount":
        return "you have as many %s in use as %s allows you at once: it starts when some jobs end" % (what, whose)
    return "%s has as many %s in use as it may: it starts when some jobs end" % (whose, what)


def say_ended(ended: Ended) -> str:
    """Format how a task ended that left no record of ours, with what Slurm knows of it."""
    said = _HOW_ENDED.get(ended.state, "Slurm says %s" % ended.state)
    if ended.state == "CANCELLED" and ended.by:
        said = "it was cancelled by %s" % ended.by
    if ended.state == "FAILED" and (ended.code or ended.signal):
        how = "killed by signal %d" % ended.signal if ended.signal else "exit code %d" % ended.code
        said = "its batch script failed: %s" % how
    facts = ["on %s" % ended.node] if ended.node and ended.state in ("NODE_FAIL", "BOOT_FAIL", "FAILED") else []
    if ended.state == "OUT_OF_MEMORY" or ended.signal == 9:
        facts += ["it asked for %s" % ended.asked_mem] if ended.asked_mem else []
        facts += ["it used at least %s" % say_mebibytes(ended.max_rss_bytes)] if ended.max_rss_bytes else []
    said += " (%s)" % ", ".join(facts) if facts else ""
    if ended.said and ended.state == "FAILED":
        said += ": %s" % ended.said
    return said + _mend(ended)


def _mend(ended: Ended) -> str:
    if ended.state == "OUT_OF_MEMORY":
        need = max(ended.max_rss_bytes, _bytes(ended.asked_mem))
        return "; raise slurm.mem%s" % (" to %s or more" % say_mebibytes(need * 6 // 5) if need else "")
    if ended.state == "FAILED" and ended.signal == 9:
        return "; if it was memory, raise slurm.mem"
    return ""


def say_mebibytes(count: int) -> str:
    """Format a size as slurm.mem takes it."""
    return "%dMiB" % max(1, -(-count // (1 << 20)))


def _bytes(text: str) -> int:
    found = re.match(r"(\d+(?:\.\d+)?)([KMGT]?)", text)
    scale = {"K": 10, "": 20, "M": 20, "G": 30, "T": 40}
    return int(float(found.group(1)) * (1 << scale[found.group(2)])) if found else 0
