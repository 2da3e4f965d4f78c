"""YAML for facts: `yes` and `no` are words, not booleans; dates and octal numbers are texts."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache, lru_cache
from typing import Any

from .bounded_yaml import load

_MAX_DEPTH = 12


def read_facts(text: str) -> Any:
    """Load one document of plain facts; ValueError says what is wrong and where."""
    return deepcopy(_read(text))


@lru_cache(maxsize=64)  # twenty boxes of one platform are launched with the same few files
def _read(text: str) -> Any:
    return load(text, _MAX_DEPTH, _loader())


@cache
def _loader() -> Any:
    import yaml

    class FactLoader(yaml.SafeLoader):
        """A SafeLoader that resolves null, true, false, and decimal numbers, and nothing else."""

        yaml_implicit_resolvers: dict[str, Any] = {}

    for tag, pattern, first in (
        ("null", r"(?:null|~|)\Z", ["n", "~", ""]),
        ("bool", r"(?:true|false)\Z", ["t", "f"]),
        ("int", r"-?(?:0|[1-9]\d{0,17})\Z", list("-0123456789")),
        ("float", r"-?(?:0|[1-9]\d{0,17})\.\d{1,17}\Z", list("-0123456789")),
    ):
        FactLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    return FactLoader
