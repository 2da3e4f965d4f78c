"""Safetensors: a JSON header that accounts for every byte of the file, or a refusal."""

from __future__ import annotations

import json
from typing import Dict, List, Set, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Finding, Span, scan
from leasehold.kit.readers.base.result import KeyList, Limits, Reading, Unreadable, legible

from .json_text import check_depth

_DTYPE_BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E4M3B11FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    "C128": 128,
}
_MAX_DIGITS = 19  # below 2**63

_Pairs = List[Tuple[str, object]]


def read_safetensors(source: Source, limits: Limits) -> Reading:
    """Read the header, check that the tensors lie end to end from it to the end of the file, and scan their numbers."""
    return read_safetensors_numbers(source, limits)[0]


def read_safetensors_numbers(source: Source, limits: Limits) -> Tuple[Reading, Finding]:
    """Read the file as read_safetensors does; return the scan result of its numbers, too."""
    header = _read_header(source, limits)
    keys, notes = KeyList(limits), []
    spans, numel = [], 0
    for name, fields in header.items():
        if name == "__metadata__":
            _check_metadata(fields)
            continue
        begin, end, count = _tensor_span(name, fields)
        spans.append((begin, end, name))
        numel += count
        keys.add(name)
    _check_contiguous(spans, source.size - _data_start(source))
    if not spans:
        notes.append("holds no tensors")
    found = scan(source, spans_and_metadata(source, limits)[0])
    said = tuple(notes + keys.notes())
    return Reading("safetensors", source.size, len(spans), numel, keys.names(), (), said, found.numbers), found


def spans_and_metadata(source: Source, limits: Limits) -> Tuple[List[Span], Dict[str, str]]:
    """Return the place of each tensor, and the metadata, of a file that read_safetensors has read."""
    header = _read_header(source, limits)
    metadata = header.pop("__metadata__", {})
    _check_metadata(metadata)
    start, spans = _data_start(source), []
    for name, fields in header.items():
        begin, end, _ = _tensor_span(name, fields)
        assert isinstance(fields, dict)
        spans.append(Span(name, str(fields["dtype"]), start + begin, end - begin))
    assert isinstance(metadata, dict)
    return spans, metadata


def _data_start(source: Source) -> int:
    return 8 + int.from_bytes(source.read_at(0, 8), "little")


def _read_header(source: Source, limits: Limits) -> Dict[str, object]:
    if source.size < 8:
        raise Unreadable(f"cut short: {source.size} bytes cannot hold a safetensors header")
    length = _data_start(source) - 8
    if length > source.size - 8:
        raise Unreadable(f"header claims {length} bytes, the file has {source.size - 8} after the length")
    if length > limits.max_header_bytes:
        raise Unreadable(f"header claims {length} bytes; at most {limits.max_header_bytes} are read")
    raw = source.read_at(8, length)
    if raw[:1] != b"{":
        raise Unreadable(f"is not safetensors: the header begins with {raw[:8]!r}, not with {{")
    return _parse_header(raw, limits)


def _parse_header(raw: bytes, limits: Limits) -> Dict[str, object]:
    try:
        text = raw.decode("utf-8")
        check_depth(text, limits)
        header = json.loads(text, object_pairs_hook=_distinct, parse_int=_bounded_int, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Unreadable(f"header is not UTF-8 text (byte {error.start})") from error
    except ValueError as error:
        raise Unreadable(f"header is not JSON: {legible(str(error))}") from error
    if not isinstance(header, dict):
        raise Unreadable("header is not a JSON object")
    if len(header) > limits.max_items:
        raise Unreadable(f"header names {len(header)} tensors; at most {limits.max_items} are read")
    return header


def _distinct(pairs: _Pairs) -> Dict[str, object]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: Set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Unreadable(f"header names {legible(repr(name))} twice")
        seen.add(name)
    return found


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise Unreadable(f"header holds a number of {len(digits)} digits")
    return int(digits)


def _no_constant(name: str) -> object:
    raise Unreadable(f"header holds {name}, which is not JSON")


def _check_metadata(fields: object) -> None:
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise Unreadable("__metadata__ must map text to text")


def _tensor_span(name: str, fields: object) -> Tuple[int, int, int]:
    """Return begin, end and element count of one tensor, proven to agree."""
    shown = legible(repr(name))
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise Unreadable(f"tensor {shown} must have dtype, shape and data_offsets only")
    bits = _DTYPE_BITS.get(str(fields["dtype"]))
    if bits is None:
        raise Unreadable(f"tensor {shown} has dtype {legible(repr(fields['dtype']))}, which is unknown")
    numel = 1
    for size in _naturals(fields["shape"], f"shape of tensor {shown}"):
        numel = min(numel * size, 2**64)  # the product of a thousand sizes would be a number of 19,000 digits
    offsets = _naturals(fields["data_offsets"], f"data_offsets of tensor {shown}")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise Unreadable(f"tensor {shown} has data_offsets {offsets}, not a beginning and an end")
    if numel * bits != (offsets[1] - offsets[0]) * 8:
        raise Unreadable(
            f"tensor {shown} of shape {legible(str(fields['shape']))} and dtype {fields['dtype']} needs"
            f" {numel * bits // 8} bytes, its offsets hold {offsets[1] - offsets[0]}"
        )
    return offsets[0], offsets[1], numel


def _naturals(value: object, what: str) -> List[int]:
    if not isinstance(value, list):
        raise Unreadable(f"{what} is not a list")
    for number in value:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise Unreadable(f"{what} holds {legible(repr(number))}, not a natural number")
    return value


def _check_contiguous(spans: List[Tuple[int, int, str]], data_bytes: int) -> None:
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            fault = "overlaps the one before" if begin < at else f"leaves {begin - at} bytes unused before it"
            raise Unreadable(f"tensor {legible(repr(name))} at byte {begin} {fault}")
        at = end
    if at != data_bytes:
        raise Unreadable(f"the header accounts for {at} bytes of data, the file has {data_bytes}")
