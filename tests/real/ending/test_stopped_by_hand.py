"""`lease down --stopped` is a person's word: the box is asked first; one that answers later opens its lease again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, ONE_SYSTEM, Front, front
from tests.support.lives import eventually
from tests.support.screens import Session

pytestmark = pytest.mark.real_ssh

WAITS = """
import json, os, time
print("step 1/1 loss 0.5", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
json.dump({}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""
CAN_BILL = "nothing that this home knows of can bill"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far", {"GO": str(tmp_path / "go")}) as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    """Somebody whose run is at work on a box of the book that costs money."""
    with front(tmp_path, bed.environment) as person:
        person.write("train.py", WAITS)
        person.job()
        added = person.lease("box", "add", "gpu1", "--ssh", "box", "--price", "1USD/h")
        assert added.code == 0, added.said
        begun = person.lease("run", "--on", "gpu1", "--detach", *NO_SMOKE)
        assert begun.code == 0, begun.said
        yield person


def finish(person: Front) -> None:
    (person.folder / "go").touch()


def open_leases(person: Front) -> list[dict[str, Any]]:
    return list(json.loads(person.lease("down", "--json").out)["leases"])


def call_it_stopped(person: Front, bed: SshBed) -> None:
    """Have the box fall silent and a person say that it is stopped."""
    bed.box.stop()
    said = Session(person, "unused").type("lease down gpu1 --stopped", ("type exactly", "stopped gpu1-1"))
    assert "it does not answer now" in said and "gpu1-1 is closed" in said


def test_it_is_refused_while_the_box_answers_and_trains(me: Front, bed: SshBed) -> None:
    refused = me.lease("down", "gpu1", "--stopped")
    assert refused.code == 3, refused.said
    assert "error[lease.answers]" in refused.said and "gpu1 still answers" in refused.said
    assert "at work there: toy-" in refused.said
    assert [lease["lease"] for lease in open_leases(me)] == ["gpu1-1"]
    finish(me)
    assert me.lease("pull", "toy").code in (0, 7)


def test_it_is_refused_while_the_box_answers_with_everything_home(me: Front, bed: SshBed) -> None:
    finish(me)
    done = me.lease("run", "--on", "gpu1", *NO_SMOKE)
    assert done.code == 0, done.said
    refused = me.lease("down", "toy", "--stopped")
    assert refused.code == 3 and "no run is at work on it" in refused.said
    call_it_stopped(me, bed)
    said = me.lease("down")
    assert CAN_BILL not in said.said
    assert "no lease is open; closed on a person's word" in said.said and "gpu1-1 (" in said.said


def test_a_box_that_trains_on_reopens_its_lease_when_a_refresh_hears_it(me: Front, bed: SshBed) -> None:
    call_it_stopped(me, bed)
    opened = me.events("lease_opened")
    silent = me.lease("status", "--refresh")
    assert "is open again" not in silent.said and open_leases(me) == []
    bed.box.start()
    heard = me.lease("status", "--refresh")
    assert "! gpu1 answers, and toy-" in heard.said and " is at work on it" in heard.said
    assert "but gpu1-1 was closed on a person's word" in heard.said and "counts from its beginning" in heard.said
    assert [lease["lease"] for lease in open_leases(me)] == ["gpu1-1"]
    assert me.events("lease_opened") == opened
    assert me.events("lease_reopened")[0]["seen"] == "it answered"
    assert "is open again" not in me.lease("status", "--refresh").said, "it is said once"
    finish(me)
    assert eventually(lambda: "finished" in me.lease("status", "--refresh").out)


def test_whoever_asks_a_run_of_a_closed_lease_opens_it_again(me: Front, bed: SshBed) -> None:
    call_it_stopped(me, bed)
    bed.box.start()
    logs = me.lease("logs", "toy")
    assert logs.code == 0 and "is open again" in logs.said
    assert [lease["lease"] for lease in open_leases(me)] == ["gpu1-1"]
    finish(me)


def test_whoever_asks_the_box_by_its_name_opens_the_lease_again(me: Front, bed: SshBed) -> None:
    for words in (("box", "show", "gpu1"), ("box", "test", "gpu1"), ("disk", "gpu1"), ("adopt", "gpu1")):
        call_it_stopped(me, bed)
        bed.box.start()
        asked = me.lease(*words)
        assert asked.code == 0 and "the lease is open again and counts from its beginning" in asked.said, words
        assert [lease["lease"] for lease in open_leases(me)] == ["gpu1-1"], words
    finish(me)


def test_another_machine_that_was_given_the_name_opens_no_lease(me: Front, bed: SshBed, tmp_path: Path) -> None:
    call_it_stopped(me, bed)
    with ssh_bed(tmp_path / "other") as other:
        config = other.box.config.read_text().replace("Host box\n", "Host other\n", 1)
        bed.box.config.write_text(bed.box.config.read_text() + "\n" + config)
        assert me.lease("box", "add", "gpu1", "--ssh", "other", "--replace").code == 0
        for words in (("box", "show", "gpu1"), ("status", "--refresh")):
            asked = me.lease(*words)
            assert asked.code == 0 and "open again" not in asked.said, asked.said
        assert open_leases(me) == []
        assert "gpu1-1 (" in me.lease("down").said, "nobody has seen the first machine off"


def test_a_box_on_which_nothing_works_any_more_was_off_until_it_was_heard(me: Front, bed: SshBed) -> None:
    finish(me)
    assert me.lease("run", "--on", "gpu1", *NO_SMOKE).code == 0
    call_it_stopped(me, bed)
    bed.box.start()
    heard = me.lease("status", "--refresh")
    assert "counts again from now" in heard.said
    (lease,) = json.loads(me.lease("status", "--json").out)["leases"]
    assert (lease["lease"], lease["state"]) == ("gpu1-1", "running")
    assert me.events("lease_reopened")[0]["off_since_unix"] > 0


def test_a_launch_where_the_run_works_on_reopens_the_old_lease_only(me: Front, bed: SshBed) -> None:
    call_it_stopped(me, bed)
    bed.box.start()
    again = me.lease("run", "--on", "gpu1", "--detach", *NO_SMOKE)
    assert again.code == 0 and "already there, attached" in again.said, again.said
    assert "is open again" in again.said
    assert [lease["lease"] for lease in open_leases(me)] == ["gpu1-1"]
    finish(me)


def test_a_launch_on_a_box_that_is_on_again_opens_a_lease_of_its_own(me: Front, bed: SshBed) -> None:
    finish(me)
    assert me.lease("run", "--on", "gpu1", *NO_SMOKE).code == 0
    call_it_stopped(me, bed)
    bed.box.start()
    again = me.lease("run", "--on", "gpu1", "--again", *NO_SMOKE)
    assert again.code == 0, again.said
    assert [lease["lease"] for lease in open_leases(me)] == ["gpu1-2"]


@pytest.mark.parametrize(
    "words", [("--on", "gpu2"), ("--on", "gpu2", "--root", "~/b"), ("--on", "gpu1", "--root", "~/b")]
)
def test_a_launch_under_another_name_or_root_opens_the_running_runs_lease(
    me: Front, bed: SshBed, words: tuple[str, ...]
) -> None:
    config = bed.box.config.read_text()
    bed.box.config.write_text(config + "\n" + config.replace("Host box\n", "Host twin\n", 1))
    call_it_stopped(me, bed)
    bed.box.start()
    assert me.lease("box", "add", "gpu2", "--ssh", "twin", "--price", "1USD/h").code == 0
    if "--root" in words:
        me.job(name="other")
    begun = me.lease("run", *words, "--detach", *NO_SMOKE)
    assert begun.code == 0, begun.said
    assert "gpu1-1 was closed on a person's word" in begun.said and "counts from its beginning" in begun.said
    (reopened,) = me.events("lease_reopened")
    assert "off_since_unix" not in reopened
    shown = me.lease("status")
    assert "no run is live on it" not in shown.said, "a run is at work on that machine"
    assert [one["by"] for one in me.events("lease_counted_by")] == ["gpu1-1"], "one machine has one meter"
    finish(me)


def test_a_home_that_attaches_counts_the_box_at_its_books_price(tmp_path: Path, me: Front, bed: SshBed) -> None:
    (run,) = {event["run"] for event in me.events("run_planned")}
    with front(tmp_path / "other", bed.environment) as other:
        assert other.lease("box", "add", "g", "--ssh", "box", "--price", "2USD/h").code == 0
        finish(me)
        attached = other.lease("attach", run, "--on", "g")
        (lease,) = other.events("lease_opened")
        assert lease["price"] == "2USD/h", attached.said
        assert other.events("machine_met")


def test_this_machine_is_on_while_you_type(me: Front) -> None:
    finish(me)
    me.job(name="here")
    done = me.lease("run", "--price", "1USD/h", *NO_SMOKE, GO=str(me.folder / "go"))
    assert done.code == 0, done.said
    refused = me.lease("down", "local", "--stopped")
    assert refused.code == 3 and "this very machine" in refused.said and "lease down local-" in refused.said


def test_a_door_that_turns_our_key_away_is_not_called_silent(me: Front, bed: SshBed) -> None:
    """It may be the box, a relay that outlives it, or whoever has the address now: a person decides, and is told."""
    finish(me)
    (bed.box.folder / "client_key").rename(bed.box.folder / "other_key")
    asked = me.lease("down", "gpu1", "--stopped")
    assert "it does not answer now" not in asked.said, asked.said
    assert "something answers at its address, and whether that is the box is unknown" in asked.said, asked.said
    assert [lease["lease"] for lease in open_leases(me)] == ["gpu1-1"]


def test_steps_that_were_printed_make_no_later_down_a_yes(me: Front, bed: SshBed) -> None:
    finish(me)
    assert me.lease("run", "--on", "gpu1", *NO_SMOKE).code == 0
    down = f"lease down gpu1 {ONE_SYSTEM[0]} '{ONE_SYSTEM[1]}'"
    said = Session(me, "unused").type(down, ("type exactly", "stop-by-hand gpu1-1"))
    assert "everything is home. Now stop the meter by hand" in said
    again = me.lease("down", "gpu1", *ONE_SYSTEM)
    assert again.code == 3 and "error[approval.no_terminal]" in again.said, again.said
    assert "the steps of `stop-by-hand` for gpu1 were printed on" in again.said
    assert len(me.events("intent_recorded")) == 1
