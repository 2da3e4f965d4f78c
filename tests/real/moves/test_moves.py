"""A run moves from box to box: the old one is fenced, the newest state that is whole goes on on the new one."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import eventually
from tests.support.moves import Mover, events, keep, sums
from tests.support.screens import Session
from tests.support.sshd import SshBox

pytestmark = pytest.mark.real_ssh

STEPS = 40


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path / "person") as person:
        yield person


@pytest.fixture
def mover(me: Front) -> Iterator[Mover]:
    made = Mover(me, STEPS)
    yield made
    made.release()


@pytest.fixture
def refuge() -> Iterator[Path]:
    """Give a folder that outlives the boxes: it lies on another file system than they do."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm here (another file system than the boxes')")
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="lh-refuge-") as place:
        yield Path(place)


@pytest.fixture
def boxes(mover: Mover, refuge: Path, new_ssh_box: Callable[..., SshBox]) -> dict[str, SshBox]:
    found = {name: new_ssh_box(name) for name in ("a", "b")}
    mover.add("a", found["a"])
    mover.add("b", found["b"], "--durable", str(refuge))
    return found


def test_a_working_run_is_stopped_and_goes_on_where_its_last_state_stood(
    mover: Mover, boxes: dict[str, SshBox]
) -> None:
    run = mover.begin("a", 17)
    moved = mover.person.lease("move", "mover", "--to", "b", "--detach", *NO_SMOKE)
    assert moved.code == 0, moved.said
    assert "step 15" in moved.said and "2 steps" in moved.said, moved.said
    mover.release()
    done = mover.person.lease("run", "--on", "b", *NO_SMOKE)
    assert done.code == 0, done.said
    assert mover.starts() == [0, 15]
    assert mover.result() == sums(STEPS)[STEPS], "bit-equal to an undisturbed run"
    (resumed,) = events(boxes["b"], "resumed_from")
    assert (resumed["box"], resumed["run"], resumed["step"]) == ("a", run, 15)
    assert [event["k"] for event in events(boxes["a"])][-1] == "run_stopped"


def test_the_box_that_was_left_starts_nothing_again(mover: Mover, boxes: dict[str, SshBox]) -> None:
    run = mover.begin("a", 17)
    assert mover.person.lease("move", "mover", "--to", "b", "--detach", *NO_SMOKE).code == 0
    with front(mover.person.folder / "other") as other:
        shutil.copytree(mover.person.project, other.project, dirs_exist_ok=True)
        second = Mover.__new__(Mover)
        second.person = other
        second.add("a", boxes["a"])
        refused = other.lease("run", "--on", "a", "--detach", *NO_SMOKE)
    assert refused.code == 3 and "error[run.moved]" in refused.said, refused.said
    assert f"{run} was moved to b" in refused.said
    mover.release()


def test_the_receipt_names_every_box_and_attempt(mover: Mover, boxes: dict[str, SshBox]) -> None:
    mover.begin("a", 12)
    assert mover.person.lease("move", "mover", "--to", "b", "--detach", *NO_SMOKE).code == 0
    mover.hold(22)
    assert eventually(lambda: mover.starts() == [0, 10])
    assert mover.held(22)
    back = mover.person.lease("move", "mover", "--to", "a", "--detach", *NO_SMOKE)
    assert back.code == 0, back.said
    mover.release()
    assert mover.person.lease("run", "--on", "a", *NO_SMOKE).code == 0
    assert mover.starts() == [0, 10, 20]
    stays = mover.receipt()["stays"]["main"]
    assert [(one["box"], one["attempts"]) for one in stays] == [("a", 1), ("b", 1), ("a", 1)]
    assert mover.result() == sums(STEPS)[STEPS]


def test_a_destroyed_box_goes_on_from_the_refuge(mover: Mover, boxes: dict[str, SshBox], refuge: Path) -> None:
    run = mover.begin("a", 27)
    keep(refuge, run, 20)
    boxes["a"].close()
    shutil.rmtree(boxes["a"].home)
    silent = mover.person.lease("move", "mover", "--to", "b", "--detach", *NO_SMOKE)
    assert silent.code == 3 and "approval.no_terminal" in silent.said, silent.said
    assert not events(boxes["b"]), "nothing is started on a silence alone"
    said = Session(mover.person, "unused").type("lease move mover --to b --detach", ("type exactly", "a is gone"))
    assert "step 20" in said, said
    mover.release()
    assert mover.person.lease("run", "--on", "b", *NO_SMOKE).code == 0
    assert mover.starts() == [0, 20]
    assert mover.result() == sums(STEPS)[STEPS]


def test_lease_run_on_another_box_goes_on_once_the_lease_is_closed(
    mover: Mover, boxes: dict[str, SshBox], refuge: Path
) -> None:
    run = mover.begin("a", 27)
    keep(refuge, run, 25)
    refused = mover.person.lease("run", "--on", "b", "--detach", *NO_SMOKE)
    assert refused.code == 3 and "run.elsewhere" in refused.said and f"lease move {run} --to b" in refused.said
    boxes["a"].close()
    shutil.rmtree(boxes["a"].home)
    Session(mover.person, "unused").type("lease down a --stopped", ("type exactly", "stopped a-1"))
    mover.release()
    done = mover.person.lease("run", "--on", "b", *NO_SMOKE)
    assert done.code == 0, done.said
    assert mover.starts() == [0, 25], done.said


