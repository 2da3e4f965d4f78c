"""Sequences of pickle operations, read by our machine and by both of CPython's unpicklers.

What ours accepts, neither of the others may read as another value, or as one that asks for a name or an outside
object that ours was not asked for. Theirs are kept from importing: a name gives them a class that does nothing.
"""

from __future__ import annotations

import _pickle
import io
import pickle
import random
import struct
from typing import Any, NamedTuple

from leasehold.kit.readers import Limits, Unreadable
from leasehold.kit.readers.pickles.pickle_machine import run_pickle
from leasehold.kit.readers.pickles.stand_ins import Inert, Kept, Name

_LIMITS = Limits(max_pickle_ops=10_000, max_memo=100_000)
_DEEPEST = 8
_REFUSED = "refused"
_LINES = (
    b"I7\n", b"I01\n", b"I00\n", b"I-3\n", b"I0x1f\n", b"I 7\n", b"I1_0\n", b"I07\n", b"L12L\n", b"L12\n", b"L-0L\n",
    b"F0.5\n", b"Fnan\n", b"F1_0.0\n", b"S'a'\n", b'S"b"\n', b"S'\\x41'\n", b"Sab\n", b"S''\n", b"Va\n", b"V\\u0041\n",
    b"V\\\n", b"Pid\n", b"P\n", b"ca\nB\n", b"ca\nb.c\n", b"c\n\n", b"c__builtin__\nset\n", b"ccopy_reg\nx\n",
    b"ia\nB\n", b"p0\n", b"p1\n", b"p 2\n", b"p-1\n", b"p01\n", b"g0\n", b"g1\n", b"g2\n", b"g01\n", b"g 1\n",
    b"I7\r\n", b"L7\r\n", b"p0\r\n", b"g0\r\n", b"S'a'\r\n", b"S'a' \n", b"Va\r\n", b"ca\r\nB\n", b"I\xef\xbc\x97\n",
)  # fmt: skip
_VALUES = (
    b"N", b"\x88", b"\x89", b"K\1", b"K\2", b"M\0\1", b"J\xff\xff\xff\xff", b"G" + struct.pack(">d", 0.5),
    b"U\1a", b"T\1\0\0\0a", b"X\1\0\0\0a", b"\x8c\1b", b"\x8d\1\0\0\0\0\0\0\0c", b"C\1a", b"B\1\0\0\0b",
    b"\x8e\1\0\0\0\0\0\0\0a", b"\x96\1\0\0\0\0\0\0\0a", b"\x8a\1\5", b"\x8a\0", b"\x8b\1\0\0\0\5",
    b"\x8b\xff\xff\xff\xff",
    b"T\xff\xff\xff\xff", b"X\3\0\0\0\xed\xa0\x80", b"U\1\xff", b"\x8c\1\xff",
)  # fmt: skip
_EMPTY = (b")", b"]", b"}", b"\x8f", b"(")
_BUILDERS = (
    b"t", b"\x85", b"\x86", b"\x87", b"l", b"d", b"a", b"e", b"s", b"u", b"\x90", b"\x91", b"0", b"1", b"2",
)  # fmt: skip
_MEMO = (b"q\0", b"q\1", b"q\2", b"r\0\0\0\0", b"r\1\0\0\0", b"\x94", b"\x94", b"h\0", b"h\1", b"h\2", b"j\1\0\0\0")
_CALLS = (b"b", b"o", b"R", b"\x81", b"\x92", b"\x93", b"Q")
_ODD = (
    b"\x80\4", b"\x80\2", b"\x80\5", b"\x80\6", b"\x82\1", b"\x83\1\0", b"\x84\1\0\0\0", b"\x97", b"\x98",
    *(b"\x95" + struct.pack("<Q", length) for length in (0, 1, 2, 3, 5, 9, 12, 300, 2**63)),
    b".", b"\xff", b"\0",
)  # fmt: skip
_GLOBALS = (b"ca\nB\n", b"\x8c\1a\x8c\1B\x93", b"ca\nB\n)R", b"ca\nB\n)\x81", b"(ca\nB\no", b"(ia\nB\n", b"\x8c\1pQ")
_NUMBERS = (*_VALUES[3:8], b"K\1", b"G" + struct.pack(">d", 1e300))
_CLASSES = (b"ca\nB\n", b"\x8c\1a\x8c\1B\x93", b"cc\nD\n")
_STARTS = (b"\x80\4", b"\x80\2", b"", b"\x80\5")
_AROUND = (b"(%bt", b"]%ba", b"(%bl", b"%b", b"%b", b"%b", b"}(%bu", b"%b\x85")
_KINDS = (_VALUES, _VALUES, _VALUES, _EMPTY, _EMPTY, _BUILDERS, _BUILDERS, _MEMO, _MEMO, _LINES, _CALLS, _GLOBALS, _ODD)


