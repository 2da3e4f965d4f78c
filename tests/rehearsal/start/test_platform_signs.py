"""A priced run on a box that shows another platform's signs is refused; an unpriced one is warned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.front import Done, Front, front

pytestmark = pytest.mark.full  # each of these is several processes

LAB = """
extends: generic-ssh
id: {name}
title: {name} servers
sources:
  wiki: {{url: "https://wiki.example.org", verified: 2026-11, confidence: own}}
signs:
{signs}"""
FILE = "  - {{name: {name}, file: {path}, presence: {presence}, source: wiki}}\n"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person with a job that writes one file."""
    with front(tmp_path / "me", {"LEASEHOLD_CONFIG": str(tmp_path / "config")}) as person:
        person.job(run="echo {} > $LEASE_OUT/result.json", smoke="echo {} > $LEASE_OUT/result.json")
        yield person


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., Path]:
    """Write a profile whose boxes are recognised by a file; return that file's place."""

    def write(name: str, presence: str = "sometimes") -> Path:
        place = tmp_path / f"sign-of-{name}"
        folder = tmp_path / "config" / "profiles"
        folder.mkdir(parents=True, exist_ok=True)
        signs = FILE.format(name="mark", path=place, presence=presence)
        (folder / f"{name}.yaml").write_text(LAB.format(name=name, signs=signs))
        return place

    return write


def good(done: Done) -> str:
    assert done.code == 0, done.said
    return done.said


def test_a_priced_run_is_refused_where_signs_contradict_the_platform(me: Front, lab: Callable[..., Path]) -> None:
    lab("one")
    other = lab("two")
    other.touch()
    good(me.lease("box", "add", "gpu1", "local", "--platform", "one", "--price", "2USD/h"))
    done = me.lease("run", "--on", "gpu1")
    assert done.code == 3
    assert "the audit gate refused" in done.said and f"{other} exists, as on two" in done.said
    assert "lease box add gpu1 --replace --platform two" in done.said
    assert not me.runs_on_box()
    good(me.lease("box", "add", "gpu1", "--replace", "--platform", "two"))
    assert f"platform two: {other} exists" in good(me.lease("check", "audit", "--on", "gpu1"))
    good(me.lease("run", "--on", "gpu1"))
    assert len(me.events("lease_opened")) == 1, "the lease of the refused launch followed the box"


def test_a_run_without_a_price_is_warned(me: Front, lab: Callable[..., Path]) -> None:
    lab("one")
    lab("two").touch()
    good(me.lease("box", "add", "gpu1", "local", "--platform", "one"))
    assert "its signs contradict that" in good(me.lease("run", "--on", "gpu1"))


@pytest.mark.parametrize("presence", ["sometimes", "always"])
def test_only_a_sign_that_is_always_there_contradicts_by_absence(
    me: Front, lab: Callable[..., Path], presence: str
) -> None:
    place = lab("one", presence)
    good(me.lease("box", "add", "gpu1", "local", "--platform", "one", "--price", "2USD/h"))
    done = me.lease("run", "--on", "gpu1")
    assert done.code == (3 if presence == "always" else 0), done.said
    assert (f"{place} does not exist" in done.said) == (presence == "always")


def test_a_sign_that_is_never_there_contradicts_by_presence(me: Front, lab: Callable[..., Path]) -> None:
    lab("one", "never").touch()
    good(me.lease("box", "add", "gpu1", "local", "--platform", "one", "--price", "2USD/h"))
    assert me.lease("run", "--on", "gpu1").code == 3


def test_a_person_may_choose_the_platform_that_claims_nothing(me: Front, lab: Callable[..., Path]) -> None:
    other = lab("two")
    other.touch()
    good(me.lease("box", "add", "gpu1", "local", "--platform", "generic-ssh", "--price", "2USD/h"))
    good(me.lease("run", "--on", "gpu1"))
    audit = good(me.lease("check", "audit", "--on", "gpu1"))
    assert f"chosen by you, although {other} exists" in audit


def test_a_refusal_can_be_skipped_with_a_reason(me: Front, lab: Callable[..., Path]) -> None:
    lab("one")
    lab("two").touch()
    good(me.lease("box", "add", "gpu1", "local", "--platform", "one", "--price", "2USD/h"))
    said = good(me.lease("run", "--on", "gpu1", "--skip-gate", "audit", "--because", "it moved last week"))
    assert "gate audit was skipped because: it moved last week" in said


def test_a_damaged_profile_of_another_platform_stops_nobody(
    me: Front, lab: Callable[..., Path], tmp_path: Path
) -> None:
    lab("one")
    (tmp_path / "config" / "profiles" / "broken.yaml").write_text("signs: [")
    good(me.lease("box", "add", "gpu1", "local", "--platform", "one", "--price", "2USD/h"))
    good(me.lease("run", "--on", "gpu1"))
