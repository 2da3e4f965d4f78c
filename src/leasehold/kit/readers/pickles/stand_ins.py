"""Values that stand in for whatever a pickle names or makes, and do nothing."""

from __future__ import annotations

from typing import List, Optional, Protocol, Tuple


class Inert:
    """Any object a pickle makes: a dict, a set, an instance of an unknown class. It accepts every operation."""

    __slots__ = ("keys", "of")

    def __init__(self, of: str) -> None:
        self.of = of
        self.keys: Optional[List[object]] = None

    def set_item(self, key: object, value: object) -> None:
        """Keep the key; the value has been seen."""
        if self.keys is None:
            self.keys = []
        self.keys.append(key)

    def set_state(self, state: object) -> None:
        """Accept the state that BUILD sets; most keep none of it."""

    def called(self, key: object) -> None:
        """Receive the key under which a dict holds this; most ignore it."""


class Buffer(Inert):
    """A bytearray, and its bytes."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        super().__init__("bytearray")
        self.data = data


class Kept(Inert):
    """An inert value that keeps what was put into it, for a reader that examines the structure afterwards."""

    __slots__ = ("arguments", "pairs", "state")

    def __init__(self, of: str, arguments: Tuple[object, ...] = ()) -> None:
        super().__init__(of)
        self.arguments = arguments
        self.pairs: List[Tuple[object, object]] = []
        self.state: object = None

    def set_item(self, key: object, value: object) -> None:
        """Keep both."""
        self.pairs.append((key, value))

    def set_state(self, state: object) -> None:
        """Keep the state; a second one replaces the first, as it does for an object."""
        self.state = state


class Name:
    """A global the pickle names: `path` is "module.name", and stays text."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


class World(Protocol):
    """The requests a pickle may make; the reader of one format answers them. All answers are inert."""

    def name(self, module: str, name: str) -> Name:
        """Stand in for a global."""

    def call(self, called: Name, arguments: Tuple[object, ...]) -> object:
        """Stand in for calling or instantiating a global."""

    def change(self, named: Name) -> None:
        """Record that the pickle sets the state of a global itself; refuse one that stands for plain data."""

    def persistent(self, identity: object) -> object:
        """Stand in for an object kept outside the pickle; refuse an identity that means nothing."""

    def make(self, kind: str) -> Inert:
        """Make an empty dict."""

    def see_number(self, value: float) -> None:
        """Receive a plain floating-point number of the pickle."""

    def name_nan(self, key: object) -> None:
        """Receive the key under which a dict holds a number that is NaN."""
