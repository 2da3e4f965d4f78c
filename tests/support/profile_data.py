"""Profiles as plain data, for tests that change one part and see what happens."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from importlib import resources
from typing import Any

from leasehold.facts.fact_yaml import read_facts
from leasehold.facts.profiles import names

Way = tuple[Any, ...]


def shipped() -> dict[str, dict[str, Any]]:
    """Read every profile that ships, as written."""
    folder = resources.files("leasehold.facts").joinpath("profiles")
    return {name: read_facts(folder.joinpath(f"{name}.yaml").read_text("utf-8")) for name in names()}


def parts(value: Any, path: Way = ()) -> Iterator[Way]:
    """List every key of every mapping, with the way to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from parts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from parts(inner, (*path, index))


def changed(whole: dict[str, Any], path: Way, value: Any = ...) -> dict[str, Any]:
    """Return a copy with one part replaced, or taken out."""
    result = copy.deepcopy(whole)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return result
