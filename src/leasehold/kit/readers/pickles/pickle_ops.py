"""Pickle bytes split into opcodes and arguments, every length checked before a byte is read.

Nothing is built or looked up here. pickletools.genops does the same without bounds: it copies what a length
field claims and turns decimal text of any length into numbers.
"""

from __future__ import annotations

import codecs
import re
import struct
from typing import Callable, Dict, Iterator, List, Optional, Tuple, Union

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import Limits, Unreadable

Operation = Tuple[int, object, int]  # opcode, argument, position
More = Callable[[], bytes]
_Decoder = Callable[[bytes, int], Tuple[object, int]]

STOP = ord(".")
GLOBAL = ord("c")
INST = ord("i")
_MAX_NUMBER_CHARS = 1000  # decimal text is converted in quadratic time
_MAX_NAME_BYTES = 1000
_MAX_LONG_BYTES = 4096
_LONG_BYTES = 1 << 20  # longer values are checked in pieces, and only their beginning is kept
_KEPT_CHARS = 256
NUMBERS = -1  # no byte: a run of plain numbers
_STREAK = 4  # this many in a row start a search for a run
_PLAIN_NUMBERS = frozenset(b"KMJG")
# At most 1000 a match: the regex engine keeps about 100 bytes for each repetition.
_FLOATS = re.compile(rb"(?:G.{8}){8,1000}", re.DOTALL)
_INTEGERS = re.compile(rb"(?:K.|M..|J.{4}){8,1000}", re.DOTALL)
_INTEGER = re.compile(rb"K.|M..|J.{4}", re.DOTALL)
_FLOAT_OPERATION = struct.Struct(">xd")
_FRAME = 0x95
_PUTS = frozenset(b"pqr")
_EXTENSIONS = frozenset(b"\x82\x83\x84")
_BUFFERS = frozenset(b"\x97\x98")


class LongBytes(bytes):
    """The beginning of long bytes; `whole` lies in the pickle itself and is not a copy."""

    whole: memoryview


def operations(data: bytes, limits: Limits, more: Optional[More] = None) -> Iterator[Operation]:
    """Yield the operations up to STOP, each with where it begins.

    STOP must be the last byte, unless `more` is given: then other data follows the pickle, and `more` returns a longer
    prefix of the same bytes; a prefix that is no longer means that there are no more. Runs of plain numbers are one
    operation, NUMBERS, with a list.
    """
    at = count = frame_end = streak = 0
    while True:
        try:
            if at >= len(data):
                raise Unreadable(f"pickle is cut short: no STOP in {len(data)} bytes")
            code = data[at]
            run = _run(data, at, frame_end if at < frame_end else len(data)) if streak >= _STREAK else None
            argument, following = run or _decoder(code, at)(data, at + 1)
            if code == _FRAME and following + _as_index(argument, at) > len(data):
                raise Unreadable(f"pickle is cut short: a frame of {argument} bytes is claimed at byte {at}")
        except Unreadable:
            longer = data if more is None else more()
            if len(longer) <= len(data):
                raise
            data = longer
            continue
        streak = streak + 1 if code in _PLAIN_NUMBERS and not run else 0
        count += len(run[0]) if run else 1
        if count > limits.max_pickle_ops:
            raise Unreadable(f"pickle has more than {limits.max_pickle_ops} operations")
        if code in _PUTS and _as_index(argument, at) >= limits.max_memo:
            raise Unreadable(f"pickle uses memo slot {argument} at byte {at}; slots stop at {limits.max_memo}")
        if at < frame_end < following:
            raise Unreadable(f"pickle has an operation at byte {at} that crosses the end of its frame")
        if code == _FRAME:
            if at < frame_end:  # CPython's C unpickler skips the rest of the outer frame, its Python one refuses
                raise Unreadable(f"pickle begins a frame at byte {at}, inside another one: readers differ about it")
            frame_end = following + _as_index(argument, at)
        if code == STOP and following != len(data) and more is None:
            raise Unreadable(f"pickle has {len(data) - following} bytes after its end")
        yield NUMBERS if run else code, argument, at
        at = following
        if code == STOP:
            return


