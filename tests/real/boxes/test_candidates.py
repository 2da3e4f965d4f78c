"""Candidates: which box a run without --on lands on, what is said of the others, and that silence is never absence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, Front, fake_cards, front
from tests.support.lives import eventually

pytestmark = pytest.mark.real_ssh

# Says its first line, then waits for the test's word.
WAITS = """
import json, os, time
print("step 1/1 loss 0.5", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
json.dump({}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""
NOWHERE = "ssh:nobody@127.0.0.1:1"  # port 1: nothing answers there
CARD = "NVIDIA A100-SXM4-40GB, 40960"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    """Give a box behind sshd that has a card, which this machine has not."""
    cards = fake_cards(tmp_path / "far", CARD)
    with ssh_bed(tmp_path / "far", {"GO": str(tmp_path / "go"), **cards}) as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    with front(tmp_path, {"GO": str(tmp_path / "go"), **bed.environment}) as person:
        person.write("train.py", WAITS)
        yield person


def go(person: Front) -> None:
    (person.folder / "go").touch()


def reasons(person: Front) -> dict[str, str]:
    return {event["candidate"]: event["why"] for event in person.events("candidate_passed_over")}


def runs_on(bed: SshBed) -> list[str]:
    active = bed.root / "active"
    return sorted(path.name for path in active.iterdir()) if active.is_dir() else []


def test_the_first_that_answers_and_fits_is_taken_and_the_others_are_said(me: Front, bed: SshBed) -> None:
    me.job(candidates=["gpu9", NOWHERE, "local", "ssh:box", "generic-ssh"], resources={"gpu": {"name": "A100"}})
    go(me)
    done = me.lease("run")
    assert done.code == 0, done.said
    said = reasons(me)
    assert list(said) == ["gpu9", NOWHERE, "local"]
    assert "no box 'gpu9'" in said["gpu9"]
    assert "127.0.0.1" in said[NOWHERE]
    assert "the job asks for a GPU" in said["local"]
    assert all(f"candidate {name} is passed over: " in done.said for name in said)
    assert "candidate ssh:box: taken" in done.said
    assert len(runs_on(bed)) == 1 and me.runs_on_box() == []
    assert [event["box"] for event in me.events("lease_opened")] == ["ssh:box"]  # none on the boxes passed over


def test_with_none_left_each_reason_is_listed_and_nothing_is_opened(me: Front) -> None:
    me.job(candidates=["local", NOWHERE, "generic-ssh"], resources={"gpu": {"name": "H100"}})
    done = me.lease("run")
    assert done.code == 3
    assert "error[candidates.none]" in done.said
    seen = done.said.partition("seen:")[2]
    assert "local: the job asks for a GPU" in seen and f"{NOWHERE}: " in seen
    assert "generic-ssh: no box of this platform is in the book" in seen
    assert me.events("lease_opened") == [] and me.events("run_planned") == []


def test_a_platform_stands_for_its_boxes_in_the_book(me: Front, bed: SshBed) -> None:
    added = me.lease("box", "add", "mine", "--ssh", "box", "--price", "1USD/h")
    assert added.code == 0, added.said
    me.job(candidates=["generic-ssh"])
    go(me)
    done = me.lease("run", *NO_SMOKE)
    assert done.code == 0, done.said
    assert "candidate mine (generic-ssh): taken" in done.said
    assert [event["price"] for event in me.events("lease_opened")] == ["1USD/h"]


def test_the_identical_command_goes_back_to_where_the_run_is(me: Front, bed: SshBed) -> None:
    me.job(candidates=["local", "ssh:box"])
    first = me.lease("run", "--on", "ssh:box", "--detach")
    assert first.code == 0, first.said
    again = me.lease("run", "--detach")
    assert again.code == 0, again.said
    assert "is on ssh:box; going on there" in again.said and "already there, attached" in again.said
    assert len(runs_on(bed)) == 1 and me.runs_on_box() == []


def test_a_silent_box_on_which_the_run_was_begun_is_never_passed_over(me: Front, bed: SshBed) -> None:
    me.job(candidates=["ssh:box", "local"])
    assert me.lease("run", "--detach").code == 0
    bed.box.stop()
    done = me.lease("run", "--detach")
    assert done.code == 3
    assert "error[candidates.unknown]" in done.said and "it may be running there" in done.said
    assert "--stopped" in done.said and "--again" in done.said
    assert me.runs_on_box() == []


def test_a_box_that_answers_and_knows_nothing_of_the_run_sets_it_free(me: Front, bed: SshBed) -> None:
    me.job(candidates=["local", "ssh:box"], resources={"gpu": {"name": "A100"}})
    refused = me.lease("run", "--on", "local")
    assert refused.code == 3 and "audit.refused" in refused.said
    go(me)
    done = me.lease("run")
    assert done.code == 0, done.said
    assert list(reasons(me)) == ["local"]
    eventually(lambda: len(runs_on(bed)) == 1)
    assert "ssh:box" in me.lease("status").out


def test_a_run_begun_elsewhere_is_not_begun_a_second_time(me: Front, bed: SshBed) -> None:
    me.job(candidates=["local"])
    assert me.lease("run", "--on", "ssh:box", "--detach").code == 0
    done = me.lease("run")
    assert done.code == 3
    assert "run.elsewhere" in done.said and "--on ssh:box" in done.said
    assert me.runs_on_box() == []


def test_another_version_of_the_job_on_a_candidate_stops_the_search(me: Front, bed: SshBed) -> None:
    me.job(candidates=["ssh:box", "local"])
    assert me.lease("run", "--detach").code == 0
    me.write("train.py", WAITS + "# edited\n")
    done = me.lease("run", "--detach")
    assert done.code == 3 and "run.company" in done.said
    assert me.runs_on_box() == []
