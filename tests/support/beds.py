"""Two boxes to lease: this machine, and one behind a real sshd. Both end with all that ran on them."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from tests.support import processes
from tests.support.sshd import HOST, MARK, SshBox


class Bed:
    """A box as `lease` reaches it, and as a test sees it from behind."""

    root: Path  # our folder on the box, as seen from here
    on: Tuple[str, ...]  # how `lease run` names it
    environment: Dict[str, str]  # what `lease` needs to get there

    def links(self, homes: List[int]) -> List[int]:
        """List the processes that carry the open connections of these lease processes."""
        raise NotImplementedError

    def cut(self, homes: List[int]) -> None:
        """Drop those connections."""
        processes.send(self.links(homes), signal.SIGKILL)

    def leftovers(self) -> List[int]:
        """List what runs because of this bed."""
        raise NotImplementedError


class LocalBed(Bed):
    """This machine as a box with a root of its own, or as a simulated rental, which lives in the home."""

    def __init__(self, folder: Path, rehearsed_in: Optional[Path] = None) -> None:
        self.root = folder / "root"
        self.on = ("--on", "local", "--root", str(self.root))
        if rehearsed_in is not None:
            self.root = rehearsed_in / "boxes" / "rehearsal"
            self.on = ("--on", "local", "--rehearse")
        self._mark = "local-%d-%d" % (os.getpid(), random.SystemRandom().getrandbits(48))
        self.environment = {MARK: self._mark}

    def links(self, homes: List[int]) -> List[int]:
        """List the lease processes' own `serve` children."""
        live = processes.snapshot()
        return [pid for pid in running("serve", str(self.root)) if pid in live and live[pid].parent in homes]

    def leftovers(self) -> List[int]:
        """List what carries our mark or works below the root."""
        return processes.marked("%s=%s" % (MARK, self._mark), os.path.realpath(self.root))


class KubectlBed(LocalBed):
    """This machine behind a stand-in of `kubectl exec`, which relays every byte through a process of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        program = Path(__file__).with_name("stand_in_kubectl.py")
        self.environment["LEASEHOLD_KUBECTL"] = shlex.join([sys.executable, "-I", "-S", str(program)])


class SshBed(Bed):
    """A box behind a real sshd; the root is where `lease` puts it when nobody says."""

    def __init__(self, box: SshBox) -> None:
        self.box = box
        self.root = box.home / ".leasehold"
        self.on = ("--on", "ssh:" + HOST)
        self.environment = {"LEASEHOLD_SSH": shlex.join(box.ssh_command)}

    def links(self, homes: List[int]) -> List[int]:
        """List the lease processes' own ssh children."""
        return [p.pid for p in processes.snapshot().values() if p.name == "ssh" and p.parent in homes]

    def cut(self, homes: List[int]) -> None:
        """Drop every connection from the server's side."""
        self.box.cut()

    def leftovers(self) -> List[int]:
        """List what the box's sessions left running."""
        return self.box.leftovers()


@contextlib.contextmanager
def local_bed(folder: Path, rehearsed_in: Optional[Path] = None) -> Iterator[LocalBed]:
    """Give this machine as a box, or as a rental rehearsed in a home."""
    bed = LocalBed(folder, rehearsed_in)
    try:
        yield bed
    finally:
        processes.end(bed.leftovers)


@contextlib.contextmanager
def kubectl_bed(folder: Path) -> Iterator[KubectlBed]:
    """Give this machine behind a stand-in of kubectl."""
    bed = KubectlBed(folder)
    try:
        yield bed
    finally:
        processes.end(bed.leftovers)


@contextlib.contextmanager
def ssh_bed(
    folder: Path, environment: Optional[Mapping[str, str]] = None, home: Optional[Path] = None
) -> Iterator[SshBed]:
    """Give a box behind sshd, its HOME anywhere; tmux keeps its sockets in a folder that ends with it."""
    sockets = tempfile.mkdtemp(prefix="lh-")  # short: a socket's path has room for 100 characters
    try:
        with SshBox(folder / "box", home, {"TMUX_TMPDIR": sockets, **(environment or {})}) as box:
            yield SshBed(box)
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


def running(*words: str) -> List[int]:
    """List live processes with these words side by side in their command line."""
    wanted = b"\0" + b"\0".join(os.fsencode(word) for word in words) + b"\0"
    found = []
    for pid in processes.snapshot():
        with contextlib.suppress(OSError):
            if wanted in Path("/proc", str(pid), "cmdline").read_bytes():
                found.append(pid)
    return found
