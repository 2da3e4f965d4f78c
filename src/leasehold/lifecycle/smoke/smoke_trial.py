"""One start of a smoke: a clean copy of the code, the environment of a run, and its output read as it comes."""

from __future__ import annotations

import codecs
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.kit.files.newest_checkpoint import variables
from leasehold.kit.run.python_aliases import with_python
from leasehold.kit.text.progress import ProgressReader
from leasehold.kit.text.safe_text import plain
from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.model.job.cells import MAIN, spell
from leasehold.model.job.job import Job
from leasehold.model.run.note import Report
from leasehold.transport import parcel

from .smoke_guard import Guarded
from .smoke_lines import SmokeLines

TIMEOUT_S = 600.0
_PARCEL = "leasehold.zip"
_KEPT_OUTPUT = 200_000
_PIECE = 1 << 16
_HELD = 1 << 16  # of a line without an end
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_REMARK = "checkpoint: "
_TICK_S = 1.0
_LOOK_S = 0.02  # between two checks for the moment of the kill
_QUIET = {"CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "disabled", "PYTHONUNBUFFERED": "1", "LEASE_SMOKE": "1"}


@dataclass(frozen=True)
class Folders:
    """The folders of one smoke: several starts may share them, as the attempts of a run do."""

    place: Path

    @property
    def work(self) -> Path:
        """Return the folder with the copy of the code."""
        return self.place / "work"

    @property
    def out(self) -> Path:
        """Return $LEASE_OUT."""
        return self.place / "out"

    @property
    def inputs(self) -> Path:
        """Return $LEASE_INPUTS."""
        return self.place / "inputs"

    def written(self, tree: CodeTree) -> bool:
        """Return whether the smoke wrote any file of its own."""
        ours = {str(self.work / entry["path"]) for entry in tree.entries}
        return any(
            os.path.join(folder, name) not in ours
            for top in (self.out, self.work)
            for folder, folders, names in os.walk(top)
            for name in names
        )


class Trial:
    """A smoke during and after its run."""

    def __init__(self, job: Job) -> None:
        self.reader = ProgressReader(job.progress)
        self.code = 0
        self.killed = self.timed_out = False
        self.left_out = 0  # lines that were not shown
        self.begun = time.monotonic()
        self.first_sight: float | None = None  # when a counter was first read
        self.ended = self.begun
        self.interpreter = ""  # as resolved for the first command that starts a Python
        self._said = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    @property
    def output(self) -> str:
        """Return the end of its output, without escapes."""
        return plain(self._said[-_KEPT_OUTPUT:].decode("utf-8", "replace"))

    def hear(self, piece: bytes) -> None:
        """Take a piece of its output. Our Checkpointer's remarks name steps too, but not steps done now."""
        self._said = (self._said + piece)[-2 * _KEPT_OUTPUT :]
        text = self._held + self._decoder.decode(piece).replace("\r", "\n")
        done, newline, rest = text.rpartition("\n")
        self._held = rest[:_HELD]
        lines = [line for line in done.split("\n") if not line.startswith(_REMARK)] if newline else []
        self.reader.feed("".join(f"{line}\n" for line in lines))
        if self.first_sight is None and self.reader.counters:
            self.first_sight = time.monotonic()


Ready = Callable[[Trial], bool]


def never(trial: Trial) -> bool:
    """Let the smoke run to its end."""
    return False


def lay_out(tree: CodeTree, place: Path) -> Folders:
    """Copy the code and our parcel into a new folder."""
    folders = Folders(place)
    folders.out.mkdir(parents=True)
    folders.work.mkdir()
    (place / _PARCEL).write_bytes(parcel.build().data)  # leasehold.checkpoint, as on a box
    for entry in tree.entries:
        target = folders.work / entry["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        if "link" in entry:
            target.symlink_to(entry["link"])
            continue
        target.write_bytes((tree.folder / entry["path"]).read_bytes())
        if entry.get("exec"):
            target.chmod(0o755)
    for data in tree.data:  # as on a box, but the original files, linked
        for top in (folders.work, folders.inputs):
            target = top / data.item.to
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(data.source.absolute())
    return folders


def run_once(
    job: Job, folders: Folders, extra: Mapping[str, str], kill_when: Ready = never, *, report: Report
) -> Trial:
    """Run the smoke to its end, or kill it with all its children at the chosen moment or at the time limit."""
    trial, lines = Trial(job), SmokeLines(report, TIMEOUT_S)
    env = _environment(job, folders, extra)
    trial.interpreter = _interpreter(job.smoke, env, folders.work)
    child = Guarded(job.smoke, folders.place, folders.work, env)
    try:
        with child.stdout:
            _follow(trial, child, lines, kill_when)
    except BaseException:  # Ctrl-C above all: no part of the smoke outlives us
        child.kill()
        child.wait()
        raise
    trial.code = child.wait()
    trial.ended = time.monotonic()
    trial.killed = trial.killed and trial.code == -signal.SIGKILL
    trial.hear(b"\n")  # the last line may have no line end
    lines.end()
    trial.left_out = lines.left_out
    return trial


def _follow(trial: Trial, child: Guarded, lines: SmokeLines, kill_when: Ready) -> None:
    """Read its output until that ends, and kill it at the chosen moment or at the time limit."""
    deadline = trial.begun + TIMEOUT_S
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.stdout, selectors.EVENT_READ)
        while True:
            limit_s = min(_TICK_S, deadline - time.monotonic()) if kill_when is never else _LOOK_S
            piece = os.read(child.stdout.fileno(), _PIECE) if waiting.select(max(0.0, limit_s)) else None
            if piece == b"":
                return
            if piece:
                trial.hear(piece)
                lines.hear(piece)
            lines.tick()
            trial.timed_out = time.monotonic() > deadline
            if not (trial.killed or trial.timed_out) and kill_when(trial):
                trial.killed = child.kill()
            elif trial.timed_out:
                child.kill()
                return


def parameters(job: Job) -> dict[str, str]:
    """Return the environment of a sweep's smoke: its first cell, as the box gives it to that cell."""
    if not job.cells:
        return {}
    cell = job.cells[0]
    each = {f"LEASE_PARAM_{key}": spell(value) for key, value in cell.params.items()}
    return {**each, "LEASE_PARAMS": json.dumps(dict(cell.params), ensure_ascii=False), "LEASE_CELL": cell.name}


def _interpreter(command: str, env: Mapping[str, str], work: Path) -> str:
    """Find the Python that a command starts; empty where it names none, or prepares one that is not predictable."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return ""
    place = next((at for at, word in enumerate(words) if _PYTHON.match(word)), None)
    if place is None or any(not _ASSIGNMENT.match(word) for word in words[:place]):
        return ""
    named = os.path.expanduser(words[place])
    if os.sep in named:
        return os.path.normpath(work / named)
    return shutil.which(named, path=env.get("PATH")) or ""


def _environment(job: Job, folders: Folders, extra: Mapping[str, str]) -> dict[str, str]:
    place = folders.place
    named = {"LEASE_OUT": str(folders.out), "LEASE_RUN": f"{job.name}-smoke", "LEASE_CELL": MAIN}
    env = {**os.environ, **job.env, **_QUIET, **named, "LEASE_ATTEMPT": "1", **parameters(job), **extra}
    if job.data:
        env["LEASE_INPUTS"] = str(folders.inputs)
    env.update(variables(str(folders.out), job.latest)[0])
    env.setdefault("LEASE_DATA", str(place / "data"))  # the user's own, if set; on the box, the fetched inputs
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(place / _PARCEL)]))
    return with_python(env, str(place))  # as on a box: Debian has no `python`
