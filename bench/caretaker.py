"""What caretaker and keeper take from a box: memory, processor time, and a busy trainer's time.

Ours and the peer are measured one after the other: side by side they would share the interpreter's pages, and
PSS would flatter both.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import leasehold
from leasehold.kit.files.atomic import read_json
from tests.support import processes
from tests.support.parts import missing_ssh
from tests.support.sshd import SshBox

from .bed import command
from .beside import compare
from .rounds import Effort, user_environment
from .rows import Goal, MissingPart, Row

_SETTLE_S = 2.0
_SAMPLES = 5
_JOB = "name: bench-care\nrun: echo up; exec sleep 120\nartifacts: [none.json]\n"
_BUSY_JOB = "name: bench-busy\nrun: exec python3 busy.py\nartifacts: [none.json]\n"
_BUSY = """
import mmap, struct
with open("count", "w+b") as file:
    file.write(bytes(8))
    file.flush()
    counter, done = mmap.mmap(file.fileno(), 8), 0
    print("up", flush=True)
    while True:
        sum(range(2000))
        done += 1
        counter[:8] = struct.pack("<q", done)
"""
_IDLE = "import time; time.sleep(120)"


@dataclass(frozen=True)
class _Site:
    """Where the box is: behind a real sshd, or (without one here) this machine itself."""

    on: str
    environment: dict[str, str]
    root: Path

    @property
    def python(self) -> str:
        """The interpreter that the handshake chose there."""
        chosen = self.root / "python"
        return chosen.read_text().strip() if chosen.exists() else sys.executable


def measure(effort: Effort) -> Iterator[Row]:
    """Yield memory beside that of two idle interpreters, processor time, and what a busy trainer loses to them."""
    problem = _missing_rollup()
    if problem:
        raise MissingPart(problem)
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name, _site(Path(name)) as site:
        with _running(Path(name) / "idle", site, _JOB) as ours:
            # Five stretches, each with a tick of the patrol (5 s) in it, in full also with an asking (15 s): the
            # median of shorter ones would leave out what costs.
            mine = _sampled(ours, effort.choose(full=80, quick=30))
            moment = _moments(ours[0], effort.choose(full=40, quick=16))
            holder = _tmux_above(ours[0])
            held_mb = _memory_mb([holder], "Pss") if holder else 0.0
        with _two_interpreters(site.python) as peers:
            theirs = _sampled(peers, 1)
        with _running(Path(name) / "busy", site, _BUSY_JOB) as ours:
            seen = compare(ours, _trainer(ours), _cpu_s, effort)
    for kind, limit in (("Pss", 20), ("Rss", 30)):
        what = f"caretaker + keeper, {kind.upper()}"
        peer = (theirs[kind], "2 × idle python -IS")
        yield Row("caretaker", what, "MB", mine[kind], *peer, Goal("ours", "≤", limit))
    if moment:
        yield Row("caretaker", "more while disks and cards are asked, milliseconds every 15 s", "MB", [max(moment)])
    yield Row("caretaker", "caretaker + keeper, of one core", "%", mine["cpu"], goal=Goal("ours", "≤", 0.5))
    what = "a busy trainer beside them, processor time with theirs"
    goal = Goal("ratio", "≤", 1.002)
    yield Row("caretaker", what, "s", seen.with_us.own, seen.alone.own, "they stopped", goal)
    yield Row("caretaker", "the same by the clock", "s", seen.with_us.clock, seen.alone.clock, "they stopped")
    if holder:
        yield Row("caretaker", "the tmux server that holds them, PSS", "MB", [held_mb])


@contextmanager
def _site(place: Path) -> Iterator[_Site]:
    """Give a box behind a real sshd; where none can run, this machine."""
    sources = str(Path(leasehold.__file__).parent.parent)
    environment = user_environment(LEASEHOLD_HOME=str(place / "home"), PYTHONPATH=sources)
    if missing_ssh():
        yield _Site("local", environment, place / "home/boxes/local")
        return
    with SshBox(place / "box", quick_kex=False) as box:
        environment["LEASEHOLD_SSH"] = shlex.join(box.ssh_command)
        yield _Site("ssh:box", environment, box.home / ".leasehold")


@contextmanager
def _running(place: Path, site: _Site, job: str) -> Iterator[list[int]]:
    """Run a trainer; yield the pids of caretaker and keeper once they have settled."""
    code = place / "code"
    code.mkdir(parents=True)
    (code / "lease.yaml").write_text(job)
    (code / "busy.py").write_text(_BUSY)
    lease = [sys.executable, "-m", "leasehold"]
    _, _, said = command([*lease, "run", "--detach", "--on", site.on], code, site.environment)
    status = read_json(str(site.root / "active" / said.strip() / "status.json")) or {}
    caretaker = int(status["caretaker_pid"])
    time.sleep(_SETTLE_S)
    yield [caretaker, *(pid for pid in _children(caretaker) if _children(pid))]  # a keeper has a trainer
    command([*lease, "stop", said.strip(), "--grace", "1"], code, site.environment)


@contextmanager
def _two_interpreters(python: str) -> Iterator[list[int]]:
    """Start what two Python processes cost at the least, with the box's own interpreter."""
    bare = [subprocess.Popen([python, "-I", "-S", "-c", _IDLE]) for _ in range(2)]
    time.sleep(0.5)
    try:
        yield [child.pid for child in bare]
    finally:
        for child in bare:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)
            child.wait()


