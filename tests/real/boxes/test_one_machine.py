"""One machine under two names, or with two folders of ours: what ends it ends everything, and it has one meter."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, ONE_SYSTEM, Front, front
from tests.support.screens import Session

pytestmark = pytest.mark.real_ssh

_TRAIN = "import os\nprint('step 1', flush=True)\nopen(os.environ['LEASE_OUT'] + '/result.json', 'w').write('{}')\n"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path) as bed:
        config = bed.box.config.read_text()
        (bed.box.config).write_text(config + "\n" + config.replace("Host box\n", "Host twin\n", 1))
        yield bed


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    with somebody(tmp_path / "me", bed) as person:
        yield person


def somebody(folder: Path, bed: SshBed) -> contextlib.AbstractContextManager[Front]:
    return front(folder, bed.environment)


def run(me: Front, name: str, *words: str) -> str:
    """Run a job of this name to its end; return its id."""
    me.write("train.py", _TRAIN)
    me.job(name=name)
    done = me.lease("run", *words, *NO_SMOKE, "--json")
    assert done.code == 0, done.said
    return str(json.loads(done.out)["run"])


def leases(me: Front, *words: str) -> list[dict[str, Any]]:
    return list(json.loads(me.lease("status", *words, "--json").out)["leases"])


def meter_of(me: Front, name: str) -> dict[str, Any]:
    (one,) = leases(me, name)
    return one


def objections(me: Front, word: str) -> str:
    """What the gate of `lease down` has against it."""
    plan = me.lease("down", word, "--plan", "--json", *ONE_SYSTEM)
    gate = json.loads(plan.out)["gate"]
    assert gate["outcome"] != "passed", gate
    return "\n".join(f"{one['what']} -> {one['hint']}" for one in gate["findings"] if one["outcome"] != "passed")


def detached(me: Front, name: str, *words: str) -> str:
    """Start a job of this name and leave it; nothing of it comes home."""
    me.write("train.py", _TRAIN)
    me.job(name=name)
    done = me.lease("run", "--detach", *words, *NO_SMOKE, "--json")
    assert done.code == 0, done.said
    return str(json.loads(done.out)["run"])


@pytest.mark.parametrize("other", [("--on", "ssh:twin"), ("--on", "ssh:box"), ("--on", "ssh:twin", "--root", "~/b")])
def test_a_run_under_another_name_or_root_keeps_the_machine(me: Front, bed: SshBed, other: tuple[str, ...]) -> None:
    unpulled = detached(me, "first", "--on", "ssh:box", "--root", "~/first")
    home = run(me, "second", *other)
    lease = meter_of(me, "second")["lease"]
    assert f"{unpulled}/main: no receipt and no waiver" in objections(me, lease)
    assert me.lease("pull", unpulled).code == 0
    passed = json.loads(me.lease("down", lease, "--plan", "--json", *ONE_SYSTEM).out)
    assert passed["gate"]["outcome"] == "passed", passed
    said = json.dumps(passed["gate"])
    assert unpulled in said and home in said


def test_a_run_of_another_home_under_another_root_keeps_the_machine(tmp_path: Path, me: Front, bed: SshBed) -> None:
    with somebody(tmp_path / "you", bed) as you:
        theirs = detached(you, "theirs", "--on", "ssh:twin", "--root", "~/theirs")
        run(me, "mine", "--on", "ssh:box")
        said = objections(me, "mine")
        assert f"run {theirs} lies in {bed.box.home}/theirs on this same machine, unknown to this home" in said
        assert f"lease attach {theirs} --on ssh:box --root {bed.box.home}/theirs" in said
        attached = me.lease("attach", theirs, "--on", "ssh:box", "--root", f"{bed.box.home}/theirs")
        assert attached.code == 0, attached.said


def test_one_machine_is_counted_once_and_closed_once(me: Front, bed: SshBed) -> None:
    run(me, "first", "--on", "ssh:box", "--price", "2USD/h")
    run(me, "second", "--on", "ssh:twin", "--root", "~/b", "--price", "2USD/h")
    one, two = meter_of(me, "first"), meter_of(me, "second")
    assert two["counted_by"] == one["lease"] and "counted_by" not in one
    assert one["burn_per_hour"] == {"USD": "2.0000"}
    assert not any(float(amount) for amount in two["burn_per_hour"].values())
    assert not any(float(amount) for amount in two["cost"].values())
    assert f"the same machine as {one['lease']}, which counts the meter of both" in me.lease("status").out
    bed.box.stop()
    Session(me, "unused").type(f"lease down {one['lease']} --stopped", ("type exactly", f"stopped {one['lease']}"))
    assert leases(me) == []


def test_two_machines_stay_two(tmp_path: Path, me: Front, bed: SshBed) -> None:
    """Two doors with other host keys on one kernel: nothing proves them one machine, so both meters count."""
    with ssh_bed(tmp_path / "second") as second:
        run(me, "first", "--on", "ssh:box", "--price", "2USD/h")
        me.environment.update(second.environment)
        me.write("train.py", _TRAIN)
        me.job(name="second")
        done = me.lease("run", "--on", f"ssh:{second.box.user}@box", "--price", "2USD/h", *NO_SMOKE)
        assert done.code == 0, done.said
        assert [one.get("counted_by") for one in leases(me)] == [None, None]


def test_a_machine_that_answers_under_its_other_name_is_not_stopped(me: Front, bed: SshBed) -> None:
    run(me, "first", "--on", "ssh:box", "--price", "2USD/h")
    run(me, "second", "--on", "ssh:twin", "--root", "~/b", "--price", "2USD/h")
    one, two = meter_of(me, "first")["lease"], meter_of(me, "second")["lease"]
    config = bed.box.config.read_text()
    bed.box.config.write_text(config.replace("Host box\n", "Host box\n    Port 1\n", 1))
    for held in (one, two):
        refused = me.lease("down", held, "--stopped")
        assert refused.code == 3, refused.said
        assert "error[lease.answers]" in refused.said and "ssh:twin still answers" in refused.said, refused.said
    assert {lease["lease"] for lease in leases(me)} == {one, two}
