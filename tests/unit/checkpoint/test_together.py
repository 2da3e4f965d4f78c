"""Processes that train together save one state and go on from it together, each with its own random numbers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.checkpoint.bed import PATIENCE_S, Ran, environment, program

STEPS = 20
ENDLESS = 10**6  # the other process hears of a signal after a second, which may be many steps


@pytest.fixture
def pair(tmp_path: Path):
    """Run both processes to their end."""
    count = iter(range(100))

    def run(folder: str, way: str, end_at: int = 0, steps: int = STEPS) -> list[Ran]:
        meeting = tmp_path / f"meeting-{next(count)}"
        children = [
            subprocess.Popen(
                program("together", tmp_path / folder, rank, meeting, way, steps, end_at),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
            )
            for rank in (0, 1)
        ]  # fmt: skip
        try:
            return [_ran(child) for child in children]
        finally:
            for child in children:
                child.kill()
                child.wait()

    return run


def _ran(child: subprocess.Popen[str]) -> Ran:
    out, said = child.communicate(timeout=PATIENCE_S)
    words = [line.split() for line in out.splitlines()]
    losses = {int(line[1]): line[2] for line in words if line[0] == "LOSS"}
    return Ran(child.returncode, losses, ["DONE"] in words, said)


@pytest.mark.full
@pytest.mark.parametrize("way", ["replicated", "split"])
def test_two_processes_killed_together_go_on_bit_for_bit(pair, tmp_path: Path, way: str) -> None:
    whole = pair("whole", way)
    assert all(ran.done for ran in whole), whole[0].said + whole[1].said
    assert whole[0].losses != whole[1].losses
    first = pair("killed", way, end_at=9)
    assert all(ran.code == -9 for ran in first), first[0].said + first[1].said
    second = pair("killed", way)
    for rank in (0, 1):
        assert second[rank].done, second[rank].said
        assert {**first[rank].losses, **second[rank].losses} == whole[rank].losses
        assert all(whole[rank].losses[step] == loss for step, loss in second[rank].losses.items())
    assert "resumes at step" in second[0].said
    assert "checkpoint:" not in second[1].said  # one process speaks for all


@pytest.mark.full
def test_a_signal_to_one_process_saves_once_and_all_leave(pair, tmp_path: Path) -> None:
    told = pair("told", "replicated", end_at=-10, steps=ENDLESS)
    # The script never takes its group down when it is told to leave; a process must not abort (-6) over that.
    assert [ran.code for ran in told] == [143, 143], told[0].said + told[1].said
    assert not any(ran.done for ran in told)
    assert "asked to end; state of step" in told[0].said
    steps = len(told[0].losses) + 5
    after = pair("told", "replicated", steps=steps)
    assert not told[0].losses.keys() & after[0].losses.keys()
    assert told[0].losses.keys() | after[0].losses.keys() == set(range(steps))


@pytest.mark.full
def test_a_damaged_shard_falls_back_to_the_folder_before(pair, tmp_path: Path) -> None:
    pair("split", "split", end_at=9)
    newest = max((tmp_path / "split").glob("step-*.dcp"))
    shard = max(newest.glob("*.distcp"), key=lambda path: path.stat().st_size)
    shard.write_bytes(shard.read_bytes()[:-1])
    after = pair("split", "split")
    assert all(ran.done for ran in after), after[0].said
    assert f"{newest.name} is damaged and was passed over" in after[0].said
