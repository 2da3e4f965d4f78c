"""Lines of a live run's journal cannot be read and its caretaker dies: the next one finds the trainer."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.beds import local_bed, running
from tests.support.lives import Life, check_home, check_trainers, eventually, kill

pytestmark = pytest.mark.full  # each test is a whole life with three commands


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    with local_bed(tmp_path / "bed") as bed:
        made = Life(bed, tmp_path / "life")
        yield made
        made.close()


def folder_of(life: Life) -> Path:
    assert life.run_folder is not None
    return life.run_folder


def cares(life: Life) -> list[int]:
    """List the run's caretakers."""
    return running("care", str(folder_of(life)))


def garble(life: Life, *kinds: str) -> None:
    """Write over those lines of the journal that tell of such events, as a failing disk does; their length stays."""
    path = folder_of(life) / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    hurt = [number for number, line in enumerate(lines) if json.loads(line)["k"] in kinds]
    assert hurt
    for number in hurt:
        lines[number] = b"#" * (len(lines[number]) - 1) + b"\n"
    path.write_bytes(b"".join(lines))


def lose(life: Life, kinds: tuple[str, ...], *, status: bool) -> tuple[list[int], list[int]]:
    """End the caretaker, suspend its keeper, garble the journal; return who keeps and who trains."""
    keeper, trainer = life.keeper(), life.trainer()
    processes.send(keeper, signal.SIGSTOP)  # it would start a caretaker at once
    kill(cares(life))
    garble(life, *kinds)
    if not status:
        (folder_of(life) / "status.json").unlink()
    return keeper, trainer


@pytest.mark.parametrize("status", [True, False], ids=["with its status", "without a status"])
@pytest.mark.parametrize(
    "kinds",
    [("run_opened",), ("attempt_starting",), ("attempt_started",), ("run_opened", "attempt_starting")],
    ids=lambda kinds: "+".join(kinds),
)
def test_a_trainer_whose_start_is_unreadable_is_found_and_not_doubled(
    life: Life, kinds: tuple[str, ...], status: bool
) -> None:
    life.run_to_mid_life().kill()
    keeper, trainer = lose(life, kinds, status=status)
    again = life.run()
    assert eventually(lambda: cares(life) or again.code is not None) and again.code is None, life.explain()
    assert eventually(lambda: "seen alive over a second connection" in again.said), life.explain()
    assert life.trainer() == trainer, life.explain()
    processes.send(keeper, signal.SIGCONT)
    life.release()
    assert again.wait() == 0, life.explain()
    assert sorted(path.name for path in (folder_of(life) / "cells" / "main").glob("attempt-*")) == ["attempt-0001"]
    assert life.state().state == "finished", "whoever folds the journal alone comes to the same end"
    check_home(life)
    check_trainers(life)


def test_an_unreadable_resume_leaves_no_ended_run_with_a_live_trainer(life: Life) -> None:
    life.run_to_mid_life().kill()
    stop = life.lease("stop", life.run_id, "--grace", "1")
    assert stop.wait() == 0, life.explain()
    (life.side / "holding").unlink()
    resumed = life.run()
    assert eventually(life.held) and eventually(lambda: life.state().state == "running"), life.explain()
    resumed.kill()
    keeper, trainer = lose(life, ("resumed",), status=False)
    again = life.run()
    assert eventually(lambda: cares(life)), life.explain()
    assert eventually(lambda: "seen alive over a second connection" in again.said), life.explain()
    assert life.trainer() == trainer, life.explain()
    processes.send(keeper, signal.SIGCONT)
    life.release()
    assert again.wait() == 0, life.explain()
    assert life.state().state == "finished"
    check_home(life)
    check_trainers(life)
