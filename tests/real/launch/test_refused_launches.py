"""A launch that is refused leaves no run behind; a lease opens when its box has answered, and its name closes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, Front, front
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
NOWHERE = "ssh:nobody@127.0.0.1:1"  # port 1: nothing answers there


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far", {"GO": str(tmp_path / "go")}) as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    with front(tmp_path, {"GO": str(tmp_path / "go"), **bed.environment}) as person:
        person.write("train.py", WAITS)
        person.job()
        added = person.lease("box", "add", "g", "--ssh", "box", "--price", "1USD/h")
        assert added.code == 0, added.said
        yield person
        finish(person)


def finish(person: Front) -> None:
    (person.folder / "go").touch()


def begin(person: Front, *words: str) -> str:
    done = person.lease("run", "--detach", *NO_SMOKE, *words)
    assert done.code == 0, done.said
    return done.out.strip()


def status(person: Front) -> dict[str, Any]:
    return dict(json.loads(person.lease("status", "--json").out))


def runs(person: Front) -> list[str]:
    return [row["run"] for row in status(person)["runs"]]


def test_another_root_of_the_same_box_is_refused_and_opens_nothing(me: Front) -> None:
    run = begin(me, "--on", "g")
    refused = me.lease("run", "--on", "g", "--root", "/tmp/never-made", *NO_SMOKE)
    assert refused.code == 3 and "error[run.elsewhere]" in refused.said
    assert f"{run} is running in ~/.leasehold on g" in refused.said, refused.said
    assert "not on g" not in refused.said
    assert runs(me) == [run]
    assert [lease["lease"] for lease in status(me)["leases"]] == ["g-1"]
    assert len(me.events("lease_opened")) == 1


def test_two_leases_on_one_box_close_together_by_the_name_status_prints(me: Front, bed: SshBed, tmp_path: Path) -> None:
    finish(me)
    begin(me, "--on", "g")
    me.job(name="other")
    other = begin(me, "--on", "g", "--root", str(tmp_path / "other-root"))
    assert eventually(lambda: {row["state"] for row in _refreshed(me)} == {"finished"})
    shown = me.lease("status").out
    assert "g-1: g (generic-ssh)" in shown and "g-2: g (generic-ssh)" in shown, shown
    doubtful = me.lease("down", "g", "--plan")
    assert doubtful.code == 2 and "g-1 in ~/.leasehold" in doubtful.said and "g-2 in " in doubtful.said
    bed.box.stop()
    said = Session(me, "unused").type("lease down g-1 --stopped", ("type exactly", "stopped g-1"))
    assert f"{other} has no receipt at home" in said, "it lies on the machine that is said to be stopped"
    assert "g-2 was on the same machine and is closed too" in said and "g-1 is closed" in said
    assert "g-2 is already closed" in me.lease("down", "g-2", "--stopped").said
    assert json.loads(me.lease("down", "--json").out)["leases"] == []
    assert "already closed" in me.lease("down", "g").said


def _refreshed(person: Front) -> list[dict[str, Any]]:
    return list(json.loads(person.lease("status", "--refresh", "--json").out)["runs"])


def test_a_first_contact_that_fails_leaves_no_run_and_no_lease(me: Front) -> None:
    refused = me.lease("run", "--on", NOWHERE, "--price", "1USD/h", *NO_SMOKE)
    assert refused.code == 5, refused.said
    assert runs(me) == [] and me.events("lease_opened") == []
    finish(me)
    done = me.lease("run", "--on", "g", *NO_SMOKE)
    assert done.code == 0, done.said


def test_a_gate_that_refuses_leaves_a_billing_boxs_lease_and_no_run(me: Front) -> None:
    refused = me.lease("run", "--on", "g")
    assert refused.code == 3 and "smoke.refused" in refused.said
    assert runs(me) == []
    assert [lease["lease"] for lease in status(me)["leases"]] == ["g-1"]
    assert "the smoke gate refused toy-" in me.lease("box", "list").said
    finish(me)
    assert me.lease("run", *NO_SMOKE).code == 0, "it blocks the job nowhere else"


def test_a_refused_launch_does_not_hide_the_live_run(me: Front) -> None:
    run = begin(me, "--on", "g")
    me.write("NOTES.txt", "a file beside a live run")
    me.write("more.py", "print(1)")
    refused = me.lease("run", "--on", "g", *NO_SMOKE)
    assert refused.code == 3 and "error[run.company]" in refused.said
    assert runs(me) == [run]
    assert me.lease("logs", "toy").code == 0
    doctor = me.lease("doctor", "toy")
    assert doctor.code == 0 and "1 log" in doctor.said, doctor.said
    stopped = me.lease("stop", "toy", "--grace", "5")
    assert stopped.code == 0, stopped.said
    assert status(me)["runs"][0]["state"] == "stopped"


def test_a_refusal_by_the_box_itself_takes_the_plan_back(me: Front, bed: SshBed, tmp_path: Path) -> None:
    """Two homes with different code at one moment: the box refuses the second, which then knows no run of its own."""
    begin(me, "--on", "g")
    with front(tmp_path / "second", {**me.environment, "LEASEHOLD_HOME": str(tmp_path / "second" / "home")}) as other:
        other.write("train.py", WAITS + "# another version\n")
        other.job()
        refused = other.lease("run", "--on", "ssh:box", *NO_SMOKE)
        assert refused.code == 3 and "run.company" in refused.said
        assert runs(other) == []


def test_two_live_runs_of_one_name_are_a_question(me: Front) -> None:
    first = begin(me, "--on", "g")
    second = begin(me, "--on", "g", "--again", "--alongside")
    asked = me.lease("stop", "toy")
    assert asked.code == 2 and "error[run.ambiguous]" in asked.said
    assert f"{first} (running on g)" in asked.said and f"{second} (running on g)" in asked.said
    assert me.lease("stop", second, "--grace", "5").code == 0
    assert me.lease("stop", "toy", "--grace", "5").code == 0, "now one lives"
    assert {row["state"] for row in status(me)["runs"]} == {"stopped"}


def test_a_name_means_the_live_run_and_not_a_newer_one_that_ended(me: Front) -> None:
    first = begin(me, "--on", "g")
    second = begin(me, "--on", "g", "--again", "--alongside")
    assert me.lease("stop", second, "--grace", "5").code == 0
    assert json.loads(me.lease("show", "toy", "--json").out)["run"] == first


def test_a_run_that_finished_here_does_not_block_the_box(me: Front) -> None:
    finish(me)
    here = me.lease("run", *NO_SMOKE)
    assert here.code == 0, here.said
    far = me.lease("run", "--on", "g", *NO_SMOKE)
    assert far.code == 0, far.said
    assert "finished on local; the same job trains anew here" in far.said
    first, second = sorted(runs(me))
    assert second == f"{first}-1"
    exports = sorted(path.name for path in (me.project / "lease-results" / "export").glob("toy-*"))
    assert exports == [first, second]
    again = me.lease("run", "--on", "g", *NO_SMOKE)
    assert again.code == 0 and "trains anew" not in again.said and len(runs(me)) == 2
    back = me.lease("run", *NO_SMOKE)
    assert back.code == 0 and len(runs(me)) == 2, "what is done here is done"


def test_a_live_run_elsewhere_is_said_precisely(me: Front) -> None:
    run = begin(me)
    refused = me.lease("run", "--on", "g", *NO_SMOKE)
    assert refused.code == 3 and f"{run} is running on local" in refused.said and "--again" in refused.said
    assert me.lease("stop", run, "--grace", "5").code == 0
    stopped = me.lease("run", "--on", "g", *NO_SMOKE)
    assert stopped.code == 3 and f"{run} is stopped on local" in stopped.said
    assert "lease run --on local resumes it" in stopped.said
