"""A pickle that may hold only plain values: text, numbers, lists and dicts. Any global it names is refused."""

from __future__ import annotations

from typing import Tuple

from leasehold.kit.readers.base.result import Limits, Unreadable, legible

from .stand_ins import Inert, Kept, Name


class PlainWorld:
    """Refuses all requests, and keeps what is put into dicts."""

    def __init__(self, what: str, limits: Limits) -> None:
        self._what = what

    def name(self, module: str, name: str) -> Name:
        """Refuse a global."""
        raise Unreadable("its %s names %s: plain values are written there" % (self._what, legible(f"{module}.{name}")))

    def call(self, called: Name, arguments: Tuple[object, ...]) -> object:
        """Refuse a call."""
        raise Unreadable("its %s calls %s: plain values are written there" % (self._what, legible(called.path)))

    def change(self, named: Name) -> None:
        """Refuse to change a global."""
        raise Unreadable("its %s changes %s: plain values are written there" % (self._what, legible(named.path)))

    def persistent(self, identity: object) -> object:
        """Refuse an object kept outside the pickle."""
        raise Unreadable("its %s refers to an object outside of it" % self._what)

    def make(self, kind: str) -> Inert:
        """Make a dict that keeps its values."""
        return Kept(kind)

    def see_number(self, value: float) -> None:
        """Ignore a number; these numbers are not results."""

    def name_nan(self, key: object) -> None:
        """Ignore the key of a number that is NaN."""
