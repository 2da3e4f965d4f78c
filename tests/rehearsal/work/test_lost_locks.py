"""Lock files are deleted while a run trains, as cleaners of temporary files do: nothing is doubled or burnt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import local_bed, running
from tests.support.lives import Life, check_home, check_journal, check_trainers, eventually, kill


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    """Give a job on this machine as a box."""
    with local_bed(tmp_path / "bed") as bed:
        made = Life(bed, tmp_path / "life")
        yield made
        made.close()


def delete_locks(life: Life) -> None:
    """Delete every lock file of the run, whatever it is called."""
    folder = life.run_folder
    assert folder is not None
    found = [*folder.rglob("*.lock"), *folder.glob("cells/*/lock")]
    assert {path.name for path in found} >= {"caretaker.lock", "lock"}
    for path in found:
        path.unlink()


def cares(life: Life) -> list[int]:
    """List the run's caretakers."""
    return running("care", str(life.run_folder))


def test_after_the_locks_were_deleted_the_same_command_finds_the_run(life: Life) -> None:
    life.run_to_mid_life().kill()
    caretaker, keeper, trainer = cares(life), life.keeper(), life.trainer()
    delete_locks(life)
    again = life.run()
    folder = life.run_folder
    assert folder is not None
    assert eventually(lambda: (folder / "caretaker.lock").exists() and "attached" in again.said), life.explain()
    assert (cares(life), life.keeper(), life.trainer()) == (caretaker, keeper, trainer), life.explain()
    life.release()
    assert again.wait() == 0, life.explain()
    assert life.attempts() == [1], life.explain()
    check_home(life)
    check_trainers(life)
    check_journal(life)


@pytest.mark.full
def test_a_caretaker_after_deleted_locks_adopts_the_trainer(life: Life) -> None:
    life.run_to_mid_life().kill()
    trainer = life.trainer()
    before = cares(life)
    delete_locks(life)
    kill(before)
    again = life.run()
    assert eventually(lambda: cares(life) and cares(life) != before), life.explain()
    assert life.trainer() == trainer, life.explain()
    life.release()
    assert again.wait() == 0, life.explain()
    assert life.attempts() == [1], life.explain()
    assert eventually(lambda: not cares(life)), life.explain()
    check_home(life)
    check_trainers(life)
    check_journal(life)
