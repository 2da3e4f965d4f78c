"""A metered box takes no job without a smoke, unless a person says why; the reason is recorded."""

from __future__ import annotations

import json

import pytest

from tests.support.front import Front

SMOKE = "python3 -I -S train.py"
SKIP = ("--skip-gate", "smoke", "--because", "the loader needs the card")


def test_a_job_without_a_smoke_is_refused_where_a_price_is_known(me: Front) -> None:
    done = me.lease("run", "--price", "1.98USD/h")
    assert done.code == 3, done.said
    assert "error[smoke.refused]: the smoke gate refused; nothing was launched" in done.said
    assert "seen: the job toy has no `smoke`, and local bills: 1.98USD/h" in done.said
    assert "smoke: python train.py --steps 3" in done.said and "--skip-gate smoke --because" in done.said
    assert me.runs_on_box() == []
    assert me.gates() == {"plan": "passed", "smoke": "refused"}


def test_json_says_the_refusal_too(me: Front) -> None:
    done = me.lease("run", "--price", "1.98USD/h", "--json")
    assert done.code == 3, done.said
    assert json.loads(done.out)["error"]["code"] == "smoke.refused"


def test_a_reason_passes_it_by_and_is_recorded(me: Front) -> None:
    done = me.lease("run", "--price", "1.98USD/h", *SKIP)
    assert done.code == 0, done.said
    assert "gate smoke was skipped because: the loader needs the card" in done.said
    (judged,) = [event for event in me.events("gate_judged") if event["gate"] == "smoke"]
    assert judged["skipped"] is True and judged["because"] == "the loader needs the card"
    assert judged["outcome"] == "refused" and judged["run"].startswith("toy-")


def test_a_skip_without_a_reason_is_refused(me: Front) -> None:
    done = me.lease("run", "--price", "1.98USD/h", "--skip-gate", "smoke")
    assert done.code == 2 and "a skipped gate needs a reason" in done.said


def test_a_smoke_that_passes_is_enough(me: Front) -> None:
    me.job(smoke=SMOKE)
    done = me.lease("run", "--price", "1.98USD/h")
    assert done.code == 0, done.said


def test_a_price_that_was_told_before_counts(me: Front) -> None:
    assert me.lease("run", "--price", "1.98USD/h").code == 3
    done = me.lease("run")
    assert done.code == 3 and "local bills: 1.98USD/h" in done.said


def test_a_run_that_is_there_already_is_attached_to_as_ever(me: Front) -> None:
    assert me.lease("run", "--price", "1.98USD/h", *SKIP).code == 0
    done = me.lease("run", "--price", "1.98USD/h")
    assert done.code == 0, done.said


def test_a_sweep_is_refused_too(me: Front) -> None:
    me.job(cells={"grid": {"lr": [1, 2]}}, run="python3 -I -S train.py {lr}")
    done = me.lease("run", "--price", "1.98USD/h")
    assert done.code == 3 and "has no `smoke`, and local bills" in done.said, done.said
    assert me.runs_on_box() == []


@pytest.mark.parametrize("words", [(), ("--rehearse",), ("--rehearse", "--price", "2USD/h")])
def test_what_is_not_billed_needs_no_smoke(me: Front, words: tuple[str, ...]) -> None:
    done = me.lease("run", *words)
    assert done.code == 0, done.said
