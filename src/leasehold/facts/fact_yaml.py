"""YAML for facts: `yes` and `no` are words, not booleans; dates and octal numbers are texts; sizes are bounded."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache, lru_cache
from typing import Any

_MAX_TEXT = 1 << 20
_MAX_DEPTH = 12
_MAX_NODES = 20_000


def read_facts(text: str) -> Any:
    """Load one document of plain facts; ValueError says what is wrong and where."""
    return deepcopy(_read(text))


@lru_cache(maxsize=64)  # twenty boxes of one platform are launched with the same few files
def _read(text: str) -> Any:
    import yaml

    if len(text) > _MAX_TEXT:
        raise ValueError("larger than 1 MiB; that is no profile")
    try:
        loader = _loader()(text)
        node = loader.get_single_node()
        _bound(node)
        return None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{where}{getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None


@cache
def _loader() -> Any:
    import yaml

    class FactLoader(yaml.SafeLoader):
        """A SafeLoader that knows null, true, false, and decimal numbers, and nothing else."""

        yaml_implicit_resolvers: dict[str, Any] = {}

    def once(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = loader.construct_object(key, deep=True)
            if isinstance(name, (dict, list)) or name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} stands twice", key.start_mark)
            seen.add(name)
        return yaml.constructor.SafeConstructor.construct_mapping(loader, node, deep=deep)

    def construct(loader: Any, node: Any) -> Any:
        value: dict[Any, Any] = {}
        yield value
        value.update(once(loader, node, deep=True))

    for tag, pattern, first in (
        ("null", r"(?:null|~|)\Z", ["n", "~", ""]),
        ("bool", r"(?:true|false)\Z", ["t", "f"]),
        ("int", r"-?(?:0|[1-9]\d{0,17})\Z", list("-0123456789")),
        ("float", r"-?(?:0|[1-9]\d{0,17})\.\d{1,17}\Z", list("-0123456789")),
    ):
        FactLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    FactLoader.add_constructor("tag:yaml.org,2002:map", construct)
    return FactLoader


def _bound(root: Any) -> None:
    """Count nodes with every alias spelled out, before anything is built."""
    count = 0
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > _MAX_NODES or depth > _MAX_DEPTH:
            raise ValueError("too many parts, or nested too deep")
        for item in getattr(node, "value", ()) if not isinstance(getattr(node, "value", ""), str) else ():
            stack += [(part, depth + 1) for part in (item if isinstance(item, tuple) else (item,))]
