"""A pickle machine that can only build inert values.

The standard Unpickler, even with find_class overridden, hashes the file's values into dicts (nested tuples
make that exponential), sets attributes and grows its memo by claimed indexes. This machine runs the same
opcodes on values of its own: no name is imported, nothing is called but the World's inert table, nothing is
hashed, and nothing recurses.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Tuple

from leasehold.kit.readers.base.result import Limits, Unreadable

from .pickle_ops import GLOBAL, INST, NUMBERS, STOP, More, operations
from .stand_ins import Buffer, Inert, Name, World

_UNHASHABLE = ("dict", "set", "bytearray")
_STATELESS = ("set", "frozenset", "bytearray", "storage")
_BUILTIN = ("dict", "set", "frozenset", "bytearray", "storage", "tensor")  # their arguments are known


def run_pickle(data: bytes, world: World, limits: Limits) -> object:
    """Run the pickle and return its inert result."""
    return _run(data, world, limits, None)[0]


def run_first_pickle(world: World, limits: Limits, more: More) -> Tuple[object, int]:
    """Run a pickle that other bytes follow; return its inert result and its length. `more` is as in operations()."""
    return _run(b"", world, limits, more)


def _run(data: bytes, world: World, limits: Limits, more: Optional[More]) -> Tuple[object, int]:
    machine = _Machine(world, limits)
    for code, argument, at in operations(data, limits, more):
        machine.at = at
        if code == STOP:
            break
        _RUN[code](machine, argument)
    return machine.finish(), machine.at + 1


class _Machine:
    def __init__(self, world: World, limits: Limits) -> None:
        self.world = world
        self.limits = limits
        self.stack: List[object] = []
        self.outer: List[List[object]] = []  # stacks below the open marks
        self.memo: Dict[int, object] = {}
        self.at = 0

    def finish(self) -> object:
        if self.outer or len(self.stack) != 1:
            raise self.fault(f"ends with {len(self.stack)} values and {len(self.outer)} open marks, not with one value")
        return self.stack[0]

    def fault(self, seen: str) -> Unreadable:
        return Unreadable(f"pickle {seen} (byte {self.at})")

    def push(self, value: object) -> None:
        self.stack.append(value)

    def push_number(self, value: object) -> None:
        assert isinstance(value, float)  # the decoder of G and F yields nothing else
        self.world.see_number(value)
        self.stack.append(value)

    def push_numbers(self, values: object) -> None:
        assert isinstance(values, list)  # operations() has made it
        if isinstance(values[0], float):
            for value in values:
                self.world.see_number(value)
        self.stack.extend(values)

    def push_buffer(self, data: object) -> None:
        assert isinstance(data, bytes)  # the decoder of BYTEARRAY8 yields nothing else
        self.stack.append(Buffer(data))

    def pop(self) -> object:
        if not self.stack:
            raise self.fault("takes a value from an empty stack")
        return self.stack.pop()

    def top(self) -> object:
        if not self.stack:
            raise self.fault("uses a value of an empty stack")
        return self.stack[-1]

    def pop_mark(self) -> List[object]:
        if not self.outer:
            raise self.fault("closes a mark that is not open")
        items, self.stack = self.stack, self.outer.pop()
        return items

    def mark(self, _: object) -> None:
        self.outer.append(self.stack)
        self.stack = []

    def pop_op(self, _: object) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()  # POP on a mark drops the mark

    def drop_mark(self, _: object) -> None:
        self.pop_mark()

    def duplicate(self, _: object) -> None:
        self.push(self.top())

    def put(self, index: object) -> None:
        assert isinstance(index, int)  # operations() has checked it
        self.remember(index)

    def memoize(self, _: object) -> None:
        self.remember(len(self.memo))

    def remember(self, index: int) -> None:
        self.memo[index] = self.top()
        if len(self.memo) > self.limits.max_memo:
            raise self.fault(f"remembers more than {self.limits.max_memo} values")

    def get(self, index: object) -> None:
        if not isinstance(index, int) or index not in self.memo:
            raise self.fault(f"asks for memo slot {index!r}, which is empty")
        self.push(self.memo[index])

    def proto(self, version: object) -> None:
        if not isinstance(version, int) or version > 5:
            raise self.fault(f"has protocol {version}; up to 5 are known")

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise self.fault(f"makes a tuple of {count} from {len(self.stack)} values")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def make_dict(self, _: object) -> None:
        items = self.pop_mark()
        self.push(self.world.make("dict"))
        self.set_items(items)

    def make_set(self, kind: str) -> None:
        self.check_keys(self.pop_mark())
        self.push(Inert(kind))

    def append(self, _: object) -> None:
        self.extend([self.pop()])

    def appends(self, _: object) -> None:
        self.extend(self.pop_mark())

    def extend(self, items: List[object]) -> None:
        target = self.top()
        if isinstance(target, list):
            target.extend(items)
        elif not isinstance(target, Inert) or target.of in _BUILTIN:
            raise self.fault(f"appends to {_shown(target)}")

    def add_items(self, _: object) -> None:
        self.check_keys(self.pop_mark())
        target = self.top()
        if not isinstance(target, Inert) or (target.of in _BUILTIN and target.of != "set"):
            raise self.fault(f"adds items to {_shown(target)}")

    def set_item(self, _: object) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def set_marked(self, _: object) -> None:
        self.set_items(self.pop_mark())

    def set_items(self, items: List[object]) -> None:
        target = self.top()
        settable = isinstance(target, Inert) and (target.of == "dict" or target.of not in _BUILTIN)
        if len(items) % 2 or not isinstance(target, Inert) or not settable:
            raise self.fault(f"sets {len(items)} keys and values on {_shown(target)}")
        keys = items[::2]
        self.check_keys(keys)
        for key, value in zip(keys, items[1::2]):
            target.set_item(key, value)
            if isinstance(value, Inert):
                value.called(key)
            elif isinstance(value, float) and value != value:
                self.world.name_nan(key)

    def check_keys(self, keys: List[object]) -> None:
        for key in keys:
            if isinstance(key, list) or (isinstance(key, Inert) and key.of in _UNHASHABLE):
                raise self.fault(f"uses {_shown(key)} as a key")

    def build(self, _: object) -> None:
        state, target = self.pop(), self.top()  # the contents of the state were seen while it was built
        if isinstance(target, Name):
            self.world.change(target)
        elif isinstance(target, Inert) and target.of not in _STATELESS:
            target.set_state(state)
        else:
            raise self.fault(f"sets the state of {_shown(target)}")

    def global_op(self, pair: object) -> None:
        assert isinstance(pair, tuple)  # the decoder of c and i yields a pair of texts
        self.push(self.world.name(*pair))

    def stack_global(self, _: object) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise self.fault("names a global by something that is not text")
        self.push(self.world.name(module, name))

    def reduce(self, _: object) -> None:
        arguments, called = self.pop(), self.pop()
        self.call(called, arguments)

    def new_object_ex(self, _: object) -> None:
        keywords, arguments, called = self.pop(), self.pop(), self.pop()
        if not isinstance(keywords, Inert):
            raise self.fault(f"passes {_shown(keywords)} as keyword arguments")
        self.call(called, arguments)

    def instance(self, pair: object) -> None:
        arguments = tuple(self.pop_mark())
        self.global_op(pair)
        self.call(self.pop(), arguments)

    def object_op(self, _: object) -> None:
        items = self.pop_mark()
        if not items:
            raise self.fault("makes an object of no class")
        self.call(items[0], tuple(items[1:]))

    def call(self, called: object, arguments: object) -> None:
        if not isinstance(arguments, tuple):
            raise self.fault(f"calls with {_shown(arguments)} instead of a tuple")
        if isinstance(called, Name):
            self.push(self.world.call(called, arguments))
        elif isinstance(called, Inert) and called.of not in _BUILTIN:
            self.push(Inert(called.of))
        else:
            raise self.fault(f"calls {_shown(called)}")

    def persistent_text(self, identity: object) -> None:
        self.push(self.world.persistent(identity))

    def persistent(self, _: object) -> None:
        self.push(self.world.persistent(self.pop()))


def _shown(value: object) -> str:
    return value.of if isinstance(value, Inert) else f"a {type(value).__name__}"


_Step = Callable[[_Machine, object], None]


def _constant(value: object) -> _Step:
    return lambda machine, _: machine.push(value)


def _tuple_of(count: int) -> _Step:
    return lambda machine, _: machine.tuple_of(count)


_RUN: Dict[int, _Step] = {
    NUMBERS: _Machine.push_numbers,
    **dict.fromkeys(b"GF", _Machine.push_number),
    **dict.fromkeys(b"KMJTUBCXILSV\x8e\x8c\x8d\x8a\x8b", _Machine.push),
    0x96: _Machine.push_buffer,
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    ord(")"): _constant(()),
    ord("]"): lambda machine, _: machine.push([]),
    ord("}"): lambda machine, _: machine.push(machine.world.make("dict")),
    0x8F: lambda machine, _: machine.push(Inert("set")),
    ord("("): _Machine.mark,
    ord("0"): _Machine.pop_op,
    ord("1"): _Machine.drop_mark,
    ord("2"): _Machine.duplicate,
    **dict.fromkeys(b"pqr", _Machine.put),
    0x94: _Machine.memoize,
    **dict.fromkeys(b"ghj", _Machine.get),
    0x80: _Machine.proto,
    0x95: lambda machine, _: None,  # FRAME: a hint for readers of streams
    ord("t"): lambda machine, _: machine.push(tuple(machine.pop_mark())),
    0x85: _tuple_of(1),
    0x86: _tuple_of(2),
    0x87: _tuple_of(3),
    ord("l"): lambda machine, _: machine.push(machine.pop_mark()),
    ord("d"): _Machine.make_dict,
    0x91: lambda machine, _: machine.make_set("frozenset"),
    ord("a"): _Machine.append,
    ord("e"): _Machine.appends,
    0x90: _Machine.add_items,
    ord("s"): _Machine.set_item,
    ord("u"): _Machine.set_marked,
    ord("b"): _Machine.build,
    GLOBAL: _Machine.global_op,
    0x93: _Machine.stack_global,
    ord("R"): _Machine.reduce,
    0x81: _Machine.reduce,  # NEWOBJ: as inert as a call
    0x92: _Machine.new_object_ex,
    INST: _Machine.instance,
    ord("o"): _Machine.object_op,
    ord("P"): _Machine.persistent_text,
    ord("Q"): _Machine.persistent,
}


class Steps:
    """Runs a pickle operation by operation, for formats that have raw bytes between them."""

    def __init__(self, world: World, limits: Limits) -> None:
        self._machine = _Machine(world, limits)

    def take(self, code: int, argument: object, at: int) -> None:
        """Run one operation."""
        self._machine.at = at
        _RUN[code](self._machine, argument)

    def top(self) -> object:
        """Return the most recent value."""
        return self._machine.top()

    def replace_top(self, value: object) -> None:
        """Replace the most recent value."""
        self._machine.pop()
        self._machine.push(value)

    def finish(self) -> object:
        """Return the value of the whole pickle."""
        return self._machine.finish()
