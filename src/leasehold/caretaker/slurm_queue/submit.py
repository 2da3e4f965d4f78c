"""Submit cells as a job array, exactly once: the intent is recorded first, and looked for before any repetition."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional

from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_atomic, write_json

from . import batch_script as scripts
from .commands import SlurmRefused, ask
from .plan_slices import write_shares

HOME, CHAIN, TASK = "home", "chain", "task"  # origin: a person, the plan in advance, a task that could not be requeued
_RECORD = re.compile(r"submission-(\d{4,})\.json\Z")
_JOB = re.compile(r"(\d+)(?:;\S+)?\Z")


class Submission(NamedTuple):
    """One array: its number, its cells in order of their index, and its job once Slurm has named it."""

    number: int
    tag: str
    cells: List[str]
    job: str
    wishes: Dict[str, Any] = {}
    after: str = ""  # what it waits for, in sbatch's format
    by: str = HOME
    withdrawn: bool = False  # we took its waiting tasks out of the queue ourselves


def submissions(folder: RunFolder) -> List[Submission]:
    """List what was submitted, or meant to be, in order."""
    place = os.path.join(folder.path, "slurm")
    names = os.listdir(place) if os.path.isdir(place) else []
    numbers = sorted(int(match.group(1)) for match in map(_RECORD.match, names) if match)
    return [one for one in (read_submission(folder, number) for number in numbers) if one is not None]


def read_submission(folder: RunFolder, number: int) -> Optional[Submission]:
    """Read one record."""
    record = read_json(_path(folder, number, "json"))
    if record is None:
        return None
    kept = {key: record[key] for key in ("wishes", "after", "by", "withdrawn") if key in record}
    return Submission(number, record["tag"], record["cells"], record.get("job", ""), **kept)


class Order(NamedTuple):
    """A submission to make."""

    cells: List[str]
    wishes: Dict[str, Any]
    after: str = ""
    by: str = HOME


def submit(folder: RunFolder, order: Order) -> Submission:
    """Submit an array of these cells; the caller holds the run's start lock."""
    number = max([one.number for one in submissions(folder)], default=0) + 1
    os.makedirs(os.path.join(folder.path, "slurm"), exist_ok=True)
    tag = "leasehold/%s/%d-%s" % (folder.run, number, os.urandom(4).hex())
    meant = Submission(number, tag, list(order.cells), "", order.wishes, order.after, order.by)
    write(folder, meant)
    return carry_out(folder, meant)


def carry_out(folder: RunFolder, meant: Submission) -> Submission:
    """Submit what a record intends unless Slurm knows it already: an earlier answer may have been lost."""
    job = find(folder, meant.tag)
    if not job:
        write_shares(folder, meant.number, meant.cells, meant.wishes)
        said = [str(meant.number), meant.by, *scripts.walls(meant.wishes)]
        text = scripts.script(folder, meant.wishes, [*own_argv("task", folder.path), *said])
        write_atomic(os.path.join(folder.path, "slurm", "submission-%04d.sh" % meant.number), text.encode())
        options = scripts.options(folder, meant.wishes, len(meant.cells), meant.tag)
        argv = ["sbatch", "--parsable", *options, *(["--dependency=" + meant.after] if meant.after else [])]
        write_atomic(_path(folder, meant.number, "argv"), json.dumps(argv, indent=1).encode())
        answer = ask(argv, text).strip().splitlines()
        found = _JOB.match(answer[-1]) if answer else None
        if found is None:
            raise SlurmRefused("sbatch answered %r, which names no job" % " ".join(answer)[:200])
        job = found.group(1)
    done = meant._replace(job=job)
    write(folder, done)
    return done


def find(folder: RunFolder, tag: str) -> str:
    """Look for a job of ours that carries this tag, in whatever state."""
    seen = ask(["squeue", "-h", "--me", "-a", "-t", "all", "-n", scripts.NAME + folder.run, "-o", "%F|%k"])
    for line in seen.splitlines():
        job, _, comment = line.partition("|")
        if comment.strip() == tag and job.isdigit():
            return job
    return ""


def write(folder: RunFolder, one: Submission) -> None:
    """Write a record."""
    value = one._asdict()
    del value["number"]
    write_json(_path(folder, one.number, "json"), dict(value))


def _path(folder: RunFolder, number: int, suffix: str) -> str:
    return os.path.join(folder.path, "slurm", "submission-%04d.%s" % (number, suffix))


def output_of(folder: RunFolder, job: str, place: int) -> str:
    """Return the output file of a task's batch script."""
    return os.path.join(folder.path, "slurm", "%s_%d.out" % (job, place))


def rehearse(root: str, wishes: Dict[str, Any]) -> Dict[str, str]:
    """Let Slurm judge the options without submitting: {says} when it would run, {problem} when never."""
    from .site_resources import settle

    folder = RunFolder.below(root, "rehearsal")
    try:
        settled = settle(wishes)
        options = [word for word in scripts.options(folder, settled, 1, "leasehold") if not word.startswith("--output")]
        said = ask(["sbatch", "--test-only", *options], "#!/bin/sh\n")
    except SlurmRefused as error:
        return {"problem": str(error), "says": ""}
    gres = " with %s" % settled["gres"] if settled.get("gpu_name") and settled.get("gres") else ""
    return {"problem": "", "says": " ".join(said.split())[:300] + gres}
