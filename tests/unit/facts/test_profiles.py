"""Profiles: a fact without its parts does not load, whatever part is missing or wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold.errors import HomeError, UserError
from leasehold.facts import profiles

NAMES = profiles.names()


_FOLDER = resources.files("leasehold.facts").joinpath("profiles")
SHIPPED: dict[str, dict[str, Any]] = {
    name: yaml.safe_load(_FOLDER.joinpath(f"{name}.yaml").read_text("utf-8")) for name in NAMES
}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Pretend that these are the profiles this package came with."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    monkeypatch.setattr(profiles.resources, "files", lambda package: tmp_path)

    def install(name: str, content: object) -> None:
        text = content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True)
        (folder / f"{name}.yaml").write_text(text, "utf-8")

    return install


def refusal(name: str) -> HomeError:
    with pytest.raises(HomeError) as caught:
        profiles.load(name)
    assert caught.value.code == "platform.damaged"
    assert f"{name}.yaml" in caught.value.message
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_every_profile_that_ships_loads(name):
    profile = profiles.load(name)
    assert profile.id == name
    assert profile.verb() is profile.verbs[0]
    assert "state" in profile.state_tier.roles
    for verb in profile.verbs:
        assert profile.verb(verb.name) is verb
        assert verb.steps, "a person can be told what to do"
        assert verb.source.url and verb.source.verified


@pytest.mark.parametrize("name", NAMES)
def test_steps_name_only_what_can_be_filled_in(name):
    for verb in profiles.load(name).verbs:
        for step in verb.steps:
            step.format(box="b", lease="l", root="r")


def test_an_unknown_platform_is_named_with_the_known_ones():
    with pytest.raises(UserError) as caught:
        profiles.load("nowhere")
    assert caught.value.code == "platform.unknown"
    assert "generic-ssh" in caught.value.hint


@pytest.mark.parametrize("name", ["../profiles/local", "local.yaml", "", "LOCAL", "local\0"])
def test_a_name_is_no_path(name):
    with pytest.raises(UserError):
        profiles.load(name)


def parts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key of every mapping in a profile, with the way to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from parts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from parts(inner, (*path, index))


def changed(name: str, path: tuple[Any, ...], value: Any = ...) -> dict[str, Any]:
    whole = copy.deepcopy(SHIPPED[name])
    place = whole
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return whole


EVERY_PART = [(name, path) for name in NAMES for path in parts(SHIPPED[name])]
REHEARSAL_PARTS = list(parts(SHIPPED["rehearsal"]))


@pytest.mark.parametrize(
    "name, path", EVERY_PART, ids=[f"{name}:{'.'.join(map(str, path))}" for name, path in EVERY_PART]
)
def test_a_profile_that_lacks_any_part_is_refused(installed, name, path):
    installed(name, changed(name, path))
    refusal(name)


@pytest.mark.parametrize("wrong", [None, 7, {"a": 1}, [1]], ids=["nothing", "number", "mapping", "list of numbers"])
@pytest.mark.parametrize("path", REHEARSAL_PARTS, ids=[".".join(map(str, path)) for path in REHEARSAL_PARTS])
def test_a_part_of_the_wrong_kind_is_refused(installed, path, wrong):
    installed("rehearsal", changed("rehearsal", path, wrong))
    refusal("rehearsal")


@pytest.mark.parametrize(
    "path, wrong",
    [
        (("id",), "another"),
        (("detach",), "setsid"),
        (("detach",), []),
        (("clocks",), "none"),
        (("tiers",), []),
        (("tiers",), "box disk"),
        (("tiers", 0, "roles"), ["scratch"]),
        (("tiers", 0, "roles"), "state"),
        (("tiers", 0, "survives_stop"), True),
        (("tiers", 0, "survives_stop"), "maybe"),
        (("tiers", 0, "survives_destroy"), ""),
        (("tiers", 0, "survives_balance_zero"), "No"),
        (("verbs",), []),
        (("verbs",), "terminate"),
        (("verbs", 0, "reversible"), "no"),
        (("verbs", 0, "reversible"), "false"),
        (("verbs", 0, "reversible"), 0),
        (("verbs", 0, "deletes"), ["another disk"]),
        (("verbs", 0, "deletes"), "box disk"),
        (("verbs", 0, "keeps"), ["another disk"]),
        (("verbs", 0, "steps"), "stop it"),
        (("verbs", 0, "stops_all"), True),
        (("verbs", 0, "source", "confidence"), "hearsay"),
        (("verbs", 0, "source", "verified"), ""),
        (("verbs", 0, "source", "verified"), "last year"),
        (("verbs", 0, "source", "verified"), "2026-13"),
        (("verbs", 0, "source", "url"), ""),
        (("verbs", 0, "source", "author"), "me"),
    ],
    ids=str,
)
def test_a_fact_that_means_something_else_is_refused(installed, path, wrong):
    """`reversible: "no"` is a text, and a text is true: an irreversible verb would pass for a reversible one."""
    installed("rehearsal", changed("rehearsal", path, wrong))
    refusal("rehearsal")


NO_PROFILES = {
    "empty": "",
    "cut": "[",
    "two colons": "a: b: c",
    "a list": "- a",
    "a number": "7",
    "a tab": "\t",
    "an impossible date": "id: 2024-99-99",
    "too deep": "[" * 2000,
}


@pytest.mark.parametrize("text", list(NO_PROFILES.values()), ids=list(NO_PROFILES))
def test_a_file_that_is_no_profile_is_refused(installed, text):
    installed("rehearsal", text)
    refusal("rehearsal")


def test_a_profile_that_was_installed_is_listed_and_loaded(installed, tmp_path: Path):
    installed("moon", changed("rehearsal", ("id",), "moon"))
    (tmp_path / "profiles" / "notes.txt").write_text("not a profile")
    assert profiles.names() == ["moon"]
    assert profiles.load("moon").id == "moon"