class Compared(NamedTuple):
    """How many sequences there were, how many ours accepted, and those that were read differently."""

    sequences: int
    accepted: int
    differing: list[bytes]


def compare(seed: int, count: int) -> Compared:
    """Draw sequences and hold the readers against each other."""
    chance = random.Random(seed)
    accepted, differing = 0, []
    for _ in range(count):
        data = sequence(chance)
        ours = _ours(data)
        if ours == _REFUSED:
            continue
        accepted += 1
        if not agree(data, ours):
            differing.append(data)
    return Compared(count, accepted, differing)


def agree(data: bytes, ours: Any = None) -> bool:
    """Whether ours refuses, or each of CPython's refuses or reads the same."""
    ours = _ours(data) if ours is None else ours
    if ours == _REFUSED:
        return True
    return {_theirs(data, kind) for kind in (_CUnpickler, _PythonUnpickler)} <= {ours, _REFUSED}


def sequence(chance: random.Random) -> bytes:
    """Draw operations: some at random, some that make a value, with a strange one put in or a byte changed."""
    if chance.random() < 0.4:
        parts = [chance.choice(chance.choice(_KINDS)) for _ in range(chance.randint(1, 14))]
    else:
        parts = _value(chance, 3)
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            parts.insert(chance.randrange(len(parts) + 1), chance.choice(chance.choice(_KINDS)))
    if chance.random() < 0.3:
        begin = chance.randrange(len(parts))
        end = chance.randint(begin, len(parts))
        parts[begin:end] = [_framed(parts[begin:end], chance)]
    data = bytearray(chance.choice(_STARTS) + chance.choice(_AROUND) % b"".join(parts) + b".")
    if chance.random() < 0.25:
        at = chance.randrange(len(data))
        way = chance.randrange(3)
        if way == 0:
            data[at] = chance.randrange(256)
        elif way == 1:
            del data[at]
        else:
            data.insert(at, chance.randrange(256))
    return bytes(data)


def _value(chance: random.Random, depth: int) -> list[bytes]:
    """Draw the operations that leave one value, remembered or asked for again here and there."""
    way = chance.randrange(10) if depth else 0
    items = [_value(chance, depth - 1) for _ in range(chance.randint(0, 3))] if way else []
    flat = [part for item in items for part in item]
    if way < 4:
        made = [chance.choice(chance.choice((_VALUES, _VALUES, _LINES[:20], _GLOBALS, _MEMO[-4:])))]
        if depth == 1 and chance.random() < 0.05:  # our machine takes such runs in one step
            made = [b"(", *(chance.choice(_NUMBERS) for _ in range(chance.randint(9, 30))), b"l"]
    elif way == 4:
        made = [b"(", *flat, chance.choice((b"t", b"l", b"\x91"))]
    elif way == 5:
        made = [b"]", b"(", *flat, b"e"]
    elif way == 6:
        pairs = [part for item in items for part in (*_value(chance, 0), *item)]
        made = [b"}", b"(", *pairs, b"u"] if chance.random() < 0.7 else [b"(", *pairs, b"d"]
    elif way == 7:
        made = [b"\x8f", b"(", *flat, b"\x90"]
    elif way == 8:
        made = [chance.choice(_CLASSES), b"(", *flat, b"t", chance.choice((b"R", b"\x81", b"}\x92"))]
    else:
        made = [chance.choice(_CLASSES), b")\x81", *_value(chance, depth - 1), b"b"]
    return [*made, chance.choice(_MEMO[:7])] if chance.random() < 0.3 else made


