"""One job, two homes, two versions of its code, one moment: the box starts one of them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import LEASE, NO_SMOKE, Front, front
from tests.support.sweeps import until

pytestmark = pytest.mark.full  # each round is two launches

TRAIN = """
import json, os, time
print("version {version}", flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.02)
json.dump({{"version": {version}}}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""
ROUNDS = 3


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[list[Front]]:
    """Give two homes with different code of one job."""
    with contextlib.ExitStack() as stack:
        found = []
        for number in range(2):
            someone = stack.enter_context(front(tmp_path / f"home{number}"))
            someone.write("train.py", TRAIN.format(version=number, gate=str(tmp_path / "gate")))
            someone.job()
            found.append(someone)
        yield found
        (tmp_path / "gate").touch()


def begin(someone: Front, root: Path, aim: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a launch that stops between its look at the box and its request to start there."""
    aim.mkdir(parents=True)
    environment = {**someone.environment, "LEASEHOLD_PAUSE": f"{aim}:home.gate_judged:after"}
    asked = [*LEASE, "run", "--root", str(root), "--detach", *NO_SMOKE, *words]
    return subprocess.Popen(
        asked, cwd=someone.project, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def race(homes: list[Front], root: Path, aims: Path, *words: str) -> list[tuple[int, str]]:
    """Launch from both homes, release both when each has seen an empty box; return their codes and screens."""
    places = [aims / str(number) for number in range(len(homes))]
    begun = [begin(someone, root, place, *words) for someone, place in zip(homes, places, strict=True)]
    for place in places:
        until((place / "reached").exists, "both have looked at the box")
    for place in places:
        (place / "go").touch()
    ended = [process.communicate(timeout=60) for process in begun]
    return [(process.returncode, said[1].decode()) for process, said in zip(begun, ended, strict=True)]


def opened(root: Path) -> list[Path]:
    """List the runs on a box whose caretaker took them."""
    return sorted(root.glob("active/*/journal.jsonl"))


def wait_until_over(root: Path, gate: Path) -> None:
    """Let what runs finish."""
    gate.touch()
    until(lambda: all('"run_finished"' in path.read_text() for path in opened(root)), "finished")


def test_two_homes_with_different_code_at_one_moment_start_one_run(homes: list[Front], tmp_path: Path) -> None:
    for number in range(ROUNDS):
        root = tmp_path / f"box{number}"
        (won, lost) = sorted(race(homes, root, tmp_path / f"aims{number}"))
        assert (won[0], lost[0]) == (0, 3), (won[1], lost[1])
        (path,) = opened(root)
        run = path.parent.name
        assert f"error[run.company]: {run} of the same job is running on this box" in lost[1]
        assert f"lease watch {run}, or lease stop {run}, or lease run --alongside" in lost[1]
        assert [path.name for path in (root / "active").iterdir() if path.is_dir()] == [run], "a half-made run"
        for someone in homes:
            someone.home.rename(someone.folder / f"home-of-round-{number}")  # the next round knows nothing of it
        wait_until_over(root, tmp_path / "gate")
        (tmp_path / "gate").unlink()


def test_alongside_both_start(homes: list[Front], tmp_path: Path) -> None:
    root = tmp_path / "box"
    ended = race(homes, root, tmp_path / "aims", "--alongside")
    assert [code for code, _ in ended] == [0, 0], ended
    assert len(opened(root)) == 2
    wait_until_over(root, tmp_path / "gate")
