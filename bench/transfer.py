"""Files to and from a box behind ssh, against rsync, scp, a tar pipe and rclone, each from its start to its end.

Ours hashes every byte on both ends, compares, and waits until it is on the disk; no peer does any of that.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from leasehold.lifecycle.project.code_tree import read_tree
from leasehold.model.job.job import Artifact, Job
from leasehold.model.run.plan import Plan
from tests.support.parts import missing_ssh
from tests.support.sshd import SshBox

from . import ours
from .rounds import Effort, interleave, user_environment
from .rows import Goal, MissingPart, Row

RUN = "bench-1"
_FAST = "aes128-gcm@openssh.com"
_SMALL_FILES = 10_000
_SMALL_BYTES = 20_000
_PROJECT_FILES = 5_000
FIRST_PUSH = f"first push of {_PROJECT_FILES:,} files"


@dataclass
class Way:
    """How ours and the peers reach the box, and where things lie."""

    place: Path
    root: Path
    ssh: list[str]
    wrap: list[str] = field(default_factory=list)  # what each command is run under
    host: str = "box"
    sftp: str = ""  # the same way as rclone spells it
    delete: bool = True
    made: int = 0

    @property
    def out(self) -> Path:
        """The artifacts on the box, from behind."""
        return self.root / "active" / RUN / "out" / "main"

    def fresh(self) -> Path:
        """Make a new empty folder at home."""
        self.made += 1
        path = self.place / f"into-{self.made}"
        path.mkdir()
        return path

    def ours(self, *words: str) -> list[str]:
        """Spell our own command."""
        return [sys.executable, str(Path(ours.__file__)), *words]  # `lease` is no module for runpy to find either

    def environment(self) -> dict[str, str]:
        """What our command needs: the sources under test, and the way."""
        house = str(Path(__file__).resolve().parent.parent)
        source = os.path.dirname(os.path.dirname(sys.modules["leasehold"].__file__ or ""))
        return user_environment(LEASEHOLD_SSH=shlex.join(self.ssh), PYTHONPATH=f"{source}:{house}")

    def timed(self, argv: list[str]) -> float:
        """Time one command."""
        begun = time.perf_counter()
        done = subprocess.run([*self.wrap, *argv], env=self.environment(), capture_output=True, check=False)
        took = time.perf_counter() - begun
        if done.returncode:
            raise RuntimeError(f"{argv[0]} failed: {done.stderr.decode(errors='replace')[-800:]}")
        return took


def measure(effort: Effort) -> Iterator[Row]:
    """Yield one large file, many small ones, pushes of a project, and the long way."""
    if problem := missing_ssh():
        raise MissingPart(problem)
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name:
        place = Path(name)
        with SshBox(place / "box", quick_kex=False) as box:
            os.environ["LEASEHOLD_SSH"] = shlex.join(box.ssh_command)
            way = Way(place, place / "root", box.ssh_command, sftp=_sftp(box))
            prepare(way)
            yield from _large(way, effort)
            yield from _small(way, effort)
            yield from _push(way, effort)
            yield from _first_push(way, effort)
    from . import long_way

    yield from long_way.measure(effort)
    if shutil.which("rclone") is None:
        raise MissingPart("the rclone rows: no rclone here (Debian: apt-get install rclone)")


def prepare(way: Way) -> None:
    """Have a run on the box that has ended, into whose out folder files can be put from behind."""
    engine = ours.connect(str(way.root))
    ours.transport(str(way.root)).pin_trusted()  # as `lease` does after its first contact
    project = way.place / "empty"
    project.mkdir()
    (project / "train.sh").write_text("true\n")
    tree = read_tree(project)
    engine.uploads.push(tree)
    job = Job("bench", "echo 1 > $LEASE_OUT/first", (Artifact("**", "bytes"),))
    engine.work.start(Plan(RUN, job, tree.sha256, "local", ("setsid",)), "bench")
    while not engine.observe.look(RUN)["terminal"]:
        time.sleep(0.05)
    assert engine.observe.look(RUN)["state"] == "finished"
    engine.close()


def fill_large(way: Way, size_bytes: int) -> None:
    """Put one file of random bytes on the box."""
    shutil.rmtree(way.out, ignore_errors=True)
    way.out.mkdir(parents=True)
    with open(way.out / "model.bin", "wb") as file:
        for _ in range(size_bytes >> 20):
            file.write(os.urandom(1 << 20))
    _age(way.out / "model.bin")


def fill_small(way: Way, count: int, content: Callable[[int], bytes] | None = None) -> None:
    """Put many small files on the box, a hundred a folder: of random bytes, or as their number says."""
    shutil.rmtree(way.out, ignore_errors=True)
    way.out.mkdir(parents=True)
    block = os.urandom(_SMALL_BYTES + count)
    for number in range(count):
        where = way.out / f"{number // 100:03d}"
        where.mkdir(exist_ok=True)
        here = block[number : number + _SMALL_BYTES] if content is None else content(number)[:_SMALL_BYTES]
        (where / f"{number}.bin").write_bytes(here)
        _age(where / f"{number}.bin")


def metrics_log(number: int) -> bytes:
    """What a trainer writes down as it goes: a line of JSON every fifty steps, each number its own."""
    chance, lines, size = Random(number), [], 0
    for step in range(chance.randrange(100_000), 1 << 30, 50):
        lines.append(
            f'{{"step": {step}, "loss": {3 * chance.random():.6f}, "lr": {chance.random() / 1000:.3e}, '
            f'"grad_norm": {2 * chance.random():.4f}, "tokens_per_s": {chance.gauss(35_000, 500):.1f}, '
            f'"gpu_mem_gb": {chance.gauss(61, 1):.2f}, "time": {1.7e9 + 1.3 * step + chance.random():.3f}}}\n'
        )
        size += len(lines[-1])
        if size >= _SMALL_BYTES:
            break
    return "".join(lines).encode()


def _age(path: Path) -> None:
    os.utime(path, (time.time() - 60, time.time() - 60))


def pulls(way: Way, cipher: str = "") -> dict[str, Callable[[], float]]:
    """Spell every way to bring the run's artifacts home into a fresh folder."""
    ssh = [*way.ssh, *([f"-oCiphers={cipher}"] if cipher else [])]
    far = shlex.quote(str(way.out))

    def through(make: Callable[[Path], list[str]]) -> Callable[[], float]:
        def go() -> float:
            forget_sums(way)
            into = way.fresh()
            os.sync()  # what others left to be written is not ours to wait for, and ours not theirs
            try:
                return way.timed(make(into))
            finally:
                # Of small files nothing is deleted between rounds: ext4 walks round inodes that were freed a moment
                # ago, and whoever came next would pay for it.
                if way.delete:
                    shutil.rmtree(into, ignore_errors=True)

        return go

    pipe = f"{shlex.join([*ssh, way.host])} {shlex.quote(f'tar cf - -C {far} .')} | tar xf - -C "
    found = {
        "ours": through(lambda into: way.ours("pull", str(way.root), RUN, str(into))),
        "rsync -a": through(lambda into: ["rsync", "-a", "-e", shlex.join(ssh), f"{way.host}:{way.out}/", f"{into}/"]),
        "scp -r": through(lambda into: ["scp", "-q", "-r", *ssh[1:], f"{way.host}:{way.out}", str(into)]),
        "tar | ssh": through(lambda into: ["/bin/bash", "-o", "pipefail", "-c", pipe + shlex.quote(str(into))]),
    }
    if shutil.which("rclone") and way.sftp:
        ciphers = f",ciphers={cipher}" if cipher else ""
        remote = f":sftp,{way.sftp}{ciphers}:{way.out}"
        found["rclone sftp"] = through(lambda into: ["rclone", "copy", "-q", "--config", "", remote, str(into)])
    return found


