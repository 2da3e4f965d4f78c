"""Two homes start the same job on the same box at the same time: exactly one trainer, every time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.beds import Bed, LocalBed, SshBed, local_bed, ssh_bed
from tests.support.lives import Lease, Life, check_home, check_journal, check_trainers, eventually

ROUNDS = 10
BATCHES = int(os.environ.get("LEASEHOLD_TEST_BATCHES", "1"))  # more of them look for rarer races
HOMES = ("home", "other home")


@contextlib.contextmanager
def box(where: str, folder: Path) -> Iterator[Bed]:
    with ssh_bed(folder) if where == "ssh" else local_bed(folder) as bed:
        yield bed


def fresh_root(bed: Bed, name: str) -> None:
    """Move our folder on the box, so that each round meets a box that never saw us."""
    assert isinstance(bed, (LocalBed, SshBed))
    bed.root = bed.root.parent / name
    bed.on = (*bed.on[:2], "--root", str(bed.root))


def start_together(life: Life) -> list[Lease]:
    """Stop both homes at the moment before they turn to the box, then let both go."""
    pauses = [life.folder / f"pause-{number}" for number in range(len(HOMES))]
    both = []
    for home, pause in zip(HOMES, pauses, strict=True):
        pause.mkdir()
        both.append(life.run("--detach", home=home, pause=f"{pause}:home.run_planned:after"))
    assert eventually(lambda: all((pause / "reached").exists() for pause in pauses)), life.explain()
    for pause in pauses:
        (pause / "go").touch()
    return both


WHERE = [pytest.param("local"), pytest.param("ssh", marks=pytest.mark.real_ssh)]


@pytest.mark.full
@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("where", WHERE)
def test_two_homes_at_once_start_one_trainer(
    where: str, batch: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    alone = 0
    with box(where, tmp_path) as bed:
        for number in range(ROUNDS):
            fresh_root(bed, f"root-{number}")
            life = Life(bed, tmp_path / f"life-{number}", step_s=0.01)
            try:
                both = start_together(life) if number % 2 else [life.run("--detach", home=home) for home in HOMES]
                assert [lease.wait() for lease in both] == [0, 0], life.explain()
                assert eventually(lambda life=life: life.state().terminal), life.explain()
                starts = [line for line in life.diary() if line.what in ("start", "overlap")]
                assert [(line.what, line.attempt) for line in starts] == [("start", 1)], life.explain()
                check_journal(life)
                alone += 1
            finally:
                life.close()
    print(f"one trainer in {alone} of {ROUNDS} rounds on {where}")
    record_property("tally: one trainer for two homes", {f"alone on {where}": alone})


@pytest.mark.parametrize("where", WHERE)
def test_both_homes_get_the_results_of_the_one_trainer(where: str, tmp_path: Path) -> None:
    with box(where, tmp_path) as bed:
        life = Life(bed, tmp_path / "life")
        try:
            both = [life.run(home=home) for home in HOMES]
            assert [lease.wait() for lease in both] == [0, 0], life.explain()
            check_trainers(life)
            assert len([line for line in life.diary() if line.what == "start"]) == 1
            for home in HOMES:
                check_home(life, home)
        finally:
            life.close()


@pytest.mark.parametrize("where", WHERE)
def test_the_same_command_twice_in_one_home_ends_well_with_one_receipt(where: str, tmp_path: Path) -> None:
    with box(where, tmp_path) as bed:
        life = Life(bed, tmp_path / "life")
        try:
            both = [life.run(), life.run()]
            assert [lease.wait() for lease in both] == [0, 0], life.explain()
            check_trainers(life)
            assert len([line for line in life.diary() if line.what == "start"]) == 1
            check_home(life)
        finally:
            life.close()
