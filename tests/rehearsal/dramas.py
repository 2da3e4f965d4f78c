"""The lives that the kill matrix lives through: what is typed, what goes wrong, what must be true in the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.beds import Bed, local_bed
from tests.support.lives import (
    Lease,
    Life,
    check_home,
    check_journal,
    check_nobody_left,
    check_trainers,
    kill,
    kill_group,
)
from tests.support.parcels import stock

SMOKE = """printf '{"steps": 0, "sum": 0}' > "$LEASE_OUT/result.json\""""
Command = Callable[[Life, str], Lease]  # the second argument is LEASEHOLD_PAUSE


def run(life: Life, pause: str = "") -> Lease:
    return life.run(pause=pause)


def take_down(life: Life, pause: str = "") -> Lease:
    return life.lease("down", "life", "--rehearsal", pause=pause)


def check_finished(life: Life) -> None:
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


def check_taken_down(life: Life) -> None:
    """The box is gone once and for all, and what it made is home."""
    assert not life.bed.root.exists()
    assert list(life.bed.root.parent.glob("*.deleting-*")) == []
    check_trainers(life)
    check_home(life)
    kinds = life.ledger()
    assert (kinds.count("verb_done"), kinds.count("lease_closed")) == (1, 1)
    check_nobody_left(life)


@dataclass(frozen=True)
class Drama:
    """A life with one thing going wrong in it."""

    name: str
    commands: tuple[Command, ...] = (run,)
    provoke: Callable[[Life], object] | None = None  # done while a trainer is held in mid-life
    fails_once: bool = False
    tries: int = 1  # how often the last command may have to be typed until it exits with 0
    check: Callable[[Life], None] = check_finished
    rehearsed: bool = False  # on a simulated rental

    @contextlib.contextmanager
    def bed(self, folder: Path) -> Iterator[Bed]:
        """Give the bed it is played on, unless it is played over ssh; a rental begins empty."""
        with local_bed(folder, folder / "life" / "home" if self.rehearsed else None) as bed:
            if not self.rehearsed:
                stock(bed.root)
            yield bed


DRAMAS = {
    drama.name: drama
    for drama in (
        Drama("plain"),
        Drama("caretaker-dies", provoke=lambda life: kill(life.caretaker())),
        Drama("trainer-dies", provoke=lambda life: kill_group(life.trainer())),
        Drama("fails", commands=(run, run), fails_once=True, tries=2),
        Drama(
            "stopped",
            commands=(run, run),
            provoke=lambda life: life.lease("stop", life.run_id, "--grace", "5"),
            tries=2,
        ),
        Drama("taken-down", commands=(run, take_down), check=check_taken_down, rehearsed=True),
    )
}


@contextlib.contextmanager
def staged(drama: Drama, bed: Bed, folder: Path, *, hold: bool) -> Iterator[Life]:
    """Set a drama up on a bed; its commands end with it."""
    life = Life(bed, folder / "life", job={"smoke": SMOKE})
    if drama.fails_once:
        (life.side / "fail").touch()
    if hold:
        life.hold()
    try:
        yield life
    finally:
        life.close()
