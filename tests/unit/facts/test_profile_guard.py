"""The stricter of two profiles: a project's file never yields facts, or a verdict, weaker than without it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.facts import profiles
from leasehold.facts.profile_guard import CLOCK, ENVIRONMENT, NEVER, PROFILE, SPOT, TIER, TRAITS, VERB, guard
from leasehold.facts.profiles import Shelf
from leasehold.gates.end.teardown import RunReadings, TeardownReadings, judge_teardown
from leasehold.model.platform.profile import (
    NEVER_OUTCOMES,
    VERB_ENDS,
    VERB_KINDS,
    Clock,
    Environment,
    NeverRule,
    Profile,
    Spot,
    Tier,
    Traits,
    Verb,
)

SURVIVAL = ("no", "unknown", "yes")
ENDS = ("stop", "destroy", "balance_zero")
NOW = 1794000000.0


_TABLES = (
    (Profile, PROFILE), (Traits, TRAITS), (Tier, TIER), (Verb, VERB), (Clock, CLOCK), (Spot, SPOT),
    (Environment, ENVIRONMENT), (NeverRule, NEVER),
)  # fmt: skip


def test_every_field_of_a_profile_has_a_rule() -> None:
    assert [one.name for kind, table in _TABLES for one in fields(kind) if one.name not in table] == []


# ---------------------------------------------------------------- any overlay


def tiers_like(tier: Tier) -> st.SearchStrategy[Tier]:
    return st.builds(
        replace, st.just(tier),
        path=st.sampled_from([tier.path, "/", "/root"]),
        survives_stop=st.sampled_from(SURVIVAL), survives_destroy=st.sampled_from(SURVIVAL),
        survives_balance_zero=st.sampled_from(SURVIVAL), shared=st.booleans(), optional=st.booleans(),
        cap_bytes=st.sampled_from([0, 5, tier.cap_bytes]), rates=st.sampled_from([(), tier.rates]),
    )  # fmt: skip


def verbs_like(verb: Verb) -> st.SearchStrategy[Verb]:
    return st.builds(
        replace, st.just(verb),
        name=st.sampled_from([verb.name, "nothing-really"]),
        kind=st.sampled_from(VERB_KINDS), ends=st.sampled_from(VERB_ENDS), reversible=st.booleans(),
        deletes=st.just(()), by=st.sampled_from([verb.by, "nobody", "simulated"]),
        still_billed=st.sampled_from([(), verb.still_billed, ("air",)]),
    )  # fmt: skip


@st.composite
def corrected(draw: st.DrawFn, base: Profile) -> Profile:
    """Draw a profile as some overlay could leave it: entries changed, renamed or gone."""
    tiers = [draw(tiers_like(tier)) for tier in base.tiers if draw(st.integers(0, 9))] or list(base.tiers)
    verbs = [draw(verbs_like(verb)) for verb in base.verbs if draw(st.integers(0, 9))] or list(base.verbs)
    verbs = list({verb.name: verb for verb in verbs}.values())
    clocks = [replace(one, after_s=draw(st.sampled_from([one.after_s, None, 1e9]))) for one in base.clocks]
    rules = tuple(
        replace(rule, outcome=draw(st.sampled_from(NEVER_OUTCOMES)), unless=draw(st.sampled_from([(), ("x",)])))
        for rule in base.environment.rules
        if draw(st.booleans())
    )
    traits = replace(
        base.traits,
        kind=draw(st.sampled_from([base.traits.kind, "workstation"])),
        meter_stop_verb=draw(st.sampled_from([verb.name for verb in verbs] + ["n/a"])),
    )
    if not any("state" in tier.roles for tier in tiers):
        tiers[0] = replace(tiers[0], roles=("state",))
    return replace(
        base, landlord=draw(st.sampled_from([base.landlord, "simulated", "person"])), traits=traits,
        tiers=tuple(tiers), verbs=tuple(verbs), clocks=tuple(draw(st.permutations(clocks))[: draw(st.integers(0, 9))]),
        environment=replace(base.environment, rules=rules, never=()),
    )  # fmt: skip


def stated(profile: Profile) -> Profile:
    """Leave out what a verb deletes and keeps: that follows from how it ends and from what the tiers survive."""
    return replace(profile, verbs=tuple(replace(verb, deletes=(), keeps=()) for verb in profile.verbs))


def judged(verb: Verb) -> str:
    """Judge the verb on a box with a finished run of which nothing is home, as lifecycle/ending/teardown.py asks."""
    run = RunReadings("r", ("main",), state="finished")
    harmless = verb.kind == "park" and verb.reversible and not verb.deletes
    return judge_teardown(TeardownReadings("l", verb.name, True, (run,), harmless=harmless)).outcome.value


@pytest.mark.parametrize("platform", ["rehearsal", "autodl", "runpod", "local"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_project_never_yields_a_weaker_fact_or_verdict(platform: str, data: st.DataObject) -> None:
    base = profiles.load(platform)
    over = data.draw(corrected(base))
    used, found = guard(base, over)
    assert used.landlord == base.landlord and used.traits.kind == base.traits.kind
    assert (used.verb() or over).name == (base.verb() or over).name  # type: ignore[union-attr]
    assert len([tier for tier in used.tiers if "state" in tier.roles]) >= 1
    for tier in base.tiers:
        mine = used.tier(tier.name)
        assert mine is not None
        assert all(SURVIVAL.index(mine.survives(end)) <= SURVIVAL.index(tier.survives(end)) for end in ENDS)
        assert mine.shared >= tier.shared and set(mine.rates) >= set(tier.rates)
        assert not tier.cap_bytes or 0 < mine.cap_bytes <= tier.cap_bytes
    for verb in base.verbs:
        mine_verb = used.verb(verb.name)
        assert mine_verb is not None
        assert mine_verb.reversible <= verb.reversible and set(mine_verb.deletes) >= set(verb.deletes)
        assert set(mine_verb.still_billed) >= set(verb.still_billed) and mine_verb.by == verb.by
        assert (judged(mine_verb), judged(verb)) != ("passed", "refused")
        assert not set(mine_verb.keeps) & set(mine_verb.deletes)
    for verb in (verb for verb in used.verbs if verb.name not in {one.name for one in base.verbs}):
        assert not verb.reversible and judged(verb) == "refused"
    assert {clock.name for clock in used.clocks} >= {clock.name for clock in base.clocks}
    assert {rule.name for rule in used.environment.rules} >= {rule.name for rule in base.environment.rules}
    if stated(used) != stated(over):
        assert found


def test_a_project_makes_no_park_of_a_verb_that_only_leaves() -> None:
    base = profiles.load("local")
    leave = base.verb("leave")
    assert leave is not None
    used, _ = guard(base, replace(base, verbs=(replace(leave, kind="park", ends="stop"),)))
    mine = used.verb("leave")
    assert mine is not None and mine.kind == "leave"


@pytest.mark.parametrize("platform", ["rehearsal", "autodl", "runpod", "local"])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_verb_that_a_project_relaxes_carries_a_doubt(platform: str, data: st.DataObject) -> None:
    base = profiles.load(platform)
    over = data.draw(corrected(base))
    used, found = guard(base, over)
    used = replace(used, relaxed=tuple(item.at("f:1") for item in found))
    for verb in over.verbs:
        mine = used.verb(verb.name)
        assert mine is not None
        if mine.reversible != verb.reversible or mine.kind != verb.kind or mine.ends != verb.ends:
            assert any("f:1" in doubt for doubt in used.doubts(mine, NOW))


# ---------------------------------------------------------------- files


@pytest.fixture
def shelf(tmp_path: Path) -> Any:
    """Lay files of a project, and of the person's own where told, and return the shelf."""

    def lay(own: dict[str, Any] | None = None, **files: Any) -> Shelf:
        for folder, texts in (("own", own or {}), ("project", files)):
            (tmp_path / folder).mkdir()
            for name, value in texts.items():
                (tmp_path / folder / f"{name}.yaml").write_text(value if isinstance(value, str) else json.dumps(value))
        return Shelf((tmp_path / "own",), (tmp_path / "project",))

    return lay


