"""Stands in for `typing` while modules of ours are loaded: hints say nothing at run time, and named tuples are tuples.

To load the real one takes a tenth of what a short task of a cluster costs in all, a keeper's start delays the next
cell, and every command waits for the box's end of its connection. Whoever imports it afterwards gets it.
"""

from __future__ import annotations

import contextlib
import sys
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Tuple


@contextlib.contextmanager
def unhinted() -> Iterator[None]:
    """Have what is imported meanwhile do without `typing`; one that is loaded already is used. One at a time."""
    mine = sys.modules.setdefault("typing", sys.modules[__name__]) is sys.modules[__name__]
    try:
        yield
    finally:
        if mine and sys.modules.get("typing") is sys.modules[__name__]:
            del sys.modules["typing"]


class _Hint:
    """Any name of `typing`: to be called, derived from, or put in brackets."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __class_getitem__(cls, _: object) -> type:
        return cls


class _Named(type):
    """Makes of a class body with annotations what typing.NamedTuple makes of it, less the types."""

    def __new__(meta, name: str, bases: Tuple[type, ...], body: Dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(meta, name, bases, body)
        fields = list(body["__annotations__"])
        defaults = [body.pop(field) for field in fields if field in body]
        made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # type: ignore[misc]
        for key in body.keys() - {"__annotations__", "__module__"}:
            setattr(made, key, body[key])
        return made


class NamedTuple(metaclass=_Named):
    """What is derived from it is a named tuple."""


def cast(_: object, value: Any) -> Any:
    """Return the value."""
    return value


def overload(marked: Any) -> Any:
    """Return what is marked, as `final` and `runtime_checkable` do."""
    return marked


final = runtime_checkable = overload


def __getattr__(name: str) -> Any:
    if name[:1].isupper():
        return _Hint
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_real(), name)  # get_type_hints and the like do something


def _real() -> Any:
    if sys.modules.get("typing") is sys.modules[__name__]:
        del sys.modules["typing"]
    import typing

    return typing
