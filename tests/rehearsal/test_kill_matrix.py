"""Kill anything at any moment: the identical command continues.

{home, caretaker, keeper, trainer, link} x {before, during, after} x every event that the lives in dramas.py have.
LEASEHOLD_PAUSE stops the process that reaches the moment; the victim dies; the moment goes on; the same command
is typed again. A victim that does not exist at that moment makes the case not applicable, which is counted.
The fast tier plays one phase of each event with three of the victims, other ones every day; the full tier plays all.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rehearsal.dramas import DRAMAS, Drama, staged
from tests.rehearsal.moments import Absences, Moment, listed, live_once
from tests.support import tiers
from tests.support.beds import Bed, ssh_bed
from tests.support.lives import Lease, Life, eventually, kill, kill_group

pytestmark = pytest.mark.kill_matrix

PHASES = ("before", "during", "after")
VICTIMS = ("home", "caretaker", "keeper", "trainer", "link")
VICTIMS_A_DAY = 3
ABSENT = Absences()
APPEARS_WITHIN_S = 3.0
STALLED_FOR_S = 0.4

# Over ssh: one event a victim, chosen so that the victim lives then.
OVER_SSH = {
    "home": Moment("plain", "home.manifest_taken", False),
    "caretaker": Moment("plain", "attempt_ended", False),
    "keeper": Moment("plain", "attempt_started", True),
    "trainer": Moment("plain", "attempt_started", True),
    "link": Moment("plain", "attempt_started", True),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "moment" in metafunc.fixturenames:
        moments = list(enumerate(listed()))
        cases = [
            pytest.param(
                moment, phase, victim, id=f"{moment.event}-{phase}-{victim}", marks=_tier(number, phase, victim)
            )
            for number, moment in moments
            for phase in PHASES
            for victim in VICTIMS
        ]
        metafunc.parametrize(("moment", "phase", "victim"), cases)


def _tier(number: int, phase: str, victim: str) -> list[pytest.MarkDecorator]:
    turn = number + tiers.day()
    in_turn = phase == PHASES[turn % len(PHASES)] and (VICTIMS.index(victim) + turn) % len(VICTIMS) < VICTIMS_A_DAY
    return [] if in_turn else [pytest.mark.full]


@pytest.mark.parametrize(
    "drama", [pytest.param(drama, marks=[] if drama == "plain" else [pytest.mark.full]) for drama in DRAMAS]
)
def test_the_list_of_moments_is_complete(drama: str) -> None:
    known = listed()
    found = set(live_once(DRAMAS[drama]))
    unlisted = found - {moment.event for moment in known}
    vanished = {moment.event for moment in known if moment.drama == drama} - found
    renew = "python -m tests.rehearsal.moments > tests/rehearsal/moments.json"
    assert (unlisted, vanished) == (set(), set()), f"moments.json is out of date: {renew}"


def test_the_identical_command_continues(
    moment: Moment, phase: str, victim: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    applied = False
    if not ABSENT.known(moment, phase, victim):
        with DRAMAS[moment.drama].bed(tmp_path) as bed:
            applied = play(bed, tmp_path, moment, phase, victim)
    record_property("tally: kill matrix", "applied" if applied else "not applicable")


@pytest.mark.full
@pytest.mark.real_ssh
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("phase", PHASES)
def test_the_identical_command_continues_over_ssh(
    phase: str, victim: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    moment = OVER_SSH[victim]
    with ssh_bed(tmp_path, {"LEASEHOLD_PAUSE": aim(tmp_path, moment, phase)}) as bed:
        applied = play(bed, tmp_path, moment, phase, victim)
    record_property("tally: kill matrix", "applied" if applied else "not applicable")
    assert applied


# ---------------------------------------------------------------- one case


def aim(folder: Path, moment: Moment, phase: str) -> str:
    return f"{folder / 'pause'}:{moment.event}:{phase}"


def play(bed: Bed, folder: Path, moment: Moment, phase: str, victim: str) -> bool:
    """Live the drama up to the moment, kill, type it again, check; tell whether there was somebody to kill."""
    drama = DRAMAS[moment.drama]
    (folder / "pause").mkdir()
    with staged(drama, bed, folder, hold=moment.held or drama.provoke is not None) as life:
        try:
            reach(drama, life, moment, aim(folder, moment, phase), folder / "pause" / "reached")
            found = who_lives(life, moment)
            ABSENT.note(moment, phase, [name for name in VICTIMS if not found[name]])
            if not found[victim]:
                return False
            strike(life, victim, found[victim])
            life.release()
            (folder / "pause" / "go").touch()
            let_end(life)
            type_again(drama, life)
            drama.check(life)
        except (AssertionError, TimeoutError) as failure:
            raise AssertionError(f"{failure}\n{life.explain()}") from failure
    return True


def reach(drama: Drama, life: Life, moment: Moment, pause: str, reached: Path) -> None:
    """Type the drama's commands until the moment is reached."""
    provoke = drama.provoke
    for number, command in enumerate(drama.commands, 1):
        lease = command(life, pause)
        deadline = time.monotonic() + 60
        while not reached.exists() and lease.code is None:
            if provoke is not None and life.held() and "detach_proven" in life.ledger():
                provoke(life)
                provoke = None
                if not moment.held:
                    life.release()
            assert time.monotonic() < deadline, "the moment was not reached"
            time.sleep(0.004)
        late_s = 20.0 if number == len(drama.commands) else 0.5  # who writes it may be slower than home is to end
        if eventually(lambda: reached.exists() and reached.read_text(), late_s):
            return
        life.release()
    raise AssertionError("the commands ended before the moment was reached")


def who_lives(life: Life, moment: Moment) -> dict[str, list[int]]:
    """Find every victim. Whichever side is not stopped at its moment moves on, so one of it may be about to appear."""
    find = {
        "home": life.homes,
        "caretaker": life.caretaker,
        "keeper": life.keeper,
        "trainer": life.trainer,
        "link": life.link,
    }
    deadline = time.monotonic() + APPEARS_WITHIN_S
    while True:
        found = {victim: find[victim]() for victim in VICTIMS}
        moves = works(life) if moment.event.startswith("home.") else found["home"] and not found["link"]
        if all(found.values()) or not moves or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def strike(life: Life, victim: str, found: list[int]) -> None:
    if victim == "home":
        for lease in life.leases:
            lease.kill()
    elif victim == "link":
        life.bed.cut(life.homes())
    elif victim == "trainer":
        kill_group(found)
    else:
        kill(found)


def works(life: Life) -> bool:
    return bool(life.caretaker()) and not life.state().terminal


def let_end(life: Life) -> None:
    """Wait for the commands that survived; a person would leave one that waits for a box where nobody is left."""
    deadline = time.monotonic() + 60
    while life.homes():
        assert time.monotonic() < deadline, "a command neither ended nor went on"
        if life.stalled():
            since = time.monotonic()
            while life.stalled() and life.homes() and time.monotonic() - since < STALLED_FOR_S:
                time.sleep(0.05)
            if life.stalled():
                leave(life)
        time.sleep(0.05)


def leave(life: Life) -> None:
    for lease in life.leases:
        lease.send(signal.SIGINT)
    for lease in life.leases:
        lease.wait()


def type_again(drama: Drama, life: Life) -> Lease:
    """Type the last command until it exits with 0; only a run that failed or was stopped may say no before."""
    for _ in range(drama.tries):
        again = drama.commands[-1](life, "")
        if again.wait() == 0:
            return again
        assert again.code == 6, f"the identical command exited with {again.code}"
    raise AssertionError("the identical command did not get through")
