"""A box behind a real sshd, and the two ways to launch the same project on it: ours, and by hand."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.sshd import SshBox

from .project import Project
from .rounds import LEASE, user_environment

_WAIT_S = 60.0


@dataclass(frozen=True)
class Launched:
    """When the trainer began and when the command came back, both from the command's start."""

    first_s: float
    returned_s: float


@dataclass(frozen=True)
class Bed:
    """The box, the ssh command that reaches it, and the project."""

    place: Path
    box: SshBox
    ssh: list[str]
    project: Project

    def folder(self, name: str) -> Path:
        """Make a new folder, on this machine and so also on the box."""
        return Path(tempfile.mkdtemp(prefix=name + "-", dir=self.place))

    def ours(self, home: Path, root: Path) -> Launched:
        """Launch new code with `lease run --detach`."""
        number = self.project.change()
        argv = [LEASE, "run", "--detach", "--on", "ssh:box", "--root", str(root)]
        environment = user_environment(LEASEHOLD_HOME=str(home), LEASEHOLD_SSH=shlex.join(self.ssh))
        begun, returned_s, said = command(argv, self.project.folder, environment)
        return Launched(self._began(root / "active" / said.strip() / "out" / "main", number) - begun, returned_s)

    def by_hand(self, work: Path) -> Launched:
        """Launch new code as people do: rsync the folder, then start it detached over a second connection."""
        number = self.project.change()
        out, ssh = f"out-{number}", shlex.join(self.ssh)
        prepare = f"cd {shlex.quote(str(work))} || exit; mkdir {out}"
        start = f"LEASE_OUT={out} setsid nohup python3 train.py > log 2>&1 < /dev/null &"
        rsync = f"rsync -a --exclude .git -e {shlex.quote(ssh)} ./ {shlex.quote(f'box:{work}/')}"
        argv = ["/bin/sh", "-c", f"{rsync} && {ssh} box {shlex.quote(f'{prepare}; {start}')}"]
        begun, returned_s, _ = command(argv, self.project.folder, user_environment())
        return Launched(self._began(work / out, number) - begun, returned_s)

    def _began(self, out: Path, number: int) -> float:
        """Wait until the new code has run and the box is quiet again; return when the trainer began."""
        result = out / "result.json"
        _wait_for(lambda: result.exists() and bool(result.read_text()), str(result))
        _wait_for(lambda: not self.box.leftovers(), "the end of everything on the box")
        if json.loads(result.read_text())["round"] != number:
            raise RuntimeError(f"{result} is of another version of the code than {number}")
        return float((out / "first").read_text())


def command(argv: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float, str]:
    """Run one command; return when it began, how long it took and what it printed."""
    begun = time.time()  # the trainer's clock: both are on this machine
    done = subprocess.run(
        argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    returned_s = time.time() - begun
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        raise RuntimeError(f"{argv[0]} exited with {done.returncode}")
    return begun, returned_s, done.stdout


def _wait_for(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {_WAIT_S:.0f} s")
        time.sleep(0.02)
