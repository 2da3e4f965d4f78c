"""ONNX models: the protocol buffer is walked to its last byte, every tensor's data checked against its shape."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Counter, Span, scan
from leasehold.kit.readers.base.result import KeyList, Limits, Numbers, NumberTally, Reading, Unreadable, legible

from .protobuf import BYTES, NARROW, VARINT, WIDE, Field, Window, signed

_MOST_TEXT_BYTES = 1 << 20
_MOST_DEPTH = 32
# TensorProto.DataType: bits of an element, the name by which its numbers are counted, the field of plain values.
_TYPES: Dict[int, Tuple[int, str, int]] = {
    1: (32, "F32", 4), 2: (8, "", 5), 3: (8, "", 5), 4: (16, "", 5), 5: (16, "", 5), 6: (32, "", 5), 7: (64, "", 7),
    9: (8, "", 5), 10: (16, "F16", 5), 11: (64, "F64", 10), 12: (32, "", 11), 13: (64, "", 11), 14: (64, "C64", 4),
    15: (128, "C128", 10), 16: (16, "BF16", 5), 17: (8, "F8_E4M3", 5), 18: (8, "F8_E4M3FNUZ", 5), 19: (8, "F8_E5M2", 5),
    20: (8, "F8_E5M2FNUZ", 5), 21: (4, "", 5), 22: (4, "", 5), 23: (4, "", 5), 24: (8, "F8_E8M0", 5), 25: (2, "", 5),
    26: (2, "", 5),
}  # fmt: skip
_STRING = 8
_PACKED = {4: 4, 10: 8}  # the fields of plain floats and doubles: bytes of one
_STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft")


_VALUE: Dict[int, Any] = {2: {1: {2: {1: {}}}}}  # type, of a tensor, its shape, a dimension
_TEXTS = 6
# The fields of plain values, and how each may be encoded.
_PLAIN = {
    4: (NARROW, BYTES), 5: (VARINT, BYTES), _TEXTS: (BYTES,), 7: (VARINT, BYTES), 10: (WIDE, BYTES),
    11: (VARINT, BYTES),
}  # fmt: skip
_LONG = bytes(range(128, 256))


class _Tensor(NamedTuple):
    name: str
    kind: int
    numel: int
    raw: Optional[Field]
    plain: List[Field]
    external: Dict[str, str]


def read_onnx(source: Source, limits: Limits) -> Reading:
    """Walk the model; its tensors are proven, external data files are named."""
    walk = _Walk(source, limits)
    seen: Dict[int, int] = {}
    for field in walk.window.fields(0, source.size, "the model"):
        seen[field.number] = field.value
        if field.number == 7 and field.wire == BYTES:
            walk.graph(field, 0)
        elif field.number == 8 and field.wire == BYTES:
            walk.opset(field)
        elif field.number == 25 and field.wire == BYTES:
            walk.function(field)
    for number, what in ((1, "version"), (7, "graph"), (8, "set of operators")):
        if number not in seen:
            raise Unreadable("is not a complete ONNX model: it has no %s" % what)
    return walk.reading(seen[1])


class _Walk:
    def __init__(self, source: Source, limits: Limits) -> None:
        self.window, self._limits = Window(source), limits
        self._source = source
        self._keys, self._tally = KeyList(limits), NumberTally()
        self._spans: List[Span] = []
        self._external: Dict[str, int] = {}
        self._domains: Set[str] = set()
        self._tensors = self._numel = self._nodes = self._unread = 0

    def reading(self, version: int) -> Reading:
        """Count NaN in tensors stored as raw bytes, and return the reading."""
        for span in self._spans:
            found = scan(self._source, [span]).numbers
            self._tally.add(span.name, found.nan, found.inf)
        notes = ["ONNX IR version %d, %d nodes" % (version, self._nodes)]
        left = []
        for name, count in sorted(self._external.items()):
            notes.append("%d tensors lie in the file %s, which is not looked at here" % (count, legible(name)))
            left.append("%d tensors in %s" % (count, legible(name)))
        other = sorted(self._domains.difference(_STANDARD_DOMAINS))
        if other:
            notes.append("needs operators of %s" % ", ".join(map(legible, other[:5])))
        if self._unread:
            left.append("%d tensors whose values are not raw bytes" % self._unread)
        found = self._tally.numbers()
        numbers = Numbers(found.nan, found.inf, found.where, found.more, ", ".join(left))
        said = (*notes, *self._keys.notes())
        return Reading("onnx", self._source.size, self._tensors, self._numel, self._keys.names(), (), said, numbers)

    def graph(self, place: Field, depth: int) -> None:
        """Walk a graph and those inside its nodes."""
        if depth > _MOST_DEPTH:
            raise Unreadable("has graphs inside of graphs, deeper than %d" % _MOST_DEPTH)
        for field in self.window.fields(place.at, place.at + place.value, "a graph"):
            if field.wire != BYTES:
                continue
            if field.number == 1:
                self._node(field, depth)
            elif field.number == 5:
                self._add(self._tensor(field), True)
            elif field.number == 15:
                self._sparse(field)
            elif field.number in (11, 12, 13):
                self._inner(field, _VALUE)

    def _inner(self, place: Field, known: Dict[int, Any]) -> None:
        """Walk a message only to prove that it is whole, and the known messages inside it."""
        for field in self.window.fields(place.at, place.at + place.value, "the description of a value"):
            if field.wire == BYTES and field.number in known:
                self._inner(field, known[field.number])

    def opset(self, place: Field) -> None:
        """Walk a set of operators."""
        for field in self.window.fields(place.at, place.at + place.value, "a set of operators"):
            if field.number == 1 and field.wire == BYTES:
                self._domains.add(self._text(field))

    def function(self, place: Field) -> None:
        """Walk a function's nodes."""
        for field in self.window.fields(place.at, place.at + place.value, "a function"):
            if field.number == 7 and field.wire == BYTES:
                self._node(field, 0)

    def _node(self, place: Field, depth: int) -> None:
        self._nodes += 1
        if self._nodes > self._limits.max_items:
            raise Unreadable("has more than %d nodes" % self._limits.max_items)
        for field in self.window.fields(place.at, place.at + place.value, "a node"):
            if field.number == 5 and field.wire == BYTES:
                for inner in self.window.fields(field.at, field.at + field.value, "an attribute"):
                    if inner.wire == BYTES and inner.number in (5, 10):
                        self._add(self._tensor(inner), False)
                    elif inner.wire == BYTES and inner.number in (6, 11):
                        self.graph(inner, depth + 1)
                    elif inner.wire == BYTES and inner.number in (22, 23):
                        self._sparse(inner)

    def _sparse(self, place: Field) -> None:
        for field in self.window.fields(place.at, place.at + place.value, "a sparse tensor"):
            if field.number in (1, 2) and field.wire == BYTES:
                self._add(self._tensor(field), field.number == 1)

    def _tensor(self, place: Field) -> _Tensor:
        name, kind = "", 0
        raw: Optional[Field] = None
        sizes: List[int] = []
        plain: List[Field] = []
        external: Dict[str, str] = {}
        is_external = False
        for field in self.window.fields(place.at, place.at + place.value, "a tensor"):
            if field.number == 1:
                sizes += self._sizes(field)
            elif field.number == 2 and field.wire == VARINT:
                kind = field.value
            elif field.number == 8 and field.wire == BYTES:
                name = self._text(field)
            elif field.number == 9 and field.wire == BYTES:
                raw = field
            elif field.number == 13 and field.wire == BYTES:
                external.update([self._pair(field)])
            elif field.number == 14 and field.wire == VARINT:
                is_external = field.value == 1
            elif field.wire in _PLAIN.get(field.number, ()):  # encoded otherwise, the library skips it
                plain.append(field)
        numel = 1
        for size in sizes:
            if not 0 <= size < 1 << 62:
                raise Unreadable("tensor %s has a size of %d" % (legible(name), size))
            numel = min(numel * size, 1 << 62)
        if is_external and not external.get("location"):
            raise Unreadable("tensor %s lies in another file, which it does not name" % legible(name))
        return _Tensor(name, kind, numel, raw, plain, external if is_external else {})

    def _sizes(self, field: Field) -> List[int]:
        if field.wire == VARINT:
            return [signed(field.value)]
        found, at = [], field.at
        while field.wire == BYTES and at < field.at + field.value:
            value, at = self.window.varint(at, field.at + field.value)
            found.append(signed(value))
            if len(found) > 1000:
                raise Unreadable("a tensor has more than 1000 dimensions")
        return found

    def _add(self, tensor: _Tensor, is_weight: bool) -> None:
        """Prove that the data of a tensor has the bytes that its shape and type need."""
        self._tensors, self._numel = self._tensors + is_weight, self._numel + (tensor.numel if is_weight else 0)
        if is_weight:
            self._keys.add(tensor.name)
        if tensor.kind not in _TYPES and tensor.kind != _STRING:
            raise Unreadable("tensor %s has type %d, which is unknown" % (legible(tensor.name), tensor.kind))
        if tensor.external:
            self._take_external(tensor)
        elif tensor.kind == _STRING:
            if len(tensor.plain) != tensor.numel or any(field.number != _TEXTS for field in tensor.plain):
                raise _few(tensor, tensor.numel, len(tensor.plain), "texts")
        elif tensor.raw is not None:
            bits, counted, _ = _TYPES[tensor.kind]
            need = -(-tensor.numel * bits // 8)
            if need != tensor.raw.value:
                seen = (legible(tensor.name), tensor.numel, need, tensor.raw.value)
                raise Unreadable("tensor %s of %d elements needs %d bytes, it has %d" % seen)
            if counted:
                self._spans.append(Span(tensor.name or "a constant", counted, tensor.raw.at, tensor.raw.value))
        else:
            self._take_plain(tensor)

    def _take_plain(self, tensor: _Tensor) -> None:
        """Read values stored as numbers; packed floats are counted and examined."""
        _, counted, number = _TYPES[tensor.kind]
        width = _PACKED.get(number)
        if any(field.number != number for field in tensor.plain):
            raise Unreadable("tensor %s has values of another type than its own" % legible(tensor.name))
        if width is None:
            self._unread += bool(counted) and bool(tensor.plain)
            bits = _TYPES[tensor.kind][0]
            wanted = tensor.numel if bits >= 8 else -(-tensor.numel * bits // 8)
            found = sum(1 if field.wire == VARINT else self._varints(field) for field in tensor.plain)
            if wanted != found:
                raise _few(tensor, wanted, found, "numbers")
            return
        need, have = tensor.numel * width * (2 if counted.startswith("C") else 1), sum(f.value for f in tensor.plain)
        if need != have:
            seen = (legible(tensor.name), tensor.numel, need, have)
            raise Unreadable("tensor %s of %d elements needs %d bytes, it has %d" % seen)
        for field in tensor.plain:
            counter = Counter(counted)
            for piece in self._source.pieces(field.at, field.value):
                counter.take(piece)
            self._tally.add(tensor.name or "a constant", counter.nan, counter.inf)

    def _varints(self, field: Field) -> int:
        """Count the numbers of a packed field: each ends with a byte below 128."""
        count, last = 0, 0
        for piece in self._source.pieces(field.at, field.value):
            count, last = count + len(bytes(piece).translate(None, _LONG)), piece[-1]
        if last > 127:
            raise Unreadable("is damaged: no whole number at byte %d" % (field.at + field.value - 1))
        return count

    def _take_external(self, tensor: _Tensor) -> None:
        name = tensor.external.get("location", "")
        try:
            check_relative(name)
        except UnsafePath as problem:
            raise Unreadable(
                "tensor %s lies outside of the model's folder: %s" % (legible(tensor.name), problem)
            ) from None
        self._external[name] = self._external.get(name, 0) + 1
        if len(self._external) > 10_000:
            raise Unreadable("names more than 10,000 files of tensors")

    def _pair(self, place: Field) -> Tuple[str, str]:
        found = {}
        for field in self.window.fields(place.at, place.at + place.value, "an external place"):
            if field.wire == BYTES:
                found[field.number] = self._text(field)
        return found.get(1, ""), found.get(2, "")

    def _text(self, field: Field) -> str:
        if field.value > _MOST_TEXT_BYTES:
            raise Unreadable("a name at byte %d has %d bytes" % (field.at, field.value))
        try:
            return self.window.take(field.at, field.value).decode("utf-8")
        except UnicodeDecodeError:
            raise Unreadable("a name at byte %d is not UTF-8" % field.at) from None


def _few(tensor: _Tensor, wanted: int, found: int, what: str) -> Unreadable:
    return Unreadable("tensor %s needs %d %s, it has %d" % (legible(tensor.name), wanted, what, found))
