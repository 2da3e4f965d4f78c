"""Submit cells as a job array, once: what is meant is written down first, and looked for before it is asked again."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, NamedTuple

from leasehold.caretaker.keeper import own_argv
from leasehold.caretaker.layout import RunFolder
from leasehold.kit.atomic import read_json, write_atomic, write_json

from . import script as scripts
from .shares import write_shares
from .tools import SlurmRefused, ask

_RECORD = re.compile(r"submission-(\d{4})\.json\Z")
_JOB = re.compile(r"(\d+)(?:;\S+)?\Z")


class Submission(NamedTuple):
    """One array: its number, its cells in order of their index, and its job once Slurm has named it."""

    number: int
    tag: str
    cells: List[str]
    job: str


def submissions(folder: RunFolder) -> List[Submission]:
    """List what was submitted, or meant to be, in order."""
    place = os.path.join(folder.path, "slurm")
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    found = []
    for match in filter(None, map(_RECORD.match, names)):
        record = read_json(os.path.join(place, match.group(0)))
        if record is not None:
            found.append(Submission(int(match.group(1)), record["tag"], record["cells"], record.get("job", "")))
    return found


def submit(folder: RunFolder, wishes: Dict[str, Any], cells: List[str]) -> Submission:
    """Submit an array of these cells; the caller holds the run's start lock."""
    number = len(submissions(folder)) + 1
    place = os.path.join(folder.path, "slurm")
    os.makedirs(place, exist_ok=True)
    meant = Submission(number, "leasehold/%s/%d-%s" % (folder.run, number, os.urandom(4).hex()), list(cells), "")
    _write(folder, meant)
    return carry_out(folder, wishes, meant)


def carry_out(folder: RunFolder, wishes: Dict[str, Any], meant: Submission) -> Submission:
    """Do what a record says if Slurm does not know it yet: the answer to an earlier asking may have been lost."""
    job = find(folder, meant.tag)
    if not job:
        write_shares(folder, meant.number, meant.cells)
        text = scripts.script(folder, wishes, meant.number, own_argv())
        write_atomic(os.path.join(folder.path, "slurm", "submission-%04d.sh" % meant.number), text.encode())
        argv = ["sbatch", "--parsable", *scripts.options(folder, wishes, len(meant.cells), meant.tag)]
        write_atomic(_path(folder, meant.number, "argv"), json.dumps(argv, indent=1).encode())
        answer = ask(argv, text).strip().splitlines()
        found = _JOB.match(answer[-1]) if answer else None
        if found is None:
            raise SlurmRefused("sbatch answered %r, which names no job" % " ".join(answer)[:200])
        job = found.group(1)
    done = meant._replace(job=job)
    _write(folder, done)
    return done


def find(folder: RunFolder, tag: str) -> str:
    """Look for a job of ours that carries this tag, whatever became of it since."""
    seen = ask(["squeue", "-h", "--me", "-a", "-t", "all", "-n", scripts.NAME + folder.run, "-o", "%F|%k"])
    for line in seen.splitlines():
        job, _, comment = line.partition("|")
        if comment.strip() == tag and job.isdigit():
            return job
    return ""


def _write(folder: RunFolder, one: Submission) -> None:
    write_json(_path(folder, one.number, "json"), {"tag": one.tag, "cells": one.cells, "job": one.job})


def _path(folder: RunFolder, number: int, suffix: str) -> str:
    return os.path.join(folder.path, "slurm", "submission-%04d.%s" % (number, suffix))


def rehearse(root: str, wishes: Dict[str, Any]) -> Dict[str, str]:
    """Have Slurm judge the options without submitting: {says} when it would run, {problem} when never."""
    folder = RunFolder.below(root, "rehearsal")
    options = [word for word in scripts.options(folder, wishes, 1, "leasehold") if not word.startswith("--output")]
    try:
        said = ask(["sbatch", "--test-only", *options], "#!/bin/sh\n")
    except SlurmRefused as error:
        return {"problem": str(error), "says": ""}
    return {"problem": "", "says": " ".join(said.split())[:300]}
