"""Ignored files of a project: code is sent without them, so data among them is reported before the run starts.

Not reported: caches, environments, output folders, files that `.leaseignore` names, and the job's `data:`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leasehold.lifecycle.home.home import Home
from leasehold.model.job.job import Job
from leasehold.model.values.units import say_bytes

from .code_tree import RESULTS
from .excluded import below
from .leaseignore import LeaseIgnore, read_ignore
from .local_data import apart

_LARGE_BYTES = 1 << 20  # smaller ones are reported when commands or code name them
_MOST_FILES = 20_000
_MOST_CODE_BYTES = 4 << 20
_SHOWN = 3
_NO_DATA = {
    "__pycache__", "venv", "env", "node_modules", "build", "dist", "wandb", "mlruns", "runs", "log", "logs", "out",
    "output", "outputs", "results", "lease-results", "lightning_logs", "tb_logs", "tensorboard", "checkpoint",
    "checkpoints", "ckpt", "ckpts", "tmp", "temp", "multirun", "htmlcov", "site",
}  # fmt: skip
_NO_DATA_ENDINGS = (".pyc", ".pyo", ".so", ".o", ".log", ".swp", ".tmp", ".egg-info", ".DS_Store", ".lock", "~")
_CODE_ENDINGS = (".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini")


@dataclass(frozen=True)
class LeftHome:
    """A file, or a folder of which every file is meant (its path ends with /), that is not sent."""

    path: str
    bytes: int
    files: int

    def __str__(self) -> str:
        many = f"{self.files:,} files, " if self.files > 1 else ""
        return f"{self.path}, {many}{say_bytes(self.bytes)},"


def left_home(folder: Path, commands: str, taken: Sequence[str] = ()) -> list[LeftHome]:
    """List what git ignores and may be data, largest first; empty where the folder is not a repository."""
    ignore = read_ignore(folder)
    found: list[LeftHome] = []
    for path in _ignored(folder):
        if not _may_be_data(path) or any(f"{path.rstrip('/')}/".startswith(prefix) for prefix in taken):
            continue
        files = [one for one in _files(folder, path) if not _stays(one.path, taken, ignore)]
        whole = path.endswith("/") and len(files) > 1 and not any(prefix.startswith(path) for prefix in taken)
        one = LeftHome(path, sum(file.bytes for file in files), len(files))
        found += [one] if whole else files
    small = [one for one in found if one.bytes < _LARGE_BYTES]
    named = [one for one in found if one.bytes >= _LARGE_BYTES] + named_by(folder, commands, small)
    return sorted(set(named), key=lambda one: (-one.bytes, one.path))  # git may list a folder and a file in it


def named_by(folder: Path, commands: str, found: Sequence[LeftHome]) -> list[LeftHome]:
    """List those that commands or code name, or whose folder the commands name."""
    known = commands + _code_text(folder) if found else ""
    return [one for one in found if _in_words(one.path, commands) or _is_named(folder, one, known)]


def _in_words(path: str, commands: str) -> bool:
    """Return whether commands name a path or a folder above it."""
    parts = path.rstrip("/").split("/")
    above = ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return any(re.search(rf"(?<![\w./-])(?:\./)?{re.escape(one)}(?![\w.-])", commands) for one in above)


def say_left_home(found: Sequence[LeftHome], job_file: str = "lease.yaml") -> str:
    """Format them in one line with what to do; empty when there is nothing to report."""
    if not found:
        return ""
    shown = [str(one) for one in found[:_SHOWN]]
    rest = found[_SHOWN:]
    if rest:
        shown.append(f"{len(rest)} more, {say_bytes(sum(one.bytes for one in rest))},")
    listed = " and ".join(filter(None, [" ".join(shown[:-1]), shown[-1]]))
    verb = "is" if len(found) == 1 and found[0].files == 1 else "are"
    paths = ", ".join(one.path.rstrip("/") for one in found[:_SHOWN])
    return (
        f"{listed} {verb} ignored by git and will not travel; `data: [{paths}]` in {job_file} uploads it once, "
        "a line in .leaseignore keeps it here without this remark"
    )


def say_of_job(home: Home, job: Job, job_file: Path, results: Path | None = None) -> str:
    """Format what a run of this job would miss."""
    project = job_file.absolute().parent
    commands = "\n".join((job.run, job.setup, job.smoke, job.evaluate))
    taken = (*apart(job, project), *below(project, (home.path, results or project / RESULTS)))
    return say_left_home(left_home(project, commands, taken), job_file.name)


def _ignored(folder: Path) -> list[str]:
    """Ask git what it ignores; whole folders end with a slash."""
    asked = ["git", "-C", str(folder), "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"]
    try:
        done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except (FileNotFoundError, PermissionError):
        return []
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0")] if done.returncode == 0 else []
    return [name for name in names if name and name not in (".", "./")]


def _may_be_data(path: str) -> bool:
    parts = path.rstrip("/").split("/")
    hidden = any(part.startswith(".") or part in _NO_DATA or part.endswith(".egg-info") for part in parts)
    return not hidden and not path.rstrip("/").endswith(_NO_DATA_ENDINGS)


def _stays(path: str, taken: Sequence[str], ignore: LeaseIgnore) -> bool:
    return any(f"{path}/".startswith(prefix) for prefix in taken) or ignore.ignores(path) or not _may_be_data(path)


def _files(folder: Path, path: str) -> Iterator[LeftHome]:
    """Yield the ignored files up to a limit: a folder of millions is known to be large after some of them."""
    full = os.path.join(folder, path)
    if not os.path.isdir(full):
        if os.path.isfile(full):
            yield LeftHome(path, os.stat(full).st_size, 1)
        return
    count = 0
    for where, _, names in os.walk(full):
        for name in names:
            one = os.path.join(where, name)
            if os.path.isfile(one):
                yield LeftHome(os.path.relpath(one, folder).replace(os.sep, "/"), os.stat(one).st_size, 1)
                count += 1
            if count >= _MOST_FILES:
                return


def _code_text(folder: Path) -> str:
    """Read the project's code, bounded; ignored files are not code."""
    asked = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    texts, left = [], _MOST_CODE_BYTES
    for name in done.stdout.split(b"\0"):
        if not os.fsdecode(name).endswith(_CODE_ENDINGS) or left <= 0:
            continue
        try:
            with open(folder / os.fsdecode(name), "rb") as file:
                data = file.read(left)
        except OSError:
            continue
        left -= len(data)
        texts.append(data.decode("utf-8", "replace"))
    return "\n".join(texts)


def _is_named(folder: Path, one: LeftHome, text: str) -> bool:
    """Return whether commands or code name a small file, or a file of a small folder."""
    names = [file.path for file in _files(folder, one.path)] if one.path.endswith("/") else [one.path]
    return any(name.rpartition("/")[2] in text for name in names[:200])
