"""The origin of a run's code: commit, branch and changed files, kept with the code beside the results."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.kit.files.atomic import write_json

from . import kept_code
from .evidence import FOLDER

if TYPE_CHECKING:
    from leasehold.ledger.store import Ledger

CODE, GIT = "code.tar.gz", "git.json"
_LIMIT_S = 20.0


def git_facts(project: Path) -> dict[str, Any]:
    """Ask git for the project's state; empty if it is no repository, or git is missing or slow."""
    asked = ["git", "-C", str(project), "status", "--porcelain=v2", "--branch", "-z"]
    try:
        done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if done.returncode != 0:
        return {}
    lines = done.stdout.decode("utf-8", "replace").split("\0")
    heads = dict(line[2:].partition(" ")[::2] for line in lines if line.startswith("# "))
    commit, branch = heads.get("branch.oid", ""), heads.get("branch.head", "")
    return {
        "commit": "" if commit == "(initial)" else commit,
        "branch": "" if branch == "(detached)" else branch,
        "dirty": any(line and not line.startswith("# ") for line in lines),
    }


def keep_origin(ledger: Ledger, run: str, tree: str, place: Path) -> None:
    """Store a run's original code and git's facts about it beside its evidence, as far as this home knows them."""
    folder = place / FOLDER
    with contextlib.suppress(OSError):  # it is evidence: a full disk is reported where results need the room
        folder.mkdir(parents=True, exist_ok=True)
        archive = kept_code.archive_of(ledger, tree)
        if archive is not None:
            shutil.copyfile(archive, folder / CODE)
        told = [event.data.get("git") for event in ledger.events(run=run, kind="run_planned")]
        facts = next((facts for facts in told if facts), None)  # from the run's beginning
        if facts:
            write_json(str(folder / GIT), facts)