def _sftp(box: SshBox) -> str:
    """Spell the box for rclone, whose older versions know no ssh command but have a client of their own."""
    return f"host=127.0.0.1,port={box.port},user={box.user},key_file={box.folder / 'client_key'},shell_type=unix"


def forget_sums(way: Way) -> None:
    """Ours must hash on the box in every round, as on the first pull."""
    (way.root / "active" / RUN / "hashes.json").unlink(missing_ok=True)


def against(what: str, taken: dict[str, list[float]], limit: float | None) -> Iterator[Row]:
    """Yield a row for each peer; the goal is against the best of them."""
    mine = taken.pop("ours")
    best = min(taken, key=lambda name: sorted(taken[name])[len(taken[name]) // 2])
    for name, theirs in taken.items():
        goal = Goal("ratio", "≤", limit) if limit is not None and name == best else None
        yield Row("transfer", what, "s", mine, theirs, name, goal)


def _large(way: Way, effort: Effort) -> Iterator[Row]:
    size = effort.choose(full=2 << 30, quick=512 << 20)
    fill_large(way, size)
    what = f"pull of one file, {size >> 20} MiB"
    yield from against(what, interleave(pulls(way), effort.choose(full=3, quick=3)), 1.0)
    fast = interleave(pulls(way, _FAST), effort.choose(full=3, quick=2))
    yield from against(f"{what}, peers with our cipher", fast, 1 / 0.6)


def _small(way: Way, effort: Effort) -> Iterator[Row]:
    fill_small(way, _SMALL_FILES)
    way.delete = False
    time.sleep(10)
    ways = pulls(way)
    rclone = ways.pop("rclone sftp", None)
    taken = interleave(ways, effort.choose(full=5, quick=3))
    what = f"pull of {_SMALL_FILES:,} files of 20 kB"
    if rclone is not None:  # it takes half a minute: once is enough
        yield Row("transfer", what, "s", [median(taken["ours"])], [rclone()], "rclone sftp")
    way.delete = True
    for row in against(what, taken, None):
        goal = Goal("ratio", "≤", 1.0) if row.peer_name in ("rsync -a", "tar | ssh") else None
        yield Row(row.bench, row.what, row.unit, row.ours, row.peer, row.peer_name, goal)


def _first_push(way: Way, effort: Effort) -> Iterator[Row]:
    taken = first_pushes(way, effort.choose(full=7, quick=3))
    yield Row("transfer", FIRST_PUSH, "s", taken["ours"], taken["rsync -a"], "rsync -a", Goal("ratio", "≤", 1.0))


def first_pushes(way: Way, rounds: int) -> dict[str, list[float]]:
    """Push a project that the box has never seen: of each round its own, so that nothing is there already."""
    version = iter(range(10**6))

    def new() -> Path:
        project = way.place / f"new-{next(version)}"
        make_project(project, f"# {project.name}\n")
        return project

    def first() -> float:
        project = new()
        return way.timed(way.ours("push", str(way.root), str(project), f"{project}.json"))

    def rsync() -> float:
        project = new()
        words = ["rsync", "-a", "--exclude", ".git", "-e", shlex.join(way.ssh)]
        return way.timed([*words, f"{project}/", f"{way.host}:{project}-copy/"])

    return interleave({"ours": first, "rsync -a": rsync}, rounds)


def _push(way: Way, effort: Effort) -> Iterator[Row]:
    project = way.place / "project"
    make_project(project)
    memory, copy = way.place / "memory.json", way.place / "copy"
    engine = ours.connect(str(way.root))
    version = iter(range(10**6))

    def change() -> None:
        (project / "settings.py").write_text(f"ROUND = {next(version)}\n")

    def fresh() -> float:
        change()
        return way.timed(way.ours("push", str(way.root), str(project), str(memory)))

    def warm() -> float:
        change()
        begun = time.perf_counter()
        engine.uploads.push(read_tree(project, memory=memory))
        return time.perf_counter() - begun

    def rsync() -> float:
        change()
        words = ["rsync", "-a", "--delete", "--exclude", ".git", "-e", shlex.join(way.ssh)]
        return way.timed([*words, f"{project}/", f"{way.host}:{copy}/"])

    time.sleep(2.1)  # a file just written is not trusted to its times; a project is older than its last edit
    taken = interleave({"fresh": fresh, "warm": warm, "rsync": rsync}, effort.choose(full=9, quick=4))
    engine.close()
    what = f"push of {_PROJECT_FILES:,} files after a one-line change"
    yield Row("transfer", what, "s", taken["fresh"], taken["rsync"], "rsync -a", Goal("ratio", "≤", 1.0))
    yield Row(
        "transfer", f"{what}, channel open", "s", taken["warm"], taken["rsync"], "rsync -a", Goal("ratio", "≤", 0.2)
    )


def make_project(folder: Path, head: str = "") -> None:
    """A project of many files in a git repository."""
    for number in range(_PROJECT_FILES):
        where = folder / f"pkg{number // 100:02d}"
        where.mkdir(parents=True, exist_ok=True)
        (where / f"m{number}.py").write_text(head + f"VALUE = {number}\n" * 60)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)
