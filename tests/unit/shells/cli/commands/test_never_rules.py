"""Commands that a platform's profile forbids: `lease plan`, `lease check plan` and `lease run` refuse them or warn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import Front, front

_REFUSED = 3


@pytest.fixture
def person(tmp_path: Path):
    with front(tmp_path) as one:
        one.write("train.py", "import json, os\njson.dump({}, open(os.environ['LEASE_OUT'] + '/result.json', 'w'))\n")
        yield one


def own_rule(person: Front, outcome: str) -> None:
    """Add a rule to this machine's own profile, as a project may."""
    rule = {
        "name": "no tea",
        "commands": ["make tea"],
        "outcome": outcome,
        "why": "the kettle is broken",
        "source": "own",
    }
    person.write(".leasehold/profiles/local.yaml", json.dumps({"environment": {"never": [rule]}}))


@pytest.mark.parametrize("platform", ["autodl", "autodl-pro"])
def test_plan_refuses_a_second_environment_on_autodl(person: Front, platform: str) -> None:
    person.job(setup="conda create -n mine python=3.10")
    done = person.lease("plan", "--on", platform)
    assert done.code == _REFUSED
    assert (
        f"setup: `conda create -n mine python=3.10` is against environment.never[conda create] of {platform}"
        in done.out
    )
    assert "https://www.autodl.com/docs/env/, 2026-10" in done.out


def test_plan_refuses_a_shutdown_by_the_job_in_every_command(person: Front) -> None:
    person.job(**dict.fromkeys(("setup", "run", "evaluate"), "python3 train.py; sudo /sbin/shutdown -h now"))
    done = person.lease("plan", "--on", "autodl", "--on", "lambda", "--on", "generic-ssh")
    assert done.code == _REFUSED, done.out
    for platform in ("autodl", "lambda", "generic-ssh"):
        for key in ("setup", "run", "evaluate"):
            said = (
                f"NO {platform}: {key}: `/sbin/shutdown -h now` is against environment.never[shutdown, poweroff or halt"
            )
            assert said in done.said


def test_plan_passes_where_the_words_are_only_mentioned(person: Front) -> None:
    person.job(setup="echo conda create; pip install -r shutdown.txt", run="python3 shutdown_test.py --halt")
    done = person.lease("plan", "--on", "autodl", "--json")
    assert done.code == 0
    assert "environment.never" not in done.out


def test_plan_warns_where_the_entry_only_advises(person: Front) -> None:
    person.job(setup="python3 -m pip install 'torch==2.1'")
    done = person.lease("plan", "--on", "lambda", "--json")
    assert done.code == 0
    warnings: list[Any] = json.loads(done.out)["plans"][0]["warnings"]
    assert any(
        "setup: `pip install torch==2.1` is against environment.never[pip install torch" in one for one in warnings
    )


def test_a_parameter_of_a_cell_is_read_as_the_command_it_becomes(person: Front) -> None:
    cells = [{"last": "true"}, {"last": "shutdown now"}]
    person.job(run='python3 train.py; sh -c "{{last}}"', cells=cells)
    done = person.lease("plan", "--on", "autodl")
    assert done.code == _REFUSED, done.out + done.said
    assert "run of cell last-shutdown-now: `shutdown now`" in done.out


@pytest.mark.parametrize("words", [["plan"], ["check", "plan"], ["run", "--detach"]])
def test_plan_check_and_run_refuse_a_rule_of_the_project_alike(person: Front, words: list[str]) -> None:
    own_rule(person, "refuse")
    person.job(run="make tea && python3 -I -S train.py")
    done = person.lease(*words)
    assert done.code == _REFUSED, done.out + done.said
    assert "run: `make tea` is against environment.never[no tea] of local: the kettle is broken" in done.out + done.said
    assert not person.runs_on_box()


@pytest.mark.parametrize("words", [["plan"], ["check", "plan"], ["run", "--detach"]])
def test_plan_check_and_run_warn_of_a_rule_alike(person: Front, words: list[str]) -> None:
    own_rule(person, "warn")
    person.job(setup="true; false && make tea || true")
    done = person.lease(*words)
    assert done.code == 0, done.out + done.said
    said = done.out + done.said
    assert said.count("setup: `make tea` is against environment.never[no tea] of local: the kettle is broken") == 1


def test_the_refusal_cannot_be_skipped(person: Front) -> None:
    own_rule(person, "refuse")
    person.job(run="make tea")
    done = person.lease("run", "--detach", "--skip-gate", "plan", "--because", "I like tea")
    assert done.code != 0
    assert "cannot be skipped" in done.said


def test_the_smoke_is_held_against_the_rules_of_this_machine(person: Front) -> None:
    own_rule(person, "warn")
    person.job(smoke="true || make tea; python3 -I -S train.py")
    done = person.lease("check", "smoke")
    assert done.code == 0
    assert "smoke: `make tea` is against environment.never[no tea] of local" in done.out + done.said
    own_rule(person, "refuse")
    for words in (["check", "smoke"], ["run", "--detach"]):
        done = person.lease(*words)
        assert done.code == _REFUSED
        assert "smoke: `make tea` is against environment.never[no tea] of local" in done.out + done.said


def test_platforms_show_prints_the_rules(person: Front) -> None:
    done = person.lease("platforms", "show", "autodl")
    assert "never\n  conda create (refused in a job's commands)" in done.out
    assert "  a bare python3 in polls\n" in done.out
