"""joblib.dump's files: a pickle with the bytes of NumPy arrays between its operations, compressed or not."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Counter
from leasehold.kit.readers.base.result import KeyList, Limits, Reading, Unreadable, legible
from leasehold.kit.readers.formats.inflated import BZIP2, GZIP, LZMA, XZ, ZLIB, Inflated, Packing
from leasehold.kit.readers.pickles.numpy_types import Dtype, Entries, elements
from leasehold.kit.readers.pickles.pickle_machine import Steps
from leasehold.kit.readers.pickles.pickle_ops import STOP, More, growing, operations
from leasehold.kit.readers.pickles.stand_ins import Inert, Name

from .pickle_files import keys_of, one_pickle, pickle_reading
from .pickle_world import PickleWorld

_WRAPPER = "joblib.numpy_pickle.NumpyArrayWrapper"
_REBUILD = "copyreg._reconstructor"  # how protocols 0 and 1 make an object
_FACTS = {"subclass", "shape", "order", "dtype", "allow_mmap"}  # of an array, as joblib writes them
_ALIGNMENT = "numpy_array_alignment_bytes"  # since joblib 1.2
_BUILD, _FRAME = ord("b"), 0x95
_FRAME_HEADER = 9
_FIRST_BYTES = 64 * 1024
_PACKINGS: Tuple[Tuple[bytes, Packing], ...] = (
    (b"\x1f\x8b", GZIP),
    (b"BZh", BZIP2),
    (b"\xfd7zXZ", XZ),
    (b"\x5d\x00", LZMA),
    (b"\x78", ZLIB),
)
_LZ4 = b"\x04\x22\x4d\x18"


def read_joblib(source: Source, limits: Limits) -> Reading:
    """Run the pickle inertly; an array's bytes follow its description directly, and the pickle's end is the file's."""
    head = source.read_at(0, min(source.size, 5))
    packing = next((packing for magic, packing in _PACKINGS if head.startswith(magic)), None)
    if head.startswith((_LZ4, b"ZF")):
        raise Unreadable("is compressed by lz4 or written by joblib before 0.9.3, which Leasehold cannot read")
    plain = Inflated(source, packing, limits) if packing else source
    run = _Run(plain, limits)
    root = run.run()
    keys = KeyList(limits)
    keys.extend(keys_of(root))
    notes = ["is compressed by %s, inflates to %d bytes" % (packing.name, plain.size)] if packing else []
    return pickle_reading("joblib", source.size, run.world, keys, notes)


class _Dict(Entries):
    """A dict that keeps all of its entries: one of them may describe an array."""

    __slots__ = ("pairs",)

    def __init__(self, of: str) -> None:
        super().__init__(of)
        self.pairs: List[Tuple[object, object]] = []

    def set_item(self, key: object, value: object) -> None:
        """Keep both."""
        super().set_item(key, value)
        self.pairs.append((key, value))


class _Wrapper(Inert):
    """The description of an array whose bytes follow in the file as soon as its state is set."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        super().__init__(_WRAPPER)
        self.state: Optional[object] = None

    def set_state(self, state: object) -> None:
        """Accept the state once: joblib would merge a second one into the first."""
        if self.state is not None:
            raise _unlike_joblib("describes one array twice")
        self.state = state


class _World(PickleWorld):
    """Refuses every use of the class that makes joblib read bytes of the file as an array, except joblib's own."""

    def name(self, module: str, name: str) -> Name:
        return Name(_WRAPPER) if "%s.%s" % (module, name) == _WRAPPER else super().name(module, name)

    def call(self, called: Name, arguments: Tuple[object, ...]) -> object:
        named = [isinstance(value, Name) and value.path == _WRAPPER for value in arguments]
        if called.path == _WRAPPER or (called.path == _REBUILD and named[:1] == [True]):
            if [value.path if isinstance(value, Name) else value for value in arguments] not in (
                [],
                [_WRAPPER, "builtins.object", None],
            ):
                raise _unlike_joblib("makes the description of an array from other values")
            return _Wrapper()
        made = super().call(called, arguments)
        if any(named) or isinstance(made, _Wrapper):
            raise _unlike_joblib("gives the description of an array to a call")
        return made

    def change(self, named: Name) -> None:
        if named.path == _WRAPPER:
            raise _unlike_joblib("changes the class that describes arrays")
        super().change(named)

    def make(self, kind: str) -> Inert:
        return _Dict(kind)