def _sampled(pids: list[int], over_s: int) -> dict[str, list[float]]:
    """Sample memory in MB, and the share of one core over each stretch between two samples."""
    taken: dict[str, list[float]] = {"Pss": [], "Rss": [], "cpu": []}
    for _ in range(_SAMPLES):
        begun, before_s = time.monotonic(), sum(map(_cpu_s, pids))
        time.sleep(over_s / _SAMPLES)
        spent_s = sum(map(_cpu_s, pids)) - before_s
        taken["cpu"].append(100 * spent_s / (time.monotonic() - begun))
        for kind in ("Pss", "Rss"):
            taken[kind].append(_memory_mb(pids, kind))
    return taken


def _moments(caretaker: int, over_s: int) -> list[float]:
    """Weigh the children that the caretaker has for a moment; what they share with it counts for both."""
    own = _memory_mb([caretaker], "Pss")
    seen, until = [], time.monotonic() + over_s
    lasting = set(_children(caretaker))
    while time.monotonic() < until:
        for pid in set(_children_now(caretaker)) - lasting:
            with suppress(OSError, ValueError):
                seen.append(_memory_mb([caretaker, pid], "Pss") - own)
        time.sleep(0.001)
    return seen


def _children_now(pid: int) -> list[int]:
    """Ask the kernel, where it keeps such a list; looking at every process takes longer than some children live."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return _children(pid)


def _children(pid: int) -> list[int]:
    return [process.pid for process in processes.snapshot().values() if process.parent == pid]


def _trainer(ours: list[int]) -> int:
    """The keeper's child."""
    return next(child for pid in ours[1:] for child in _children(pid))


def _tmux_above(pid: int) -> int:
    live = processes.snapshot()
    parent = live.get(live[pid].parent)
    return parent.pid if parent and parent.name.startswith("tmux") else 0


def _memory_mb(pids: list[int], kind: str) -> float:
    """Add up one line of smaps_rollup; PSS counts a page that n processes share as 1/n of a page to each."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                total += int(line.split()[1])
    return total * 1024 / 1e6


def _cpu_s(pid: int) -> float:
    """Return processor time so far, with that of children it has waited for."""
    text = Path(f"/proc/{pid}/stat").read_text()
    own, system, *children = map(int, text[text.rindex(")") + 2 :].split()[11:15])
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    exact = Path(f"/proc/{pid}/schedstat")  # nanoseconds; the ticks of stat are 10 ms, more than a stretch costs
    own_s = int(exact.read_text().split()[0]) / 1e9 if exact.exists() else (own + system) * tick_s
    return own_s + sum(children) * tick_s


def _missing_rollup() -> str | None:
    return None if os.path.exists("/proc/self/smaps_rollup") else "no /proc/PID/smaps_rollup here (Linux 4.14 has it)"
