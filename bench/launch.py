"""From the command to the trainer's first act on a box behind ssh, against rsync and ssh by hand.

Both bring new code each round (one file of twenty changed). Ours is one handshake up to that moment, a second
one afterwards to prove the detachment; by hand it is two handshakes before it and no proof.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.parts import missing_ssh
from tests.support.sshd import SshBox
from tests.support.tcp_proxy import TcpProxy

from .project import Project
from .rounds import LEASE, Effort, interleave, user_environment
from .rows import Goal, MissingPart, Row

_WAIT_S = 60.0
_ROUND_TRIP_S = 0.1


def measure(effort: Effort) -> Iterator[Row]:
    """Yield warm launches, the first launch on an empty box, and warm launches over a slow line."""
    _need_parts()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name:
        place = Path(name)
        with SshBox(place / "box", quick_kex=False) as box, TcpProxy(box.port, _ROUND_TRIP_S / 2) as slow:
            near = Bed(place, box, box.ssh_command, Project(place / "code"))
            far = replace(near, ssh=box.ssh_command_through(slow.port))
            yield from _warm(near, effort.choose(full=11, quick=3))
            yield from _cold(near, effort.choose(full=7, quick=2))
            yield from _far(far, effort.choose(full=7, quick=2))


def _warm(bed: Bed, rounds: int) -> Iterator[Row]:
    home = bed.folder("home")
    ends: dict[str, list[float]] = {"ours": [], "by hand": []}
    ways = {
        "ours": lambda: bed.leave(bed.ours(home, bed.root), ends["ours"]),
        "by hand": lambda: bed.leave(bed.by_hand("work"), ends["by hand"]),
    }
    taken = interleave(ways, rounds)
    peer = (taken["by hand"], "rsync + ssh")
    yield Row("launch", "to the first line, new code", "s", taken["ours"], *peer, Goal("ratio", "≤", 1.0))
    returned = [each[-rounds:] for each in ends.values()]
    yield Row("launch", "to the command's return (ours: detachment proved)", "s", returned[0], returned[1], peer[1])


def _cold(bed: Bed, rounds: int) -> Iterator[Row]:
    ways = {
        "ours": lambda: bed.ours(bed.folder("cold-home"), bed.folder("cold-root")).first_s,
        "by hand": lambda: bed.by_hand(str(bed.folder("cold-work"))).first_s,
    }
    taken = interleave(ways, rounds)
    yield Row("launch", "first ever, on an empty box", "s", taken["ours"], taken["by hand"], "rsync + ssh")


def _far(bed: Bed, rounds: int) -> Iterator[Row]:
    home = bed.folder("far-home")
    ways = {"ours": lambda: bed.ours(home, bed.root).first_s, "by hand": lambda: bed.by_hand("work").first_s}
    taken = interleave(ways, rounds)
    what = f"to the first line, new code, {_ROUND_TRIP_S * 1000:.0f} ms round trip"
    yield Row("launch", what, "s", taken["ours"], taken["by hand"], "rsync + ssh")


@dataclass(frozen=True)
class Launched:
    """When the trainer began and when the command came back, from the command's start."""

    first_s: float
    returned_s: float


@dataclass(frozen=True)
class Bed:
    """A box, the ssh command that reaches it, and the project that both sides launch."""

    place: Path
    box: SshBox
    ssh: list[str]
    project: Project

    @property
    def root(self) -> Path:
        """Our folder on the box that stays warm."""
        return self.box.home / ".leasehold"

    def folder(self, name: str) -> Path:
        """Make a new folder, on this machine and so also on the box."""
        return Path(tempfile.mkdtemp(prefix=name + "-", dir=self.place))

    def ours(self, home: Path, root: Path) -> Launched:
        """Launch with `lease run --detach`, then wait until the box is quiet again."""
        number = self.project.change()
        argv = [LEASE, "run", "--detach", "--on", "ssh:box", "--root", str(root)]
        environment = user_environment(LEASEHOLD_HOME=str(home), LEASEHOLD_SSH=shlex.join(self.ssh))
        begun, returned_s, said = _command(argv, self.project.folder, environment)
        run = root / "active" / said.strip()
        first_s = self._first(run / "out" / "main", number) - begun
        _wait_for(lambda: _state(run / "status.json") == "finished", f"the end of {run.name}")
        return Launched(first_s, returned_s)

    def by_hand(self, work: str) -> Launched:
        """Launch as people do: rsync the folder, then start it detached over a second connection."""
        number = self.project.change()
        out, ssh = f"out-{number}", shlex.join(self.ssh)
        prepare = f"cd {shlex.quote(work)} || exit; mkdir {out}"
        start = f"LEASE_OUT={out} setsid nohup python3 train.py > log 2>&1 < /dev/null &"
        rsync = f"rsync -a --exclude .git -e {shlex.quote(ssh)} ./ {shlex.quote('box:' + work + '/')}"
        argv = ["/bin/sh", "-c", f"{rsync} && {ssh} box {shlex.quote(prepare + '; ' + start)}"]
        begun, returned_s, _ = _command(argv, self.project.folder, user_environment())
        first_s = self._first(self.box.home / work / out, number) - begun
        return Launched(first_s, returned_s)

    def leave(self, launched: Launched, returned: list[float]) -> float:
        """Note when the command came back; return when the trainer began."""
        returned.append(launched.returned_s)
        return launched.first_s

    def _first(self, out: Path, number: int) -> float:
        """Wait for the result, which shows that the new code ran; return when the trainer began."""
        result = out / "result.json"
        _wait_for(lambda: result.exists() and bool(result.read_text()), str(result))
        if json.loads(result.read_text())["round"] != number:
            raise RuntimeError(f"{result} is of another version of the code than {number}")
        return float((out / "first").read_text())


def _command(argv: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float, str]:
    begun = time.time()
    done = subprocess.run(
        argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    returned_s = time.time() - begun
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        raise RuntimeError(f"{argv[0]} exited with {done.returncode}")
    return begun, returned_s, done.stdout


def _state(path: Path) -> str:
    return str(json.loads(path.read_text())["state"]) if path.exists() else ""


def _wait_for(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {_WAIT_S:.0f} s")
        time.sleep(0.02)


def _need_parts() -> None:
    problem = missing_ssh()
    if problem:
        raise MissingPart(problem)
    for name in ("rsync", "git", "setsid"):
        if shutil.which(name, path=os.environ.get("PATH")) is None:
            raise MissingPart(f"no {name} here")
