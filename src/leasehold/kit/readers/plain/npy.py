"""NumPy arrays, one (.npy) or a zip of them (.npz): a strict header, and bytes that fit it exactly."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Counter
from leasehold.kit.readers.base.result import KeyList, Limits, NumberTally, Reading, Unreadable, legible
from leasehold.kit.readers.zips.zip_records import check_record, open_archive

NPY_MAGIC = b"\x93NUMPY"
_NPZ_SUFFIX = ".npy"
_MAX_NDIM = 64
_MAX_DEPTH = 16

# Header text may hold only these tokens: without operators and names, literal_eval cannot be driven into deep
# recursion, which the brackets' depth bounds.
_TOKEN = re.compile(r"""[ \t\n]+|'[^'\\\n]*'|"[^"\\\n]*"|[0-9]{1,19}(?![0-9A-Za-z_.])|True|False|None|[()\[\]{},:]""")
_DESCR = re.compile(r"[<>|=]?([a-zA-Z?])([0-9]{0,9})(\[[^\]]*\])?")
_UNIT = re.compile(r"\[([0-9]{0,9}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)|generic)\]")
_FLOAT = re.compile(r"([<>=|]?)([fc][0-9]{1,2})")
FLOATS = {"f2": "F16", "f4": "F32", "f8": "F64", "c8": "C64", "c16": "C128"}
SIZES: Dict[str, Tuple[int, ...]] = {
    "b": (1,),
    "i": (1, 2, 4, 8),
    "u": (1, 2, 4, 8),
    "f": (2, 4, 8, 16),
    "c": (8, 16, 32),
    "m": (8,),
    "M": (8,),
}


@dataclass(frozen=True)
class NpyHeader:
    """The contents of an .npy header."""

    numel: int
    header_bytes: int
    data_bytes: int
    descr: object = ""

    def counter(self) -> Optional[Counter]:
        """Return a counter of its numbers that are not finite; None for a type without any, or one not examined."""
        found = _FLOAT.fullmatch(self.descr) if isinstance(self.descr, str) else None
        dtype = FLOATS.get(found.group(2)) if found else None
        return Counter(dtype, self.header_bytes, found.group(1) == ">") if found and dtype else None

    @property
    def unread(self) -> bool:
        """Return whether it holds numbers that are not counted: records, or floats wider than 8 bytes."""
        floats = isinstance(self.descr, str) and bool(_FLOAT.fullmatch(self.descr))
        return not isinstance(self.descr, str) or self.descr[1:2] == "V" or (floats and self.counter() is None)


def read_npy(source: Source, limits: Limits) -> Reading:
    """Read one array; its data must fill the file exactly."""
    head = source.read_at(0, min(source.size, limits.max_npy_header_bytes + 12))
    header = check_npy(head, source.size, limits)
    counter, tally = header.counter(), NumberTally()
    if counter is not None:
        for piece in source.pieces(0, source.size):
            counter.take(piece)
        tally.add("the array", counter.nan, counter.inf)
    numbers = None if header.unread else tally.numbers()
    return Reading("npy", source.size, tensors=1, numel=header.numel, numbers=numbers)


def read_npz(source: Source, limits: Limits) -> Reading:
    """Read every member: its CRC, then its header against its size."""
    keys, numel, tally, unread = KeyList(limits), 0, NumberTally(), 0
    records = open_archive(source, limits, any_names=True)
    if not records:
        raise Unreadable("holds no array: the zip is empty")
    for record in records:
        if not record.name.endswith(_NPZ_SUFFIX):
            raise Unreadable(f"holds {record.name!r}, which is not an .npy file")
        head = check_record(source, record, keep_bytes=limits.max_npy_header_bytes + 12)
        try:
            header = check_npy(head, record.bytes, limits)
        except Unreadable as error:
            raise Unreadable(f"member {record.name!r}: {error.reason}") from error
        numel += header.numel
        unread += header.unread
        counter = header.counter()
        if counter is not None:  # the type is known only now, so a member of floats is read twice
            check_record(source, record, look=counter.take)
            tally.add(record.name[: -len(_NPZ_SUFFIX)], counter.nan, counter.inf)
        keys.add(record.name[: -len(_NPZ_SUFFIX)])
    tally.unread = f"{unread} members of records or wide floats" if unread else ""
    said = tuple(keys.notes())
    return Reading("npz", source.size, len(records), numel, keys.names(), (), said, tally.numbers())


