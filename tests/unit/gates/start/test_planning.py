"""The plan gate: no plan that passes leaves the only copy where the intended verb deletes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.facts import profiles
from leasehold.facts.profile_parse import parse_profile
from leasehold.gates.start.planning import judge_plan, promised, warnings
from leasehold.lifecycle.preflight.plan_sheet import make_sheet, read_wishes
from leasehold.model.job.job import Artifact, CheckpointFacts, Job
from leasehold.model.platform.placing import copy_tier
from leasehold.model.platform.plan_sheet import PlanSheet, Wishes
from leasehold.model.platform.profile import Profile
from leasehold.model.run.verdict import Outcome, Verdict

ANSWERS = st.sampled_from(["yes", "no", "unknown"])
NOW = 1_794_700_800.0  # 2026-11-15


def job(**change: Any) -> Job:
    """A long job whose checkpoints need not leave the box; tests of that are in test_refuge_contract.py."""
    whole = {"name": "toy", "run": "python t.py", "artifacts": (Artifact("best.pt", "torch"),), "expect_s": 36000.0}
    checkpoint = replace(change.pop("checkpoint", CheckpointFacts()), because="it is cheap")
    return Job(**{**whole, **change, "checkpoint": checkpoint})


def judged(wanted: Job, platform: str | Profile, **wishes: Any) -> Verdict:
    profile = profiles.load(platform) if isinstance(platform, str) else platform
    return judge_plan(wanted, make_sheet("x", wanted, profile, replace(Wishes(), **wishes)))


@st.composite
def platforms(draw: st.DrawFn) -> Profile:
    """Draw a platform with any survival matrix that is not a contradiction, a park and a release."""
    tiers = []
    for name, roles in (("disk", ["state"]), ("scratch", ["scratch"]), ("volume", ["durable"])):
        stop, destroy, zero = draw(ANSWERS), draw(ANSWERS), draw(ANSWERS)
        if "durable" in roles and destroy == "no":
            roles = []
        if destroy == "yes" and stop == "no":
            stop = "unknown"
        survives = {"stop": stop, "destroy": destroy, "balance_zero": zero}
        tiers.append({
            "name": name, "path": f"/{name}", "roles": roles, "survives": survives, "source": "own",
            "optional": draw(st.booleans()),
        })  # fmt: skip
    verbs = [_verb("stop", "park", "stop", True), _verb("terminate", "release", "destroy", False)]
    spot = {"available": draw(st.sampled_from(["yes", "no"])), "effect": draw(st.sampled_from(["stop", "destroy"]))}
    return parse_profile(
        {
            "id": "moon", "title": "a moon base", "landlord": "person", "detach": ["tmux"], "tiers": tiers,
            "verbs": verbs, "clocks": [], "spot": {**spot, "source": "own"}, "environment": {"contract": "none"},
            "network": {}, "sources": {"own": {"url": "docs/x.md", "verified": "2026-11", "confidence": "own"}},
            "traits": {
                "kind": "ssh-rental", "meter_stop_verb": "terminate", "meter_stop_irreversible": "yes",
                "detach_primitive": "tmux", "spot_available": spot["available"], "spot_grace": "none",
                "shared_fs": "no", "inode_cap": "none", "free_egress": "yes", "china_mirror_needed": "no",
                "host_driver_cuda_max": "unknown", "local_nvme": "yes",
            },
        },
        ("moon.yaml",),
    )  # fmt: skip


def _verb(name: str, kind: str, ends: str, reversible: bool) -> dict[str, Any]:
    return {
        "name": name, "kind": kind, "ends": ends, "stops_compute": "yes", "stops_all": "yes", "reversible": reversible,
        "by": "person", "steps": ["do it"], "source": "own",
    }  # fmt: skip


@given(
    platforms(),
    st.sampled_from(["ask", "park"]),
    st.sampled_from(["", "last.pt", "best.pt", "ckpt/step.pt"]),
    st.sampled_from([(), ("last.pt",), ("ckpt/step.pt",)]),
    st.booleans(),
)
def test_no_passing_plan_leaves_the_only_copy_where_the_verb_deletes_it(
    platform: Profile, when_done: str, checkpoint: str, scratch: tuple[str, ...], spot: bool
) -> None:
    wanted = job(when_done=when_done, checkpoint=CheckpointFacts(checkpoint), scratch=scratch)
    sheet = make_sheet("x", wanted, platform, Wishes(spot=spot))
    if judge_plan(wanted, sheet).outcome is Outcome.REFUSED:
        return
    assert sheet.verb is not None
    kept = {tier.name for tier in platform.tiers if tier.survives(sheet.verb.ends) == "yes"} | {"home"}
    paths = [artifact.pattern for artifact in wanted.artifacts]
    paths += [checkpoint] if checkpoint and checkpoint not in scratch else []
    for path in paths:
        where = _copies(wanted, sheet, path)
        assert where, f"{path} has no copy left after {sheet.verb.name}"
        assert set(where) <= kept
    if when_done == "park":
        assert sheet.state.name in sheet.verb.keeps, "a parked run can be resumed"
    if spot:
        assert platform.state_tier.survives(platform.spot.effect) == "yes"


def _copies(job: Job, sheet: PlanSheet, path: str) -> tuple[str, ...]:
    """List every place where a promised path exists when the intended verb is carried out."""
    verb = sheet.verb
    if verb is None:
        return ()
    places = [sheet.state.name] if sheet.survives_verb else []
    if promised(job, path):
        places.append("home")  # the teardown gate opens only for its receipt
        durable = copy_tier(sheet.profile)
        if durable is not None and sheet.durable and durable.name in verb.keeps and not durable.optional:
            places.append(durable.name)
    return tuple(places)


@given(platforms(), st.sampled_from(["ask", "park"]))
def test_a_refusal_says_what_to_do(platform: Profile, when_done: str) -> None:
    wanted = job(when_done=when_done, checkpoint=CheckpointFacts("last.pt"))
    for finding in judge_plan(wanted, make_sheet("x", wanted, platform, Wishes())).against():
        assert finding.hint


def test_a_checkpoint_that_nobody_promised_is_refused_with_both_ways_out() -> None:
    lost = judged(job(checkpoint=CheckpointFacts("last.pt")), "rehearsal")
    assert lost.outcome is Outcome.REFUSED
    assert "'last.pt' is neither promised nor given up" in lost.against()[0].what
    assert (
        lost.against()[0].hint == "add last.pt to artifacts (it comes home first), or to scratch (you accept its loss)"
    )
    assert judged(job(checkpoint=CheckpointFacts("last.pt"), scratch=("last.pt",)), "rehearsal").passed
    both = (Artifact("best.pt", "torch"), Artifact("*.pt", "torch"))
    assert judged(job(checkpoint=CheckpointFacts("last.pt"), artifacts=both), "rehearsal").passed


@pytest.mark.parametrize(
    "pattern, path, covered",
    [
        ("last.pt", "last.pt", True),
        ("*.pt", "last.pt", True),
        ("ckpt/**", "ckpt", True),
        ("ckpt/**", "ckpt/", True),
        ("ckpt/*", "ckpt/a.pt", True),
        ("*.pt", "ckpt/a.pt", False),
        ("best.pt", "last.pt", False),
    ],
)
def test_what_an_artifact_covers(pattern: str, path: str, covered: bool) -> None:
    assert promised(job(artifacts=(Artifact(pattern, "bytes"),)), path) is covered


def test_a_platform_that_cannot_park_says_so() -> None:
    verdict = judged(job(when_done="park"), "rehearsal")
    assert "has no way to park a box" in verdict.against()[0].what
    assert verdict.against()[0].hint == "write when_done: ask"


def test_an_unknown_verb_is_named_with_the_known_ones() -> None:
    verdict = judged(job(), "autodl", verb="explode")
    assert verdict.against()[0].hint == "known: power-off, no-gpu-mode, release"
    assert judged(job(), "autodl", verb="释放").passed, "the button's own words are understood"


def test_a_balance_that_ends_before_the_run_is_refused_for_the_disk() -> None:
    short = judged(job(), "autodl", price="2CNY/h", balance="10CNY")
    assert "the balance lasts 5 h" in short.against()[0].what
    assert short.against()[0].hint == "top up first"
    assert judged(job(), "autodl", price="2CNY/h", balance="100CNY").passed
    other = judged(job(), "autodl", price="2CNY/h", balance="1USD")
    assert other.passed, "no exchange rate is invented, so nothing is concluded"


def test_a_checkpoint_that_takes_longer_than_the_grace_is_warned_of() -> None:
    platform = profiles.load("rehearsal")
    spot = replace(platform.spot, available="yes", grace_s=5.0, effect="stop")
    wanted = job(checkpoint=CheckpointFacts("best.pt", 10**9, 30.0))
    sheet = make_sheet("x", wanted, replace(platform, spot=spot), Wishes(spot=True))
    assert judge_plan(wanted, sheet).passed
    assert any("takes 30 s to write and an eviction leaves 5 s" in line for line in warnings(wanted, sheet, NOW))


def test_money_of_two_currencies_is_never_compared() -> None:
    wanted = job(budget="20USD", checkpoint=CheckpointFacts("best.pt", 10**9))
    sheet = make_sheet("x", wanted, profiles.load("autodl"), read_wishes(price="2CNY/h"))
    assert any("not of one currency" in line for line in warnings(wanted, sheet, NOW))


def test_old_facts_are_said_and_so_are_bills_that_go_on() -> None:
    wanted = job()
    sheet = make_sheet("x", wanted, profiles.load("autodl"), Wishes(verb="release"))
    said = warnings(wanted, sheet, NOW + 400 * 86400)
    assert any(line.startswith("not certain: what `release` stops and deletes: confirmed") for line in said)
    assert "after `release` this still bills: file storage above its free part" in said
