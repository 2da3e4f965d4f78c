"""Prove NumPy's types and shapes inside a pickle: a state that lies about objects would turn bytes into pointers."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from leasehold.kit.readers.base.result import Unreadable, legible
from leasehold.kit.readers.plain.npy import FLOATS, SIZES

from .stand_ins import Inert, Name
from .torch_names import PLAIN

_MAX_NDIM = 64
_MAX_SIZE = 2**63
_MOST_BYTES = 2**31  # of an element
_LETTERS = re.compile(r"([?a-zA-Z])([0-9]{0,9})")  # as numpy.dtype names itself in a pickle
_VARIABLE = {"S": 1, "a": 1, "U": 4, "V": 1}
_HAS_OBJECT, _LIST_PICKLE, _IS_POINTER = 1, 2, 4  # of a type's flags


class Entries(Inert):
    """A dict that keeps the entries that describe a field of a record."""

    __slots__ = ("fields", "is_in_use")

    def __init__(self, of: str) -> None:
        super().__init__(of)
        self.fields: Optional[Dict[int, Tuple[object, ...]]] = None  # by the place of the key
        self.is_in_use = False

    def set_item(self, key: object, value: object) -> None:
        """Keep the key, and the value if it contains a type."""
        if self.is_in_use:
            raise Unreadable("pickle changes the fields of a NumPy type that is made of them")
        if self.keys is None:
            self.keys = []
        if type(value) is tuple and value and isinstance(value[0], Dtype):
            self.fields = self.fields or {}
            self.fields[len(self.keys)] = value
        self.keys.append(key)


class Dtype(Inert):
    """A dtype: its letter and width, and the contents of its state."""

    __slots__ = ("big_endian", "has_objects", "item_bytes", "kind", "letters")

    def __init__(self, letters: str) -> None:
        super().__init__("numpy.dtype")
        self.letters = letters
        kind, width = letters[:1], letters[1:]
        self.kind = {"?": "b"}.get(kind, kind)
        self.has_objects = self.kind == "O"
        self.big_endian = False
        self.item_bytes = _item_bytes(kind, width)

    def set_state(self, state: object) -> None:
        """Read byte order, size and fields; the flags must agree with them."""
        if not isinstance(state, tuple) or len(state) not in (8, 9):
            raise Unreadable("pickle sets a NumPy type's state to something that is no state of it")
        version, order, subarray, names, fields, size, _, flags = state[:8]
        if (
            type(version) is not int
            or version not in (3, 4)
            or order not in ("<", ">", "|", "=")
            or type(flags) is not int
        ):
            raise Unreadable("pickle sets a NumPy type's state to something that is no state of it")
        if self.kind in _VARIABLE:
            if type(size) is not int or not 0 <= size < _MOST_BYTES:
                raise Unreadable("pickle gives a NumPy type a size that is none")
            self.item_bytes = size
        if (subarray, names, fields) != (None, None, None):
            if self.kind != "V":
                raise Unreadable("pickle gives fields to a NumPy type that is no record")
            self.has_objects = self._check_inner(subarray, names, fields)
        wanted = _HAS_OBJECT | _LIST_PICKLE if self.has_objects else 0
        if flags & (_HAS_OBJECT | _LIST_PICKLE | _IS_POINTER) & ~(_IS_POINTER if self.has_objects else 0) != wanted:
            raise Unreadable("pickle lies about whether a NumPy type holds objects: its bytes would become pointers")
        self.big_endian = order == ">"

    def _check_inner(self, subarray: object, names: object, fields: object) -> bool:
        """Prove that the parts of a record or a subarray fit its size; return whether it contains objects."""
        inner: List[Tuple[Dtype, int, int]] = []
        if subarray is not None:
            base, shape = subarray if isinstance(subarray, tuple) and len(subarray) == 2 else (None, None)
            if not isinstance(base, Dtype) or names is not None or fields is not None:
                raise Unreadable("pickle makes a NumPy subarray of something that is no type")
            inner.append((base, 0, elements((shape,) if type(shape) is int else shape)))
        else:
            inner += [(*field, 1) for field in _fields(names, fields)]
        for kind, offset, count in inner:
            if kind.item_bytes is not None and offset + count * kind.item_bytes > (self.item_bytes or 0):
                raise Unreadable("pickle makes a NumPy record with a field that lies outside of it")
        return any(kind.has_objects for kind, _, _ in inner)

    @property
    def scanned(self) -> str:
        """Return the name under which its numbers can be counted; empty for another type."""
        return FLOATS.get(self.letters, "")

    @property
    def may_be_nan(self) -> bool:
        """Return whether it can hold NaN, or objects that can."""
        return self.kind in ("f", "c", "O", "V") or self.item_bytes is None


def dtype_of(arguments: Tuple[object, ...]) -> Dtype:
    """Return the dtype that a call of numpy.dtype makes; one of a class that is listed as opaque has no size."""
    letters = arguments[0] if 1 <= len(arguments) <= 3 else None
    if isinstance(letters, Name) and letters.path not in PLAIN:
        return Dtype("V" if letters.path == "numpy.record" else "")
    if not isinstance(letters, str) or not _LETTERS.fullmatch(letters):
        seen = legible(repr(letters)) if isinstance(letters, str) else type(letters).__name__
        raise Unreadable("pickle names a NumPy type by %s, as NumPy names none" % seen)
    return Dtype(letters)


def elements(shape: object) -> int:
    """Multiply the sizes of a shape."""
    if not isinstance(shape, tuple) or len(shape) > _MAX_NDIM:
        raise Unreadable("an array's shape is no tuple of at most %d sizes" % _MAX_NDIM)
    numel = 1
    for size in shape:
        if type(size) is not int or not 0 <= size < _MAX_SIZE:
            seen = legible(repr(size)) if isinstance(size, int) and abs(size) < 2**64 else type(size).__name__
            raise Unreadable("an array's shape holds %s, which is not a size" % seen)
        numel = min(numel * size, _MAX_SIZE)
    return numel


def _fields(names: object, fields: object) -> List[Tuple[Dtype, int]]:
    """Return type and offset of each field of a record."""
    known = fields.fields if isinstance(fields, Entries) else None
    if not isinstance(fields, Entries) or known is None or len(known) != len(fields.keys or ()):
        raise Unreadable("pickle makes a NumPy record of something that is no list of its fields")
    fields.is_in_use = True
    keys = fields.keys or []
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name in keys for name in names):
        raise Unreadable("pickle names a field of a NumPy record that it does not have")
    found: List[Tuple[Dtype, int]] = []
    for field in known.values():
        kind, offset = field[0], field[1] if len(field) in (2, 3) else None
        if not isinstance(kind, Dtype) or type(offset) is not int or not 0 <= offset < _MOST_BYTES:
            raise Unreadable("pickle places a field of a NumPy record at no offset")
        found.append((kind, offset))
    return found


def _item_bytes(kind: str, width: str) -> Optional[int]:
    """Return the bytes of an element; None if the name does not determine them, as for objects."""
    if (kind == "b" and width == "1") or kind == "?":
        return 1
    if not width:
        return None
    if kind in _VARIABLE:
        return int(width) * _VARIABLE[kind]
    return int(width) if int(width) in SIZES.get(kind, ()) else None
