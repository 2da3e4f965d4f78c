"""Whether a shared disk is one disk: what each sight of the note means, and when nobody looking matters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leasehold.facts import profiles
from leasehold.gates.start.sharing import SharedReading, Sight, judge_sharing, relied_on
from leasehold.model.platform.profile import Profile
from leasehold.model.run.verdict import Finding, Outcome
from tests.support.platforms import platform, volume

PATH = "/shared"
ATTACHED: tuple[dict[str, Any], ...] = ({"path": PATH, "exists": True},)


def rental(ends: str = "destroy", **change: Any) -> Profile:
    """A platform with a shared volume, whose verb that ends the meter has this end."""
    whole = platform(volume(PATH, **{"shared": True, "scope": "one region", **change}))
    (verb, *_) = whole.verbs
    first = replace(verb, name="end-it", ends=ends)
    state = replace(whole.state_tier, survives_stop="yes", survives_destroy="no")
    traits = replace(whole.traits, meter_stop_verb="end-it")
    return replace(whole, verbs=(first,), traits=traits, tiers=(state, *whole.tiers[1:]))


def judged(sight: Sight, **change: Any) -> Finding:
    """Judge one sight."""
    (finding,) = judge_sharing(rental(), (SharedReading(PATH, "one", "two", sight, **change),), ATTACHED)
    return finding


@pytest.mark.parametrize(
    ("sight", "outcome"),
    [
        (Sight.SAME, Outcome.PASSED),
        (Sight.ABSENT, Outcome.REFUSED),
        (Sight.DIFFERS, Outcome.REFUSED),
        (Sight.UNWRITTEN, Outcome.REFUSED),
        (Sight.UNREACHABLE, Outcome.UNKNOWN),
        (Sight.SAME_MACHINE, Outcome.UNKNOWN),
    ],
)
def test_each_sight_has_its_outcome_and_names_the_boxes_it_is_about(sight: Sight, outcome: Outcome) -> None:
    finding = judged(sight)
    assert finding.outcome is outcome
    assert "/shared (volume)" in finding.what
    assert "one" in finding.what or "two" in finding.what
    assert bool(finding.hint) is (outcome is not Outcome.PASSED)


def test_an_unseen_note_asks_for_the_region_or_for_the_mount() -> None:
    assert "same region? (one region)" in judged(Sight.ABSENT).hint
    assert "attach the volume to two" in judged(Sight.ABSENT, mounted_there=False).hint


def test_what_was_seen_is_told() -> None:
    assert judged(Sight.UNREACHABLE, detail="nothing listens").what.endswith("could not be asked: nothing listens")


def test_unasked_it_is_unknown_where_the_plan_rests_on_it() -> None:
    (finding,) = judge_sharing(rental(), (), ATTACHED)
    assert finding.outcome is Outcome.UNKNOWN
    assert "`end-it`" in finding.what
    assert "--with" in finding.hint


@pytest.mark.parametrize(
    ("profile", "disks"),
    [
        (rental(ends="stop"), ATTACHED),  # the box keeps its own disk
        (rental(roles=("scratch",)), ATTACHED),  # nothing durable is put there
        (rental(shared=False), ATTACHED),
        (rental(), ()),  # not attached: results come home without it
        (platform(), ATTACHED),
    ],
    ids=["parked", "scratch", "own", "detached", "none"],
)
def test_unasked_nothing_is_said_where_nothing_rests_on_it(profile: Profile, disks: tuple[dict[str, Any], ...]) -> None:
    assert judge_sharing(profile, (), disks) == []


def test_autodl_keeps_its_disks_so_plans_do_not_rely_on_the_shared_one() -> None:
    autodl = profiles.load("autodl")
    assert autodl.durable_tier is not None and autodl.durable_tier.shared
    assert relied_on(autodl) is None
