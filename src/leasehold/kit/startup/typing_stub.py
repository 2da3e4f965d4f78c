"""Stands in for `typing` while our modules are loaded: hints do nothing at run time, and named tuples are tuples.

Loading the real one takes a tenth of the time of a short cluster task, a keeper's start delays the next cell, and
every command waits for the box's end of its connection. A later `import typing` loads the real one.
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
    """Import modules without `typing` in this block; if it is loaded already, it is used. One thread at a time."""
    mine = sys.modules.setdefault("typing", sys.modules[__name__]) is sys.modules[__name__]
    try:
        yield
    finally:
        if mine and sys.modules.get("typing") is sys.modules[__name__]:
            del sys.modules["typing"]


class _Hint:
    """Any name of `typing`: can be called, derived from, or subscripted."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __class_getitem__(cls, _: object) -> type:
        return cls


class _Named(type):
    """Turns a class body with annotations into what typing.NamedTuple makes of it, without the types."""

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
    """A class derived from it is a named tuple."""


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
    return getattr(_real(), name)  # get_type_hints and similar functions do something


def _real() -> Any:
    if sys.modules.get("typing") is sys.modules[__name__]:
        del sys.modules["typing"]
    import typing

    return typing