def test_a_fresh_date_of_a_project_does_not_end_a_doubt(shelf: Any) -> None:
    text = "sources:\n  disks: {url: 'https://example.org', verified: 2099-01, confidence: own}\n"
    later = 4000000000.0
    base, used = profiles.load("autodl"), shelf(autodl=text).load("autodl")
    for verb in base.verbs:
        assert used.doubts(verb, later) == base.doubts(verb, later)


def test_a_new_tier_below_our_folder_survives_nothing_for_certain(shelf: Any) -> None:
    every = {"stop": "yes", "destroy": "yes", "balance_zero": "yes"}
    tier = {"name": "safe", "path": "/root/autodl-tmp", "survives": every, "source": "disks"}
    used = shelf(autodl={"tiers": [tier]}).load("autodl")
    assert used.tier("safe").survives_destroy == "unknown"
    assert all("safe" in verb.deletes for verb in used.verbs if verb.ends != "nothing")
    assert any(fact.key == "tiers[safe].survives.destroy" for fact in used.relaxed)


def test_a_removed_tier_verb_and_rule_stay(shelf: Any) -> None:
    base = profiles.load("autodl")
    gone = {
        "tiers": [tier.name for tier in base.tiers if not tier.roles],
        "clocks": [clock.name for clock in base.clocks],
        "verbs": [verb.name for verb in base.verbs if verb.name != base.traits.meter_stop_verb],
    }
    assert all(gone.values())
    rules = {"remove": {"never": [rule.name for rule in base.environment.rules]}}
    used = shelf(autodl={"remove": gone, "environment": rules}).load("autodl")
    assert {tier.name for tier in used.tiers} == {tier.name for tier in base.tiers}
    assert (used.verbs, set(used.clocks)) == (base.verbs, set(base.clocks))
    assert set(used.environment.rules) == set(base.environment.rules)
    assert {fact.said for fact in used.relaxed} == {"removed"}