def growing(source: Source, at: int, first_bytes: int, limits: Limits) -> More:
    """Return the `more` of a pickle that begins here in a file: each call returns a piece eight times as long."""
    size, most = 0, min(source.size - at, limits.max_pickle_bytes)

    def more() -> bytes:
        nonlocal size
        size = min(most, max(first_bytes, 8 * size))
        return source.read_at(at, size)

    return more


def _run(data: bytes, at: int, end: int) -> Optional[Tuple[List[Union[int, float]], int]]:
    """Return the plain numbers that follow one another from here, and where they end; None if they are few."""
    found = _FLOATS.match(data, at, end)
    if found:
        return [value for (value,) in _FLOAT_OPERATION.iter_unpack(found.group())], found.end()
    found = _INTEGERS.match(data, at, end)
    if not found:
        return None
    each = _INTEGER.findall(found.group())
    return [int.from_bytes(one[1:], "little", signed=len(one) == 5) for one in each], found.end()


def _decoder(code: int, at: int) -> _Decoder:
    try:
        return _DECODERS[code]
    except KeyError:
        raise _unknown(code, at) from None


def _unknown(code: int, at: int) -> Unreadable:
    if code in _EXTENSIONS:
        return Unreadable(f"pickle uses the extension registry (opcode {code:#04x} at byte {at}), never loaded here")
    if code in _BUFFERS:
        return Unreadable(f"pickle wants out-of-band buffers (opcode {code:#04x} at byte {at}) that no file has")
    return Unreadable(f"pickle has unknown opcode {code:#04x} at byte {at}")


def _as_index(argument: object, at: int) -> int:
    if not isinstance(argument, int) or argument < 0:
        raise Unreadable(f"pickle has memo index {argument!r} at byte {at}")
    return argument


def _beginning(view: memoryview, convert: Callable[[bytes, int], object], at: int) -> object:
    """Check a long text or bytes piece by piece and keep its beginning: whole, it takes up to four times the memory."""
    if convert is not _text:
        kept_bytes = LongBytes(view[:_KEPT_CHARS])
        kept_bytes.whole = view
        return kept_bytes
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    kept = ""
    try:
        for begin in range(0, len(view), _LONG_BYTES):
            piece = view[begin : begin + _LONG_BYTES]
            text = decoder.decode(bytes(piece), begin + _LONG_BYTES >= len(view))
            kept = kept or text[:_KEPT_CHARS]
    except UnicodeDecodeError as error:
        raise Unreadable(f"pickle text at byte {at} is not UTF-8") from error
    return f"{kept}... ({len(view)} bytes)"


def _check_left(data: bytes, at: int, count: int) -> None:
    if at + count > len(data):
        raise Unreadable(f"pickle is cut short or lying: byte {at} claims {count} more, {len(data) - at} are left")


def _take(data: bytes, at: int, count: int) -> bytes:
    _check_left(data, at, count)
    return data[at : at + count]


def _line(data: bytes, at: int, max_bytes: int) -> Tuple[bytes, int]:
    end = data.find(b"\n", at, at + max_bytes + 1)
    if end < 0:
        raise Unreadable(f"pickle has no line end within {max_bytes} bytes of byte {at}")
    return data[at:end], end + 1


def _nothing(data: bytes, at: int) -> Tuple[object, int]:
    return None, at


def _packed(form: str) -> _Decoder:
    layout = struct.Struct(form)

    def decode(data: bytes, at: int) -> Tuple[object, int]:
        return layout.unpack(_take(data, at, layout.size))[0], at + layout.size

    return decode


def _counted(length_bytes: int, convert: Callable[[bytes, int], object], max_bytes: int = 1 << 62) -> _Decoder:
    def decode(data: bytes, at: int) -> Tuple[object, int]:
        length = int.from_bytes(_take(data, at, length_bytes), "little")
        if length > max_bytes:
            raise Unreadable(f"pickle has a value of {length} bytes at byte {at}; at most {max_bytes} are read")
        start = at + length_bytes
        if length > _LONG_BYTES and convert is not _long:
            _check_left(data, start, length)
            return _beginning(memoryview(data)[start : start + length], convert, at), start + length
        return convert(_take(data, start, length), at), start + length

    return decode


