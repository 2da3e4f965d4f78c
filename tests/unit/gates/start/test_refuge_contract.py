"""A long run, or capacity that is taken away, needs checkpoints that outlive the box, or a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leasehold.facts import profiles
from leasehold.gates.start.planning import judge_plan
from leasehold.gates.start.refuge_contract import judge_refuge
from leasehold.lifecycle.preflight.plan_sheet import make_sheet
from leasehold.model.job.job import Artifact, CheckpointFacts, Job
from leasehold.model.platform.placing import placed
from leasehold.model.platform.plan_sheet import PlanSheet, Wishes
from leasehold.model.run.verdict import Finding, Outcome

HOUR = 3600.0


def sheet_of(wanted: Job, platform: str, **wishes: Any) -> PlanSheet:
    return make_sheet("x", wanted, profiles.load(platform), replace(Wishes(), **wishes))


def job(expect_s: float = 20 * HOUR, path: str = "", **checkpoint: Any) -> Job:
    facts = CheckpointFacts(path, **checkpoint)
    return Job("toy", "python t.py", (Artifact("best.pt", "torch"),), expect_s=expect_s, checkpoint=facts)


def found(wanted: Job, platform: str = "vastai", **wishes: Any) -> Finding | None:
    findings = judge_refuge(wanted, sheet_of(wanted, platform, **wishes))
    assert len(findings) <= 1
    return findings[0] if findings else None


def test_a_long_spot_run_without_checkpoints_is_refused_with_its_cost() -> None:
    wanted = job()
    lost = found(wanted, spot=True, price="2USD/h")
    assert lost is not None and lost.outcome is Outcome.REFUSED
    assert "names no checkpoint" in lost.what and "20 h / 40.00 USD of work is lost" in lost.what
    assert "checkpoint: {because:" in lost.hint
    verdict = judge_plan(wanted, sheet_of(wanted, "vastai", spot=True, price="2USD/h"))
    assert verdict.outcome is Outcome.REFUSED


def test_a_checkpoint_on_the_boxs_own_disk_is_not_enough() -> None:
    lost = found(job(path="last.pt"))
    assert lost is not None and lost.outcome is Outcome.REFUSED
    assert "alone, which goes with the box" in lost.what


def test_a_run_shorter_than_a_cadence_needs_nothing() -> None:
    assert found(job(expect_s=10 * 60)) is None
    assert found(job(expect_s=0.0)) is None, "how long it takes is not known, and nothing takes the box away"


def test_capacity_that_is_taken_away_needs_one_however_short_the_run() -> None:
    lost = found(job(expect_s=60.0), spot=True)
    assert lost is not None and lost.outcome is Outcome.REFUSED
    unknown = found(job(expect_s=0.0), spot=True)
    assert unknown is not None and "all that it has trained by then" in unknown.what


def test_the_cadence_is_the_one_that_pays_for_this_checkpoint() -> None:
    slow = job(expect_s=HOUR, path="last.pt", write_s=600.0)
    assert found(slow) is None, "a checkpoint of ten minutes pays every few hours"
    assert found(job(expect_s=HOUR, path="last.pt", write_s=1.0)) is not None


@pytest.mark.parametrize("refuge", [("s3://bucket/p",), ("durable", "s3://bucket/p"), ("home", "s3://bucket/p")])
def test_an_object_store_outlives_every_box(refuge: tuple[str, ...]) -> None:
    kept = found(job(path="last.pt", refuge=refuge), spot=True)
    assert kept is not None and kept.outcome is Outcome.PASSED and "s3://bucket/p" in kept.what


def test_home_alone_passes_and_says_what_it_is_not() -> None:
    kept = found(job(path="last.pt", refuge=("home",)))
    assert kept is not None and kept.outcome is Outcome.PASSED
    assert "home is no refuge while its machine sleeps" in kept.what


def test_a_durable_tier_that_the_verb_keeps_is_a_refuge_without_a_word() -> None:
    wanted, attached = job(path="last.pt"), placed(profiles.load("autodl"), "", "/root/autodl-fs")
    [kept] = judge_refuge(wanted, make_sheet("x", wanted, attached, Wishes(verb="release")))
    assert kept.outcome is Outcome.PASSED and "file storage" in kept.what
    lost = found(wanted, "autodl", verb="release")
    assert lost is not None and lost.outcome is Outcome.REFUSED, "not every region has it"


def test_without_a_path_no_refuge_counts() -> None:
    lost = found(job(refuge=("s3://bucket/p",)))
    assert lost is not None and lost.outcome is Outcome.REFUSED


def test_no_refuge_at_all_is_refused_even_where_there_is_a_tier() -> None:
    lost = found(job(path="last.pt", refuge=("none",)), "autodl", verb="release")
    assert lost is not None and lost.outcome is Outcome.REFUSED and "refuge: none" in lost.what


def test_a_reason_lets_it_pass_and_is_shown() -> None:
    kept = found(job(because="the data is gone tomorrow"), spot=True)
    assert kept is not None and kept.outcome is Outcome.PASSED and "the data is gone tomorrow" in kept.what


def test_this_machine_is_nobodys_to_take() -> None:
    assert found(job(), "local") is None


def test_a_pattern_of_resume_is_pointed_out() -> None:
    wanted = replace(job(), latest=("checkpoint-*",))
    lost = found(wanted)
    assert lost is not None and "`resume:` names checkpoint-*, is that its checkpoint?" in lost.what
