"""Which events the lives have: a list that is checked in (moments.json), and the way to see that it is complete.

After an event was added or removed: python -m tests.rehearsal.moments > tests/rehearsal/moments.json
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.rehearsal.dramas import DRAMAS, Drama, staged
from tests.support.beds import Bed
from tests.support.lives import Life, eventually

LIST = Path(__file__).with_name("moments.json")
_QUIET_S = 0.5


@dataclass(frozen=True)
class Moment:
    """An event of a drama, and whether it comes while a trainer is held in mid-life."""

    drama: str
    event: str
    held: bool


def listed() -> list[Moment]:
    """Read the checked-in list: every event once, in the first drama that has it."""
    return [Moment(*item) for item in json.loads(LIST.read_text(encoding="utf-8"))]


def live_once(drama: Drama) -> dict[str, Moment]:
    """Live a drama undisturbed and note its events."""
    with tempfile.TemporaryDirectory(prefix="lh-") as name, drama.bed(Path(name)) as bed:
        return _live_on(drama, bed, Path(name))


class Absences:
    """Who was seen not to exist at a moment: seen once by any worker, it need not be lived through again."""

    def __init__(self) -> None:
        session = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"alone-{os.getpid()}")
        self._place = Path(tempfile.gettempdir(), f"leasehold-absent-{session}")

    def note(self, moment: Moment, phase: str, victims: list[str]) -> None:
        """Remember that these do not exist then."""
        if victims:
            with self._place.open("a") as file:
                file.write("".join(f"{moment.event} {phase} {victim}\n" for victim in victims))
            atexit.register(self._place.unlink, missing_ok=True)

    def known(self, moment: Moment, phase: str, victim: str) -> bool:
        """Tell whether somebody saw that this one does not exist then."""
        try:
            return f"{moment.event} {phase} {victim}" in self._place.read_text().splitlines()
        except FileNotFoundError:
            return False


def _live_all() -> list[Moment]:
    with ThreadPoolExecutor(len(DRAMAS)) as pool:
        lives = list(pool.map(live_once, DRAMAS.values()))
    found: dict[str, Moment] = {}
    for moments in lives:
        found = {**moments, **found}
    return [moment for moments in lives for moment in moments.values() if found[moment.event] == moment]


def _live_on(drama: Drama, bed: Bed, folder: Path) -> dict[str, Moment]:
    found: dict[str, Moment] = {}
    hold = not drama.fails_once
    with staged(drama, bed, folder, hold=hold) as life:
        for number, command in enumerate(drama.commands):
            lease = command(life, "")
            if hold and number == 0:
                _live_held(drama, life, found)
            life.release()
            code = lease.wait()
            _note(drama, life, found, held=False)
        assert code == 0, life.explain()
        drama.check(life)
    return found


def _live_held(drama: Drama, life: Life, found: dict[str, Moment]) -> None:
    """Collect what happens around a trainer in mid-life, until nothing does any more."""
    known = "detach_proven"  # a caretaker that is killed before was never seen to be detached
    assert eventually(lambda: (life.held() and known in life.ledger()) or not life.homes()), life.explain()
    assert life.held(), life.explain()
    _until_quiet(drama, life, found)
    if drama.provoke is not None:
        known = len(life.events())
        drama.provoke(life)
        assert eventually(lambda: len(life.events()) > known), life.explain()
        _until_quiet(drama, life, found)


def _until_quiet(drama: Drama, life: Life, found: dict[str, Moment]) -> None:
    changed, known = time.monotonic(), 0
    while time.monotonic() - changed < _QUIET_S:
        _note(drama, life, found, held=True)
        now = len(life.events()) + len(life.ledger())
        if now != known:
            changed, known = time.monotonic(), now
        time.sleep(0.02)


def _note(drama: Drama, life: Life, found: dict[str, Moment], *, held: bool) -> None:
    kinds = [event["k"] for event in life.events()] + ["home." + kind for kind in life.ledger()]
    for kind in kinds:
        found.setdefault(kind, Moment(drama.name, kind, held))


if __name__ == "__main__":
    rows = ",\n".join("  " + json.dumps(astuple(moment)) for moment in _live_all())
    print(f"[\n{rows}\n]")
