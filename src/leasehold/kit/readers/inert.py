"""Values that stand in for whatever a pickle names or makes, and do nothing."""

from __future__ import annotations

from typing import List, Optional, Protocol, Tuple


class Inert:
    """Any object a pickle makes: a dict, a set, an instance of an unknown class. It swallows all."""

    __slots__ = ("keys", "of")

    def __init__(self, of: str) -> None:
        self.of = of
        self.keys: Optional[List[object]] = None

    def set_key(self, key: object) -> None:
        if self.keys is None:
            self.keys = []
        self.keys.append(key)

    def called(self, key: object) -> None:
        """Hear the key that a dict holds this under; most do not care."""


class Name:
    """A global the pickle names: `path` is "module.name", and stays text."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


class World(Protocol):
    """What a pickle may ask for; the reader of one format says what it gets. All answers are inert."""

    def name(self, module: str, name: str) -> Name:
        """Stand in for a global."""

    def call(self, called: Name, arguments: Tuple[object, ...]) -> object:
        """Stand in for calling or instantiating a global."""

    def persistent(self, identity: object) -> object:
        """Stand in for an object kept outside the pickle; refuse an identity that means nothing."""

    def saw_nan(self, key: object) -> None:
        """Hear that a plain number under this key is NaN."""
