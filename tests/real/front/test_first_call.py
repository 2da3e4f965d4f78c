"""The call a command begins with, as a person has it: taken where it is the right one, gone where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.ledger import books
from leasehold.lifecycle.ending.stopped_by_hand import record_stopped
from leasehold.lifecycle.home.home import Home
from tests.support.beds import SshBed, ssh_bed
from tests.support.front import Front, front
from tests.support.lives import eventually

pytestmark = pytest.mark.real_ssh

_TRAIN = "import json, os\njson.dump({}, open(os.environ['LEASE_OUT'] + '/result.json', 'w'))\n"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    """Give a box behind sshd."""
    with ssh_bed(tmp_path / "bed") as made:
        yield made


@pytest.fixture
def person(bed: SshBed, tmp_path: Path) -> Iterator[Front]:
    """Give somebody who has run a job there once, and fetched its results."""
    with front(tmp_path / "person", bed.environment) as someone:
        someone.write("train.py", _TRAIN)
        someone.job()
        done = someone.lease("run", *bed.on)
        assert done.code == 0, done.said
        done = someone.lease("pull", "toy")
        assert done.code == 0, done.said
        yield someone


def _calls(person: Front) -> list[str]:
    folder = person.home / "cache" / "calls"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _changed(person: Front, bed: SshBed) -> int:
    """Run the job with other code; say how many connections that took."""
    person.write("train.py", _TRAIN + f"# {bed.box.handshakes()}\n")
    before = bed.box.handshakes()
    done = person.lease("run", *bed.on)
    assert done.code == 0, done.said
    assert eventually(lambda: bed.box.connections() == 0)
    return bed.box.handshakes() - before


def test_the_call_is_the_one_that_is_used(person: Front, bed: SshBed) -> None:
    assert bed.on[1] in _calls(person)
    usual = _changed(person, bed)
    for path in (person.home / "cache" / "calls").iterdir():
        path.unlink()
    assert _changed(person, bed) == usual, "without a first call it takes as many"


def test_a_call_that_nobody_wants_ends_and_the_right_one_is_made_and_kept(person: Front, bed: SshBed) -> None:
    usual = _changed(person, bed)
    path = person.home / "cache" / "calls" / bed.on[1]
    kept = path.read_bytes()
    path.write_bytes(kept.replace(b"-oLogLevel=ERROR", b"-oLogLevel=QUIET"))
    assert usual <= _changed(person, bed) <= usual + 1
    assert path.read_bytes() == kept


def test_a_command_that_ends_early_ends_its_call(person: Front, bed: SshBed) -> None:
    person.write("lease.yaml", "name: [")
    assert person.lease("run", *bed.on).code == 2
    assert person.lease("run", *bed.on, "--no-such-flag").code == 2
    assert eventually(lambda: bed.box.connections() == 0)


def test_a_box_that_does_not_answer_is_not_called_first_the_next_time(person: Front, bed: SshBed) -> None:
    bed.box.stop()
    person.write("train.py", _TRAIN + "# other\n")
    assert person.lease("run", *bed.on).code == 5
    assert bed.on[1] not in _calls(person)


def test_nobody_is_called_first_once_the_lease_is_closed(person: Front, bed: SshBed) -> None:
    assert _calls(person)
    home = Home(person.home)
    (lease,) = books.leases(home.ledger, only_open=True)
    record_stopped(home, lease, "a person", "")
    assert _calls(person) == []