def test_tightening_is_taken_without_a_doubt(shelf: Any) -> None:
    rule = {"name": "no tea", "commands": ["make tea"], "outcome": "refuse", "why": "no kettle", "source": "disks"}
    tier = {"name": "data disk", "survives": {"stop": "no"}}
    used = shelf(autodl={"tiers": [tier], "environment": {"never": [rule]}}).load("autodl")
    assert used.relaxed == ()
    assert used.parking is not None and used.parking.deletes == ("data disk",)
    assert "no tea" in {one.name for one in used.environment.rules}


def test_your_own_file_is_the_measure_for_the_project_s(shelf: Any) -> None:
    mine = {"rehearsal": {"tiers": [{"name": "box disk", "survives": {"destroy": "unknown"}}]}}
    used = shelf(mine, rehearsal={"tiers": [{"name": "box disk", "survives": {"destroy": "yes"}}]}).load("rehearsal")
    assert used.tier("box disk").survives_destroy == "unknown"
    assert [fact.key for fact in used.relaxed] == ["tiers[box disk].survives.destroy"]


def test_a_platform_only_the_project_defines_deletes_by_each_of_its_verbs(shelf: Any) -> None:
    park = {
        "name": "nap", "kind": "park", "ends": "stop", "stops_compute": "yes", "stops_all": "yes", "reversible": True,
        "by": "person", "steps": ["click"], "source": "own",
    }  # fmt: skip
    used = shelf(moon={"extends": "rehearsal", "id": "moon", "landlord": "person", "verbs": [park]}).load("moon")
    nap = used.verb("nap")
    assert used.landlord == "person" and used.parking is None
    assert not nap.reversible and nap.deletes == ("box disk",)
    assert any("moon.yaml:1: verbs[nap]" in doubt for doubt in used.doubts(nap, NOW))


def test_a_whole_platform_of_a_project_is_neither_simulated_nor_unmetered(shelf: Any) -> None:
    text = Path(profiles.__file__).with_name("profiles").joinpath("rehearsal.yaml").read_text("utf-8")
    used = shelf(moon=text.replace("id: rehearsal", "id: moon")).load("moon")
    assert used.landlord == "person" and used.bills
    assert used.state_tier.survives_stop == "unknown"


def test_signs_of_a_known_platform_are_not_the_project_s(shelf: Any) -> None:
    sign = {"name": "any", "host": "*.example.org", "source": "own"}
    found = {one.platform: one.signs for one in shelf(rehearsal={"signs": [sign]}).signs()}
    assert found["rehearsal"] == ()
