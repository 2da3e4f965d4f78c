"""Read a fact's name, its source, and the signs by which a platform's boxes are recognised."""

from __future__ import annotations

import re
from typing import Any

from leasehold.model.platform import profile as words
from leasehold.model.platform.profile import Sign, Source

from .fact_reader import Reader

SIGN_KEYS = ("id", "title", "extends", "remove", "sources", "signs")  # all that signs need from a profile
_BLOCK = re.compile(r"^([a-z_]+):.*\n?(?:(?:[ #].*)?\n|[ #].*\Z)*", re.MULTILINE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HOST = re.compile(r"[a-z0-9*-]+(?:\.[a-z0-9*-]+)+\Z")
_USER = re.compile(r"[A-Za-z0-9._-]+\Z")
_PATH = re.compile(r"/[A-Za-z0-9._/-]+\Z")
_SHAPES = {
    "host": (_HOST, "must be a host name in lower case, `*` for a part that differs"),
    "user": (_USER, "must be a user name"),
    "env": (_VARIABLE, "must be the name of an environment variable"),
    "file": (_PATH, "must be an absolute path of letters, digits, `.`, `_`, `-` and `/`"),
    "mount": (_PATH, "must be an absolute path of letters, digits, `.`, `_`, `-` and `/`"),
}


def parse_sources(at: Reader) -> dict[str, Source]:
    """Read the sources that facts name."""
    inside = at.inside("sources")
    return {name: _source(inside.inside(name)) for name in inside.names()}


def sourced(at: Reader, sources: dict[str, Source], key: str = "source") -> Source:
    """Find the source that a fact names."""
    name = at.text(key)
    if name not in sources:
        raise at.bad(key, f"must be one of {', '.join(sources)}", name)
    return sources[name]


def parse_signs(at: Reader, sources: dict[str, Source]) -> tuple[Sign, ...]:
    """Read `signs`; each has one of host, user, env, file, mount."""
    return tuple(_sign(item, sources) for item in at.items("signs")) if at.has("signs") else ()


def some_keys(text: str, keys: tuple[str, ...]) -> str:
    """Cut a shipped profile's text to some of its keys: reading all of every profile takes ten times as long."""
    return "".join(found[0] for found in _BLOCK.finditer(text) if found[1] in keys)


def some_data(data: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Keep some keys of a profile's data; of `remove`, only the entries for them."""
    kept = {key: value for key, value in data.items() if key in keys}
    if isinstance(kept.get("remove"), dict):
        kept["remove"] = {key: value for key, value in kept["remove"].items() if key in keys}
    return kept


def _sign(at: Reader, sources: dict[str, Source]) -> Sign:
    at.only(("name", "presence", "source", *words.SIGN_KINDS))
    kinds = [kind for kind in words.SIGN_KINDS if at.has(kind)]
    if len(kinds) != 1:
        raise at.bad("name", f"a sign has exactly one of {', '.join(words.SIGN_KINDS)}", kinds)
    kind = kinds[0]
    value = at.text(kind)
    shape, wanted = _SHAPES[kind]
    if not shape.match(value):
        raise at.bad(kind, wanted, value)
    presence = at.one_of("presence", words.PRESENCE, "sometimes")
    if kind in words.ADDRESS_SIGNS and presence != "sometimes":
        raise at.bad("presence", "must be sometimes: a box can also be reached by an alias or a tunnel", presence)
    return Sign(at.text("name"), kind, value, sourced(at, sources), presence)


def _source(at: Reader) -> Source:
    at.only(("url", "verified", "confidence", "note"))
    url = at.text("url")
    if not url.startswith(("https://", "http://", "docs/")):
        raise at.bad("url", "must be an address that a person can open", url)
    return Source(url, at.month("verified"), at.one_of("confidence", words.CONFIDENCE), at.text("note", ""))