def test_a_torn_newest_state_is_passed_over(mover: Mover, boxes: dict[str, SshBox], refuge: Path) -> None:
    run = mover.begin("a", 27)
    keep(refuge, run, 20, made_unix=4e9)  # its clock was ahead: a clock never decides alone
    newest = keep(refuge, run, 25, made_unix=1e9)
    (torn,) = (refuge / "leasehold/refuge" / run / "cells/main/states" / newest.id).glob("*.json")
    torn.write_bytes(torn.read_bytes()[:-3] + b"xx}")
    boxes["a"].close()
    said = Session(mover.person, "unused").type("lease move mover --to b --detach", ("type exactly", "a is gone"))
    assert "is damaged and passed over" in said and "step 20" in said, said
    mover.release()
    assert mover.person.lease("run", "--on", "b", *NO_SMOKE).code == 0
    assert mover.starts() == [0, 20]


def test_a_box_that_comes_back_is_stopped_by_whoever_reaches_it(
    mover: Mover, boxes: dict[str, SshBox], refuge: Path
) -> None:
    run = mover.begin("a", 27)
    keep(refuge, run, 25)
    boxes["a"].stop()  # its trainer lives on
    Session(mover.person, "unused").type("lease move mover --to b --detach", ("type exactly", "a is gone"))
    boxes["a"].start()
    told = mover.person.lease("status", "--refresh")
    assert f"{run} still trained there although it goes on on b" in told.said, told.said
    assert eventually(lambda: bool(events(boxes["a"], "run_stopped")))
    mover.release()
    assert mover.person.lease("run", "--on", "b", *NO_SMOKE).code == 0
    assert mover.starts() == [0, 25]
    assert json.loads(mover.person.lease("status", "--json").out)["runs"][0]["box"] == "b"


def test_of_two_homes_that_move_a_run_exactly_one_wins(
    mover: Mover, boxes: dict[str, SshBox], new_ssh_box: Callable[..., SshBox], refuge: Path
) -> None:
    mover.add("c", new_ssh_box("c"), "--durable", str(refuge))
    run = mover.begin("a", 27)
    keep(refuge, run, 25)
    twin = mover.person.folder / "copy"
    shutil.copytree(mover.person.home, twin)
    boxes["a"].close()
    with front(mover.person.folder / "twin", home="home") as other:
        shutil.copytree(twin, other.home)
        shutil.copytree(mover.person.project, other.project, dirs_exist_ok=True)
        _become_another_home(other)
        first = Session(mover.person, "unused").type("lease move mover --to b --detach", ("type exactly", "a is gone"))
        lost = other.lease("move", "mover", "--to", "c", "--detach", *NO_SMOKE)
    assert "goes on on b" in first
    assert lost.code == 3 and "error[move.raced]" in lost.said and "to b" in lost.said, lost.said
    mover.release()


def test_a_cell_of_a_silent_box_goes_on_from_its_newest_state(
    mover: Mover, boxes: dict[str, SshBox], refuge: Path
) -> None:
    job = json.loads((mover.person.project / "lease.yaml").read_text())
    job["cells"] = {"list": [{"name": name, "n": number} for number, name in enumerate(("one", "two"))]}
    mover.person.job(**job)
    mover.hold(27)
    done = mover.person.lease("run", "--on", "a,b", "--detach", *NO_SMOKE)
    assert done.code == 0, done.said
    assert eventually(lambda: [step for _, step in mover.diary()].count(27) == 2), mover.diary()
    (part,) = (path.name for path in (boxes["a"].home / ".leasehold" / "active").glob("mover-*"))
    (cell,) = {str(event["cell"]) for event in events(boxes["a"], "attempt_started")}
    keep(refuge, part, 20, cell=cell)
    boxes["a"].close()
    shutil.rmtree(boxes["a"].home)
    mover.release()
    done = mover.person.lease("run", "--on", "a,b", "--move-after", "1s", *NO_SMOKE)
    assert sorted(mover.starts()) == [0, 0, 20], done.said
    (resumed,) = events(boxes["b"], "resumed_from")
    assert (resumed["cell"], resumed["run"], resumed["step"]) == (cell, part, 20)
    found = sorted((mover.person.project / "lease-results" / "export").glob("mover-*/cells/*/result.json"))
    assert [json.loads(path.read_text()) for path in found] == [sums(STEPS)[STEPS]] * 2, done.said


def _become_another_home(person: Front) -> None:
    import sqlite3

    with sqlite3.connect(person.home / "ledger.sqlite") as db:
        db.execute("UPDATE meta SET value = 'feedfacefeedface' WHERE key = 'home_id'")