def check_npy(head: bytes, total_bytes: int, limits: Limits) -> NpyHeader:
    """Check the beginning of an .npy of `total_bytes`; `head` contains the whole of a header of allowed length."""
    if head[:6] != NPY_MAGIC:
        raise Unreadable(f"is not .npy: it begins with {head[:6]!r}")
    start, length = _header_place(head)
    if length > limits.max_npy_header_bytes:
        raise Unreadable(f".npy header claims {length} bytes; at most {limits.max_npy_header_bytes} are read")
    if start + length > len(head):
        raise Unreadable(f"cut short: the .npy header needs {start + length} bytes, the file has {total_bytes}")
    header = _parse_header(head[start : start + length], "utf-8" if head[6] >= 3 else "latin-1")
    numel, itemsize = _element_count(header["shape"]), _item_bytes(header["descr"])
    if isinstance(header["descr"], tuple):
        raise Unreadable("its .npy dtype is a subarray, which NumPy writes as a longer shape and does not read")
    found = total_bytes - start - length
    if numel * itemsize != found:
        raise Unreadable(
            f"shape {header['shape']} of {itemsize}-byte items needs {numel * itemsize} bytes of data,"
            f" the file has {found}"
        )
    return NpyHeader(numel, start + length, found, header["descr"])


def _header_place(head: bytes) -> Tuple[int, int]:
    if len(head) < 12:
        raise Unreadable(f"cut short: an .npy of {len(head)} bytes has no whole header")
    version = (head[6], head[7])
    if version == (1, 0):
        return 10, int.from_bytes(head[8:10], "little")
    if version in ((2, 0), (3, 0)):
        return 12, int.from_bytes(head[8:12], "little")
    raise Unreadable(f".npy version {version[0]}.{version[1]} is unknown; 1.0, 2.0 and 3.0 are read")


def _parse_header(raw: bytes, encoding: str) -> Dict[str, object]:
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f".npy header is not {encoding} text (byte {error.start})") from error
    _check_tokens(text)
    try:
        header = ast.literal_eval(text.strip(" \t\n"))
    except (ValueError, SyntaxError, TypeError) as error:
        raise Unreadable(f".npy header is not a Python literal: {legible(text)}") from error
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise Unreadable(f".npy header must hold descr, fortran_order and shape only: {legible(text)}")
    if not isinstance(header["fortran_order"], bool):
        raise Unreadable(f".npy fortran_order is {header['fortran_order']!r}, not a bool")
    return header


def _check_tokens(text: str) -> None:
    at = depth = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unreadable(f".npy header holds {text[at : at + 20]!a} where only literals may stand")
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(match.group(), 0)
        if depth > _MAX_DEPTH:
            raise Unreadable(f".npy header nests deeper than {_MAX_DEPTH}")
        at = match.end()


def _element_count(shape: object) -> int:
    if not isinstance(shape, tuple) or len(shape) > _MAX_NDIM:
        raise Unreadable(f".npy shape {legible(repr(shape))} is not a tuple of at most {_MAX_NDIM} sizes")
    numel = 1
    for size in shape:
        if not isinstance(size, int) or isinstance(size, bool):
            raise Unreadable(f".npy shape {legible(repr(shape))} holds something that is not a size")
        numel *= size
    return numel


def _item_bytes(descr: object) -> int:
    if isinstance(descr, str):
        return _plain_bytes(descr)
    if isinstance(descr, tuple) and len(descr) == 2:  # (base, shape): a subarray; depth is bounded already
        return _item_bytes(descr[0]) * _element_count(_as_shape(descr[1]))
    if isinstance(descr, list):
        _check_field_names(descr)
        return sum(_field_bytes(field) for field in descr)
    raise Unreadable(f".npy dtype {legible(repr(descr))} is not understood")


def _check_field_names(fields: List[object]) -> None:
    """Refuse a duplicate name or title, as NumPy does."""
    names: List[object] = []
    for field in fields:
        name = field[0] if isinstance(field, tuple) and field else ""
        names += [part for part in (name if isinstance(name, tuple) else (name,)) if part != ""]
    if not all(isinstance(name, str) for name in names):
        raise Unreadable(".npy dtype has a field whose name is not text")
    if len(set(names)) != len(names):
        raise Unreadable(".npy dtype names a field twice")


def _field_bytes(field: object) -> int:
    if not isinstance(field, tuple) or len(field) not in (2, 3):
        raise Unreadable(f".npy field {legible(repr(field))} is not (name, dtype) or (name, dtype, shape)")
    repeated = _element_count(_as_shape(field[2])) if len(field) == 3 else 1
    return _item_bytes(field[1]) * repeated


def _as_shape(shape: object) -> object:
    return (shape,) if isinstance(shape, int) else shape


def _plain_bytes(descr: str) -> int:
    match = _DESCR.fullmatch(descr)
    kind, size = (match.group(1), match.group(2)) if match else ("", "")
    unit = match.group(3) if match else None
    if unit is not None and (kind not in ("m", "M") or not _UNIT.fullmatch(unit)):
        raise Unreadable(f".npy dtype {legible(repr(descr))} has a unit that NumPy does not know")
    if kind == "O":
        raise Unreadable("holds pickled Python objects (dtype object), which are never loaded")
    if kind in ("S", "a", "U", "V"):
        return int(size or 0) * (4 if kind == "U" else 1)
    if kind == "?" and not size:
        return 1
    if not size or int(size) not in SIZES.get(kind, ()):
        raise Unreadable(f".npy dtype {legible(repr(descr))} is not understood")
    return int(size)