def _unlike_joblib(seen: str) -> Unreadable:
    return Unreadable("pickle %s, which joblib.dump does not: readers would see two different files" % seen)


class _Run:
    def __init__(self, source: Source, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self.world = _World(limits)
        self._at = self._count = self._frame_end = 0

    def run(self) -> object:
        """Run the pickle to its end, which must be the file's."""
        steps = Steps(self.world, self._limits)
        while True:
            base = self._at
            for code, argument, place in operations(b"", self._limits, self._piece(base)):
                at = base + place
                self._tick(argument)
                if code == STOP:
                    return self._finished(steps, at + 1)
                if code == _FRAME and isinstance(argument, int):
                    self._frame_end = at + _FRAME_HEADER + argument
                steps.take(code, argument, at)
                if code == _BUILD and isinstance(steps.top(), _Wrapper):
                    steps.replace_top(self._array(steps.top(), at + 1))
                    break

    def _finished(self, steps: Steps, end: int) -> object:
        if end != self._source.size:
            raise Unreadable("%d bytes lie behind the end of the pickle" % (self._source.size - end))
        return steps.finish()

    def _piece(self, base: int) -> More:
        return growing(self._source, base, _FIRST_BYTES, self._limits)

    def _tick(self, argument: object) -> None:
        self._count += len(argument) if isinstance(argument, list) else 1
        if self._count > self._limits.max_pickle_ops:
            raise Unreadable("pickle has more than %d operations" % self._limits.max_pickle_ops)

    def _array(self, wrapper: object, at: int) -> object:
        """Read the bytes of the array that a wrapper describes."""
        assert isinstance(wrapper, _Wrapper)
        if self._frame_end > at:
            raise Unreadable("an array at byte %d lies inside a frame of the pickle: readers differ about it" % at)
        facts = _facts(wrapper)
        dtype, numel = facts.get("dtype"), elements(facts.get("shape"))
        if not isinstance(dtype, Dtype):
            raise Unreadable("an array at byte %d has a type that is not understood" % at)
        if dtype.has_objects:
            value, self._at = one_pickle(self._source, at, self.world, self._limits)
            return value
        if dtype.item_bytes is None:
            raise Unreadable("an array at byte %d has type %s, which is not understood" % (at, legible(dtype.letters)))
        at += self._padding(facts.get(_ALIGNMENT), at)
        size = numel * dtype.item_bytes
        if at + size > self._source.size:
            raise Unreadable("cut short: an array ends at byte %d, the file has %d" % (at + size, self._source.size))
        self._look(dtype, at, size, numel)
        self._at = at + size
        return Inert("numpy.ndarray")

    def _padding(self, alignment: object, at: int) -> int:
        if alignment is None:
            return 0
        count = self._source.read_at(at, 1)[0]
        if self._source.read_at(at + 1, count) != b"\xff" * count:
            raise Unreadable("the padding before an array at byte %d is not what joblib writes" % at)
        return 1 + count

    def _look(self, dtype: Dtype, at: int, size: int, numel: int) -> None:
        arrays = self.world.arrays
        arrays.count, arrays.numel = arrays.count + 1, arrays.numel + numel
        if not dtype.scanned:
            arrays.unread_numbers += dtype.may_be_nan
            return
        counter = Counter(dtype.scanned, big_endian=dtype.big_endian)
        for piece in self._source.pieces(at, size):
            counter.take(piece)
        arrays.tally.add("arrays", counter.nan, counter.inf)


def _facts(wrapper: _Wrapper) -> Dict[str, object]:
    """Return a description's fields, in joblib's own form: others would change how it reads the array."""
    state = wrapper.state
    if not isinstance(state, _Dict) or not all(isinstance(key, str) for key, _ in state.pairs):
        raise _unlike_joblib("describes an array by something that is no dict of names")
    found = {key: value for key, value in state.pairs if isinstance(key, str)}
    alignment = found.get(_ALIGNMENT)
    if found.keys() - {_ALIGNMENT} != _FACTS or not (alignment is None or type(alignment) is int):
        raise _unlike_joblib("describes an array by other facts")
    return found