def _lined(convert: Callable[[bytes, int], object], max_bytes: int = 1 << 31) -> _Decoder:
    def decode(data: bytes, at: int) -> Tuple[object, int]:
        line, end = _line(data, at, max_bytes)
        return convert(line, at), end

    return decode


def _two_lines(data: bytes, at: int) -> Tuple[object, int]:
    module, middle = _line(data, at, _MAX_NAME_BYTES)
    name, end = _line(data, middle, _MAX_NAME_BYTES)
    if not module or not name:
        raise Unreadable(f"pickle names nothing at byte {at}")
    return (_text(module, at), _text(name, middle)), end


def _text(raw: bytes, at: int) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Unreadable(f"pickle text at byte {at} is not UTF-8") from error


def _bytes(raw: bytes, at: int) -> bytes:
    return raw


def _old_text(raw: bytes, at: int) -> object:
    """Return the text that Python 3 makes of a Python 2 string; bytes if only some readers can make any."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _long(raw: bytes, at: int) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _int_or_bool(raw: bytes, at: int) -> object:
    if raw in (b"00", b"01"):  # protocol 0's booleans
        return raw == b"01"
    return _decimal(raw, at)


def _suffixed(raw: bytes, at: int) -> object:
    return _decimal(raw[:-1] if raw.endswith(b"L") else raw, at)


def _decimal(raw: bytes, at: int) -> object:
    try:
        return int(raw, 0)  # base 0, as pickle does: 09 is an error
    except ValueError as error:
        raise Unreadable(f"pickle number at byte {at} is {raw[:20]!r}") from error


def _float(raw: bytes, at: int) -> float:
    try:
        return float(raw)
    except ValueError as error:
        raise Unreadable(f"pickle number at byte {at} is {raw[:20]!r}") from error


def _quoted(raw: bytes, at: int) -> object:
    if len(raw) < 2 or raw[:1] != raw[-1:] or raw[:1] not in (b"'", b'"'):
        raise Unreadable(f"pickle string at byte {at} has no quotes")
    if b"\\" not in raw:
        return _old_text(raw[1:-1], at)
    try:
        return _old_text(codecs.escape_decode(raw[1:-1])[0], at)
    except ValueError as error:
        raise Unreadable(f"pickle string at byte {at} has a broken escape") from error


def _raw_unicode(raw: bytes, at: int) -> str:
    try:
        return raw.decode("raw-unicode-escape")
    except UnicodeDecodeError as error:
        raise Unreadable(f"pickle text at byte {at} has a broken escape") from error


_DECODERS: Dict[int, _Decoder] = {
    **dict.fromkeys(b"(.012NQRabd}el]otsu)", _nothing),
    **dict.fromkeys(b"\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94", _nothing),
    ord("K"): _packed("<B"),
    ord("M"): _packed("<H"),
    ord("J"): _packed("<i"),
    ord("G"): _packed(">d"),
    ord("h"): _packed("<B"),
    ord("j"): _packed("<I"),
    ord("q"): _packed("<B"),
    ord("r"): _packed("<I"),
    0x80: _packed("<B"),
    _FRAME: _packed("<Q"),
    ord("T"): _counted(4, _old_text),
    ord("U"): _counted(1, _old_text),
    ord("B"): _counted(4, _bytes),
    ord("C"): _counted(1, _bytes),
    0x8E: _counted(8, _bytes),
    0x96: _counted(8, _bytes),
    ord("X"): _counted(4, _text),
    0x8C: _counted(1, _text),
    0x8D: _counted(8, _text),
    0x8A: _counted(1, _long),
    0x8B: _counted(4, _long, _MAX_LONG_BYTES),
    ord("I"): _lined(_int_or_bool, _MAX_NUMBER_CHARS),
    ord("L"): _lined(_suffixed, _MAX_NUMBER_CHARS),
    ord("F"): _lined(_float, _MAX_NUMBER_CHARS),
    ord("g"): _lined(_decimal, 20),
    ord("p"): _lined(_decimal, 20),
    ord("S"): _lined(_quoted),
    ord("V"): _lined(_raw_unicode),
    ord("P"): _lined(_text, _MAX_NAME_BYTES),
    GLOBAL: _two_lines,
    INST: _two_lines,
}
