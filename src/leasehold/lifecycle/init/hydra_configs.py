"""Hydra's config files: which dotted override sets steps, epochs, batch size and the like."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from .facts import Flag, Role, Style, Where
from .flag_roles import role_of
from .listing import Listing

_MAX_FILES = 60
_MAX_KEYS = 2_000
_MAX_TEXT = 100_000


def config_flags(listing: Listing, folder: str) -> list[Flag]:
    """List the overrides that the configs below a folder allow; the file's own folder is the group's name."""
    found: list[Flag] = []
    inside = [path for path in listing.paths if path.startswith(f"{folder}/") and path.endswith((".yaml", ".yml"))]
    for path in inside[:_MAX_FILES]:
        text = listing.text(path)
        if text is None or len(text) > _MAX_TEXT:
            continue
        group = path[len(folder) + 1 :].rpartition("/")[0]
        prefix = "" if "@package _global_" in text[:500] else group.replace("/", ".")
        found += _keys(text, path, prefix)
    return list({flag.name: flag for flag in reversed(found)}.values())[::-1]


def _keys(text: str, path: str, prefix: str) -> list[Flag]:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    flags = []
    for count, (name, line, value) in enumerate(_walk(node, prefix)):
        if count > _MAX_KEYS:
            break
        role = role_of(name)
        if role not in (Role.OTHER, Role.DATA, Role.OUTPUT):
            flags.append(Flag(name, role, Where(path, line), Style.OVERRIDE, value))
    return flags


def _walk(root: object, prefix: str) -> Iterator[tuple[str, int, str]]:
    waiting, seen = [(root, prefix)], set()
    while waiting:
        node, inside = waiting.pop(0)
        if not isinstance(node, yaml.MappingNode) or id(node) in seen:  # an alias may lead back to its own parent
            continue
        seen.add(id(node))
        for key, value in node.value:
            word = str(key.value)
            if not word.isidentifier():
                continue
            name = f"{inside}.{word}" if inside else word
            if isinstance(value, yaml.ScalarNode):
                yield name, key.start_mark.line + 1, str(value.value)[:200]
            else:
                waiting.append((value, name))
