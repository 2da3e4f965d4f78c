"""Run training programs as processes, read what they print, and kill them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.frameworks import python_with
from tests.support.lives import eventually

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[2] / "src"
PATIENCE_S = 120


class Ran(NamedTuple):
    """How a program ended and what it printed."""

    code: int
    losses: dict[int, str]  # step -> exact loss
    done: bool
    said: str


def environment(**more: str) -> dict[str, str]:
    """Copy the environment without what a run of ours would set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LEASE")}
    return {**kept, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1", **more}


def run(
    argv: list[str], kill_after: int = -1, number: int = signal.SIGKILL, folder: Path | None = None, **more: str
) -> Ran:
    """Run a program, which waits for our word after each loss.

    Send it a signal after so many losses; where its folder is given, once what it is saving there has come to be.
    """
    losses: dict[int, str] = {}
    done = False
    before = newest(folder) if folder else "-"
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**more)
    ) as child:
        try:
            assert child.stdin is not None and child.stdout is not None and child.stderr is not None
            for line in child.stdout:
                word, *rest = line.split()
                done = done or word == "DONE"
                if word == "LOSS":
                    losses[int(rest[0])] = rest[1]
                    if len(losses) == kill_after:
                        if folder is not None:
                            eventually(lambda: newest(folder) != before)
                        child.send_signal(number)
                    with contextlib.suppress(BrokenPipeError):
                        os.write(child.stdin.fileno(), b"go on\n")  # nothing stays behind to be flushed to the dead
            said = child.stderr.read()
            code = child.wait(PATIENCE_S)
        finally:
            child.kill()
    return Ran(code, losses, done, said)


def newest(folder: Path | None) -> str:
    """Name the newest checkpoint of a folder."""
    return max((path.name for path in folder.glob("step-*")), default="") if folder else ""


def program(name: str, *words: object) -> list[str]:
    """Spell the command line of a program with the interpreter it needs."""
    library = name.partition("with_")[2] or {"plain": "plain", "arrays": "numpy"}.get(name, "torch")
    return [python_with(library), str(HERE / "programs" / f"{name}.py"), *map(str, words)]
