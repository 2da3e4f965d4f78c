"""Landlords that other packages bring, installed as real distributions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leasehold.errors import HomeError, UserError
from leasehold.facts import profiles
from leasehold.facts.profiles import Shelf
from leasehold.lifecycle.ending.parking import landlord_of
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.preflight.plan_sheet import make_sheet
from leasehold.model.job.job import Artifact, Job
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.plan_sheet import Wishes
from leasehold.platforms.catalog import landlord_named
from leasehold.platforms.contract import BoxState

LEASE = Lease("moon-1", "gpu1", "moon", "", 0.0)
ADAPTER = """
from leasehold.platforms.contract import BoxState
class MoonLandlord:
    simulated = False
    def __init__(self, lease): self.acts = []
    def act(self, lease, verb): self.acts.append(verb.name); return BoxState.GONE
    def poll(self, lease): return BoxState.HELD
def no_landlord(lease): return object()
def breaks(lease): raise RuntimeError("no key")
"""
OVERLAY = """
extends: rehearsal
id: moon
title: a moon base
landlord: moon
verbs:
  - {name: terminate, by: api, steps: [the adapter ends it]}
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package with three landlords, one of them good."""
    site = tmp_path / "site"
    info = site / "moonbase-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "moonbase.py").write_text(ADAPTER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moonbase\nVersion: 1.0\n")
    points = "moon = moonbase:MoonLandlord\nhollow = moonbase:no_landlord\nbroken = moonbase:breaks\n"
    (info / "entry_points.txt").write_text("[leasehold.landlords]\n" + points)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.delitem(sys.modules, "moonbase", raising=False)
    return tmp_path


def test_a_profile_with_an_api_verb_acts_through_the_adapter(installed: Path) -> None:
    folder = installed / "config" / "profiles"
    folder.mkdir(parents=True)
    (folder / "moon.yaml").write_text(OVERLAY)
    home = Home(installed / "home", installed / "config")
    verb = Shelf((folder,)).load("moon").verb()
    assert verb is not None
    landlord = landlord_of(home, LEASE, verb)
    assert landlord.act(LEASE, verb) is BoxState.GONE
    assert landlord.poll(LEASE) is BoxState.HELD
    home.ledger.close()


def test_an_adapter_that_is_not_installed_is_named_with_those_that_are(installed: Path) -> None:
    with pytest.raises(UserError) as caught:
        landlord_named("venus", LEASE)
    assert caught.value.code == "landlord.missing"
    assert "moon" in caught.value.hint


@pytest.mark.parametrize("name, why", [("hollow", "has no attribute"), ("broken", "no key")])
def test_an_adapter_that_is_none_is_named_with_its_package(installed: Path, name: str, why: str) -> None:
    with pytest.raises(HomeError) as caught:
        landlord_named(name, LEASE)
    assert "of moonbase" in caught.value.message and why in caught.value.message


def test_a_verb_by_api_needs_a_landlord_that_has_one(tmp_path: Path) -> None:
    (tmp_path / "moon.yaml").write_text(OVERLAY.replace("landlord: moon\n", "landlord: person\n"))
    with pytest.raises(UserError) as caught:
        Shelf((tmp_path,)).load("moon")
    assert "by: api needs a landlord" in caught.value.message


@pytest.mark.parametrize("platform", profiles.names())
def test_every_verb_can_be_reached_by_its_own_and_its_native_name(platform: str) -> None:
    profile = profiles.load(platform)
    job = Job("toy", "true", (Artifact("a", "bytes"),))
    for verb in profile.verbs:
        for word in filter(None, (verb.name, verb.native)):
            assert make_sheet("x", job, profile, Wishes(verb=word)).verb is verb
        assert set(verb.deletes) | set(verb.keeps) == {tier.name for tier in profile.tiers}
