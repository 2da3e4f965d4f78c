"""The doctor: how well it names real failures, and how fast it reads, against rg, grep and a loop over regexes."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from leasehold.doctor.reading import read_log
from leasehold.kit.failure.catalogue import Book, shipped
from leasehold.kit.failure.log_scan import Scanner, scan
from tests.doctor.excerpts import HALVES, Excerpt, read, score

from .rounds import Effort, interleave, seconds_of, user_environment
from .rows import Goal, Row

_MIB = 1 << 20
_MINUTE_S = 60.0


def measure(effort: Effort) -> Iterator[Row]:
    """Yield how often the right entry was named on both halves of the corpus, then the speeds."""
    book = shipped()
    for half in HALVES:
        yield from _named(book, f"{half} half", read(half))
    late = [excerpt for excerpt in read("report") if excerpt.file == "after_freeze.txt"]
    yield from _named(book, "gathered after the signs were frozen", late)
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as place:
        yield from _speeds(book, Path(place), effort)


def _named(book: Book, what: str, excerpts: list[Excerpt]) -> Iterator[Row]:
    seen = score(book, excerpts)
    about = f"{what}, {seen.failures} failures"
    goal = Goal("ours", "≥", 90) if what == "report half" else None
    yield Row("doctor", f"recall@1, {about}", "%", [100 * seen.first / seen.failures])
    yield Row("doctor", f"recall@3, {about}", "%", [100 * seen.among_three / seen.failures], goal=goal)
    yield Row("doctor", f"false alarms, {what}, {seen.healthy} healthy", "", [seen.alarms], goal=Goal("ours", "≤", 0))


def _speeds(book: Book, place: Path, effort: Effort) -> Iterator[Row]:
    large, small, literals = place / "large.log", place / "small.log", place / "literals"
    _write_log(large, effort.choose(full=1024, quick=128) * _MIB)
    _write_log(small, _MIB)
    literals.write_bytes(b"\n".join(book.literals()) + b"\n")
    size = large.stat().st_size / 1e6
    ways: dict[str, Callable[[], float]] = {"ours": lambda: size / _seconds(lambda: read_log(book, large))}
    for peer, words in {"rg": ["-a", "-c", "-F"], "grep": ["-a", "-c", "-F"]}.items():
        tool = shutil.which(peer)
        if tool:
            argv = [tool, *words, "-f", str(literals), str(large)]
            ways[peer] = lambda argv=argv: size / _seconds(lambda: _count(argv))  # type: ignore[misc]
    taken = interleave(ways, effort.choose(full=5, quick=3))
    what = f"{size:.0f} MB log, one core"
    for peer in ("rg", "grep"):
        if peer in taken:
            goal = Goal("ratio", "≥", 0.5) if peer == "rg" else None
            yield Row("doctor", what, "MB/s", taken["ours"], taken[peer], f"{peer} -c -F -f literals", goal)
    part = small.read_bytes()
    both = interleave(
        {
            "ours": lambda: 1 / _seconds(lambda: scan(book, [part])),
            "naive": lambda: 1 / _seconds(lambda: _naive(book, part)),
        },
        effort.choose(full=5, quick=3),
    )
    naive = "a loop over all regexes"
    yield Row("doctor", "Python alone, 1 MiB", "MB/s", both["ours"], both["naive"], naive, Goal("ratio", "≥", 20))
    yield Row(
        "doctor", what, "MB/s", taken["ours"], both["naive"][:1] * len(taken["ours"]), naive, Goal("ratio", "≥", 20)
    )
    yield _whole_command(small, effort)
    yield Row("doctor", "tailing 1 MB a minute", "% of a core", [_tailing(book, part)], goal=Goal("ours", "≤", 0.1))


def _whole_command(log: Path, effort: Effort) -> Row:
    """Time `lease doctor` on 1 MB, start-up included; it exits 0, for the log is healthy."""
    code = "import sys; from leasehold.shells.cli.main import main; sys.exit(main())"
    source = str(Path(__file__).resolve().parent.parent / "src")
    environment = user_environment(PYTHONPATH=source, NO_COLOR="1")
    argv = [sys.executable, "-c", code, "doctor", str(log)]
    taken = interleave({"ours": lambda: seconds_of(argv, environment)}, effort.choose(full=9, quick=3))
    return Row("doctor", "lease doctor, 1 MB log, start-up included", "s", taken["ours"], goal=Goal("ours", "≤", 0.3))


def _tailing(book: Book, part: bytes) -> float:
    """What a minute of a log that grows by 1 MB costs, fed in a piece a second, as a share of a core."""
    scanner = Scanner(book)
    piece = len(part) // 60
    begun = time.process_time()
    for at in range(0, len(part), piece):
        scanner.feed(part[at : at + piece])
    scanner.finish()
    return 100 * (time.process_time() - begun) / _MINUTE_S


def _naive(book: Book, data: bytes) -> int:
    regexes = [re.compile(sign.pattern.encode()) for sign in book.signs]
    return sum(1 for line in data.split(b"\n") for regex in regexes if regex.search(line))


def _count(argv: list[str]) -> None:
    # read through a pipe: into /dev/null, grep would stop at the first match
    subprocess.run(argv, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}, check=False)


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _write_log(path: Path, size: int) -> None:
    """Write what a trainer prints, with real healthy lines strewn in."""
    rng = random.Random(1)
    real = [line for excerpt in read("tune") if excerpt.healthy for line in excerpt.text.splitlines()]
    lines = []
    for step in range(5000):
        lines.append(
            f"2024-05-01 12:{step % 60:02d}:00,{step % 1000:03d} - INFO - step {step} loss={rng.random():.4f} lr=1e-4"
        )
        if rng.random() < 0.3:
            lines.append(rng.choice(real)[:300])
    block = ("\n".join(lines) + "\n").encode()
    with path.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(block[: size - written])