def _framed(parts: list[bytes], chance: random.Random) -> bytes:
    body = b"".join(parts)
    return b"\x95" + struct.pack("<Q", max(0, len(body) + chance.choice((0, 0, 0, 0, -1, 1)))) + body


class _World:
    """Give names and outside objects to our machine, and write down what it asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def name(self, module: str, name: str) -> Name:
        self.asked.append(f"{module}.{name}")
        return Name(f"{module}.{name}")

    def call(self, called: Name, arguments: tuple[object, ...]) -> object:
        return Kept(called.path, arguments)

    def change(self, named: Name) -> None:
        """Take it: the name has been written down."""

    def persistent(self, identity: object) -> object:
        self.asked.append("outside object")
        return Kept("outside object")

    def make(self, kind: str) -> Inert:
        return Kept(kind)

    def see_number(self, value: float) -> None:
        """Take a number."""

    def name_nan(self, key: object) -> None:
        """Take the key of a number that is NaN."""


def _ours(data: bytes) -> Any:
    world = _World()
    try:
        value = run_pickle(data, world, _LIMITS)
    except Unreadable:
        return _REFUSED
    return (_shown(value), tuple(world.asked))


class _Made:
    """What CPython's unpicklers get for a name: a class whose objects take everything."""

    path = "?"

    def __init__(self, *arguments: object, **named: object) -> None:
        """Take anything."""

    def __new__(cls, *arguments: object, **named: object) -> _Made:
        return object.__new__(cls)

    def append(self, item: object) -> None:
        """Take an item."""

    def extend(self, items: object) -> None:
        """Take items."""

    def add(self, item: object) -> None:
        """Take an item."""

    def __setitem__(self, key: object, value: object) -> None:
        hash(key)

    def __setstate__(self, state: object) -> None:
        """Take a state."""

    def __call__(self, *arguments: object) -> object:
        return self


class _Asking:
    """What both of CPython's unpicklers do about names and outside objects."""

    asked: list[str]

    def find_class(self, module: str, name: str) -> Any:
        self.asked.append(f"{module}.{name}")
        return type("Made", (_Made,), {"path": f"{module}.{name}"})

    def persistent_load(self, identity: object) -> Any:
        self.asked.append("outside object")
        return type("Made", (_Made,), {"path": "outside object"})()


class _CUnpickler(_Asking, _pickle.Unpickler):
    """The one that everybody uses."""


class _PythonUnpickler(_Asking, pickle._Unpickler):  # type: ignore[name-defined,misc]
    """The one that PyPy and torch's weights_only go by."""


def _theirs(data: bytes, kind: Any) -> Any:
    reader = kind(io.BytesIO(data))
    reader.asked = []
    try:
        value = reader.load()
    except Exception:  # noqa: BLE001  whatever it raises is a refusal
        return _REFUSED
    return (_shown(value), tuple(reader.asked))


def _shown(value: Any, depth: int = 0) -> Any:
    """Describe a value of CPython's, or one of ours, in the same words."""
    if depth > _DEEPEST:
        return "deep"
    if isinstance(value, Kept) and value.of == "dict":
        return ("dict", frozenset(_key(key, depth) for key, _ in value.pairs))
    if isinstance(value, dict):
        return ("dict", frozenset(_key(key, depth) for key in value))
    if isinstance(value, Inert):
        return value.of
    if isinstance(value, Name):
        return ("name", value.path)
    if isinstance(value, type):
        return ("name", getattr(value, "path", value.__name__))
    if isinstance(value, _Made):
        return value.path
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(_shown(item, depth + 1) for item in value))
    if isinstance(value, (set, frozenset, bytearray)):
        return type(value).__name__
    return (type(value).__name__, "text" if isinstance(value, bytes) else repr(value))


def _key(key: Any, depth: int) -> Any:
    """Describe a key; to a dict, True and 1 and 1.0 are one."""
    if isinstance(key, (bool, int, float)) and key == key:
        return ("number", key)
    return _shown(key, depth + 1)
