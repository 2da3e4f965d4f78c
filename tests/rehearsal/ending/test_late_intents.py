"""An approval that was begun and not finished expires like any other: a later `lease down` asks anew."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.rehearsal.landlord import furnish
from tests.support.front import LEASE, Done, Front, front

DAY_S = 86400.0
# A command without a controlling terminal, as a cron job or an agent starts it.
ALONE = [sys.executable, "-c", "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody whose simulated box was approved to go, and whose command died right after that."""
    with front(tmp_path) as made:
        box = made.home / "boxes" / "rehearsal"
        furnish(box)
        home = Home(made.home, tmp_path / "config")
        books.open_lease(home.ledger, "local", "rehearsal", str(box), "")
        home.ledger.close()
        _approve_and_die(made)
        yield made


def _approve_and_die(person: Front) -> None:
    place = person.folder / "pause"
    place.mkdir()
    dies = subprocess.Popen(
        [*LEASE, "down", "local", "--rehearsal"],
        cwd=person.project,
        env={**person.environment, "LEASEHOLD_PAUSE": f"{place}:home.intent_recorded:after"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not (place / "reached").exists():
            assert dies.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        dies.kill()
        dies.wait()


def age(person: Front, seconds: float, *, told: bool = True) -> None:
    """Move everything that the ledger knows into the past (below zero: the clock was set back)."""
    with contextlib.closing(sqlite3.connect(person.home / "ledger.sqlite")) as db, db:
        db.execute("DROP TRIGGER events_stay")
        for seq, text in db.execute("SELECT seq, data FROM events WHERE kind = 'intent_recorded'").fetchall():
            data = json.loads(text)
            for name in ("granted_unix", "expires_unix"):  # an older ledger has neither
                if told and name in data:
                    data[name] -= seconds
                else:
                    data.pop(name, None)
            db.execute("UPDATE events SET data = ? WHERE seq = ?", (json.dumps(data), seq))
        db.execute("UPDATE events SET t = t - ?", (seconds,))


def down(person: Front, *words: str) -> Done:
    return person.lease("down", "local", *words, prefix=ALONE)


def stands(person: Front) -> bool:
    return os.path.exists(person.home / "boxes" / "rehearsal" / "rehearsal-box")


def test_an_unfinished_act_goes_on_without_a_second_yes_while_valid(person):
    done = down(person)
    assert done.code == 0, done.said
    assert "approved earlier" in done.said
    assert not stands(person) and person.events("lease_closed")


@pytest.mark.parametrize(
    ("days", "told"),
    [(400, True), (16 * 60 / DAY_S, True), (-1, True), (400, False)],
    ids=["400 days", "16 minutes", "clock set back", "400 days, an older ledger"],
)
def test_an_unfinished_act_whose_approval_expired_is_a_question_again(person, days, told):
    age(person, days * DAY_S, told=told)
    done = down(person)
    assert done.code == 3, done.said
    assert "error[approval.no_terminal]" in done.said
    assert "`terminate` on local-1 was approved by rehearsal on 20" in done.said
    assert "and was not finished; that approval is no longer valid" in done.said
    assert stands(person) and not person.events("lease_closed")
    again = down(person, "--rehearsal")
    assert again.code == 0, again.said
    assert not stands(person) and len(person.events("intent_recorded")) == 2


def test_a_box_the_platform_reports_gone_is_closed_whatever_the_approval(person):
    age(person, 400 * DAY_S)
    (person.home / "boxes" / "rehearsal" / "rehearsal-box").unlink()
    done = down(person)
    assert done.code == 0, done.said
    assert person.events("lease_closed")
