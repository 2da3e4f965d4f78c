"""Every reader against inputs that atheris finds, and our pickle machine against CPython's; a crash fails its goal."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.targets import seeds, targets
from tests.fuzz.unpicklers import compare

from .rounds import Effort, user_environment
from .rows import Goal, MissingPart, Row

_ROOT = Path(__file__).resolve().parents[1]
_OWN_VENV = _ROOT / ".venv-fuzz" / "bin" / "python"  # made by tools/fuzz_venv.sh
_INPUT_S = 5  # longest that one input may take
_MEMORY_MB = 1024
_GRACE_S = 60
_DONE = re.compile(r"Done (\d+) runs in (\d+) second")
_COVERED = re.compile(r"cov: (\d+) ft: (\d+)")


class Fuzzed(NamedTuple):
    """What became of one reader."""

    runs: int
    covered: int
    crash: str  # the input that broke it; empty when none did


def measure(effort: Effort) -> Iterator[Row]:
    """Yield how many crashes each reader had; the inputs that caused them are kept and named."""
    python = _python_with_atheris()
    kept = Path(tempfile.mkdtemp(prefix="leasehold-crashes-"))
    for name in sorted(targets()):
        found = _fuzz(python, name, effort.choose(full=60, quick=5), kept)
        if found.crash:
            print(f"fuzz: {name} broke; the input is {found.crash}", file=sys.stderr)
        what = f"{name}, {found.runs:,} inputs, {found.covered} branches"
        yield Row("fuzz", what, "crashes", [float(bool(found.crash))], goal=Goal("ours", "≤", 0))
    yield _unpicklers(effort.choose(full=300_000, quick=20_000), kept)
    if not any(kept.iterdir()):
        kept.rmdir()


def _unpicklers(count: int, kept: Path) -> Row:
    """Hold our pickle machine against both of CPython's unpicklers, with other sequences each time."""
    found = compare(random.SystemRandom().randrange(2**32), count)
    for number, data in enumerate(found.differing):
        (kept / f"unpicklers-{number}").write_bytes(data)
        print(f"fuzz: a sequence is read differently; it is {kept}/unpicklers-{number}", file=sys.stderr)
    what = f"unpicklers, {count:,} sequences, {found.accepted:,} accepted"
    return Row("fuzz", what, "differences", [float(len(found.differing))], goal=Goal("ours", "≤", 0))


def _fuzz(python: str, name: str, seconds: int, kept: Path) -> Fuzzed:
    with tempfile.TemporaryDirectory(prefix="leasehold-fuzz-") as corpus:
        for seed in seeds(name):
            shutil.copyfile(seed, Path(corpus, seed.name))
        prefix = str(kept / f"{name}-")
        options = (f"max_total_time={seconds}", f"timeout={_INPUT_S}", f"rss_limit_mb={_MEMORY_MB}", "max_len=16384")
        argv = [python, "-m", "tests.fuzz.run", name, *("-" + option for option in options)]
        done = subprocess.run(
            [*argv, f"-artifact_prefix={prefix}", corpus], env=user_environment(PYTHONPATH=f"{_ROOT / 'src'}:{_ROOT}"),
            cwd=_ROOT, capture_output=True, text=True, errors="replace", timeout=seconds + _GRACE_S, check=False,
        )  # fmt: skip
    crash = next((str(path) for path in sorted(kept.glob(f"{name}-*"))), "")
    runs, covered = _DONE.search(done.stderr), _COVERED.findall(done.stderr)
    if runs is None and not crash:
        raise RuntimeError(f"fuzzing {name} ended with {done.returncode}: {done.stderr[-1500:]}")
    if crash:
        (kept / (Path(crash).name + ".log")).write_text(done.stdout + done.stderr[-20_000:])
    return Fuzzed(int(runs[1]) if runs else 0, int(covered[-1][0]) if covered else 0, crash)


def _python_with_atheris() -> str:
    for python in (os.environ.get("LEASEHOLD_FUZZ_PYTHON", ""), str(_OWN_VENV)):
        if python and os.path.exists(python):
            return python
    raise MissingPart(
        "no Python with atheris here; tools/fuzz_venv.sh makes one, or name it with LEASEHOLD_FUZZ_PYTHON"
    )
