"""From `lease move` to the first new step on the other box, against rsync of the checkpoint by hand and ssh.

Two boxes behind ssh that cannot reach each other, and a trainer that saved one large state. By hand: kill it, rsync the
checkpoint here and on to the other box, rsync the code, start it; no hash is checked and no gate passed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.front import LEASE, Front, front
from tests.support.lives import eventually
from tests.support.moves import add_box
from tests.support.parts import missing_ssh
from tests.support.sshd import HOST, SshBox

from .rounds import Effort, interleave
from .rows import Goal, MissingPart, Row

_NO_SMOKE = ("--skip-gate", "smoke", "--because", "a bench")
_TRAIN = """
import os, sys, time
out, side = os.environ["LEASE_OUT"], os.environ["SIDE"]
path = os.path.join(out, "step-1.safetensors")
size = int(os.environ["SIZE"])
if os.path.exists(path):
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass
    open(os.path.join(side, "went-on"), "w").close()
else:
    head = ('{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)).encode()
    with open(path + ".tmp", "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
    os.replace(path + ".tmp", path)
print("step 1/2", flush=True)
open(os.path.join(side, "saved"), "w").close()
time.sleep(600)
"""


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the time to the first new step, for a small and a large state."""
    if problem := missing_ssh():
        raise MissingPart(problem)
    if shutil.which("rsync") is None:
        raise MissingPart("no rsync here")
    for mib in (16, effort.choose(full=2048, quick=256)):
        with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name:
            place = Path(name)
            a, b = (SshBox(place / box, quick_kex=False) for box in "ab")
            with a, b, front(place / "person") as person:
                bed = _Bed(person, (a, b), mib << 20)
                taken = interleave({"ours": bed.ours, "by hand": bed.by_hand}, effort.choose(full=5, quick=1))
        what = f"to the first new step, {mib} MiB, box to box through home"
        yield Row("moves", what, "s", taken["ours"], taken["by hand"], "rsync + ssh", Goal("ratio", "≤", 1.0))


class _Bed:
    def __init__(self, person: Front, boxes: tuple[SshBox, SshBox], size: int) -> None:
        self._person, self._boxes, self._size = person, boxes, size
        self._side = person.folder / "side"
        self._side.mkdir()
        person.write("train.py", _TRAIN)
        env = {"SIDE": str(self._side), "SIZE": str(size)}
        saved = {"path": "step-*.safetensors", "size": "3GB"}
        person.job(name="mover", env=env, checkpoint=saved, scratch=["step-*.safetensors"])
        for name, box in zip("ab", boxes, strict=True):
            add_box(person, name, box)

    def ours(self) -> float:
        """Start on a, then time the move to b."""
        self._forget()
        done = self._person.lease("run", "--on", "a", "--detach", "--again", *_NO_SMOKE)
        run = done.out.strip()
        assert done.code == 0 and self._appears("saved"), done.said
        (self._side / "saved").unlink()
        begun = time.perf_counter()
        command = subprocess.Popen(
            [*LEASE, "move", run, "--to", "b", "--detach", *_NO_SMOKE], cwd=self._person.project,
            env=self._person.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._appears("went-on") and self._appears("saved")
        took = time.perf_counter() - begun
        assert command.wait() == 0
        assert self._person.lease("stop", run, "--grace", "1").code == 0
        for box in self._boxes:
            shutil.rmtree(box.home / ".leasehold" / "active", ignore_errors=True)
        return took

    def by_hand(self) -> float:
        """Start on a by ssh, then time what a person would type."""
        self._forget()
        a, b = self._boxes
        for box in self._boxes:
            shutil.rmtree(box.home / "hand", ignore_errors=True)
        self._start(a)
        assert self._appears("saved")
        (self._side / "saved").unlink()
        begun = time.perf_counter()
        a.run("kill $(cat hand/pid)")
        with tempfile.TemporaryDirectory(prefix="leasehold-hand-") as here:
            self._rsync(a, f"{HOST}:hand/out/", here + "/")
            b.run("mkdir -p hand/out")
            self._rsync(b, here + "/", f"{HOST}:hand/out/")
            self._start(b)
            assert self._appears("went-on") and self._appears("saved")
        took = time.perf_counter() - begun
        b.run("kill $(cat hand/pid)")
        return took

    def _start(self, box: SshBox) -> None:
        box.run("mkdir -p hand/out hand/code")
        self._rsync(box, f"{self._person.project}/train.py", f"{HOST}:hand/code/")
        env = f"LEASE_OUT=$HOME/hand/out SIDE={self._side} SIZE={self._size}"
        box.run(f"{env} setsid python3 hand/code/train.py > hand/log 2>&1 < /dev/null & echo $! > hand/pid")

    def _rsync(self, box: SshBox, source: str, target: str) -> None:
        subprocess.run(["rsync", "-a", "-e", " ".join(box.ssh_command), source, target], check=True)

    def _appears(self, name: str) -> bool:
        return eventually((self._side / name).exists, 300.0)

    def _forget(self) -> None:
        for name in ("saved", "went-on"):
            (self._side / name).unlink(missing_ok=True)
