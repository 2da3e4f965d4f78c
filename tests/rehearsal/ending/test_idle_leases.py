"""A priced lease without a live run is named first by every command, with its cost so far."""

from __future__ import annotations

import json

from tests.support.front import Done, Front

PRICE = ("--price", "1.98USD/h")
SKIP = ("--skip-gate", "smoke", "--because", "a test")
IDLE = "! local costs 1.98USD/h, "


def named(done: Done) -> list[str]:
    """List the lines about boxes that bill for nothing; they come before everything else."""
    lines = [line for line in done.said.splitlines() if line.startswith("! ")]
    assert done.said.splitlines()[: len(lines)] == lines
    return lines


def test_after_a_gate_refused_every_command_names_the_lease_once(me: Front) -> None:
    assert me.lease("run", *PRICE).code == 3
    for words in (["status"], ["platforms"], ["box", "list"], ["down"], ["run"], ["check", "audit"]):
        (line,) = named(me.lease(*words))
        assert line.startswith(IDLE) and " USD so far, and no run is live on it: the smoke gate refused toy-" in line
        assert line.endswith("Next: lease run once that is mended, or lease down local-1")


def test_json_stays_pure_and_the_lease_is_named_on_stderr(me: Front) -> None:
    assert me.lease("run", *PRICE).code == 3
    done = me.lease("status", "--json")
    assert json.loads(done.out)["leases"][0]["lease"] == "local-1"
    assert len(named(done)) == 1


def test_the_command_that_ends_the_lease_is_not_told_to_end_it(me: Front) -> None:
    assert me.lease("run", *PRICE).code == 3
    assert named(me.lease("down", "local-1", "--plan")) == []


def test_after_a_run_ended_the_lease_is_named_with_its_whole_cost(me: Front) -> None:
    run = me.lease("run", *PRICE, *SKIP)
    assert run.code == 0, run.said
    (line,) = named(me.lease("status"))
    assert " just finished and local costs 1.98USD/h, " in line and " USD so far. Next: lease down toy-" in line
    (same,) = named(me.lease("status", "--json"))
    assert same.split(" just ")[0] == line.split(" just ")[0]


def test_after_a_failed_run_the_lease_is_named_by_other_commands(me: Front) -> None:
    me.job(run="exit 3")
    assert me.lease("run", *PRICE, *SKIP).code == 6
    (line,) = named(me.lease("status"))
    assert " just failed and local costs 1.98USD/h, " in line
    assert named(me.lease("logs", "toy")) == []  # that is what the line asks for


def test_a_shells_completion_stays_silent(me: Front) -> None:
    assert me.lease("run", *PRICE).code == 3
    assert me.lease("completion", "bash").said == ""


def test_an_unpriced_machine_of_your_own_is_not_named(me: Front) -> None:
    assert me.lease("run").code == 0
    assert named(me.lease("status")) == []
