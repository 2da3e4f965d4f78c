"""Write a table as Parquet without a library: one row group, plain values, no compression.

The format: https://github.com/apache/parquet-format (thrift compact protocol for the headers).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

Value = str | int | float | bool | None
_MAGIC = b"PAR1"
_BOOLEAN, _INT64, _DOUBLE, _BYTES = 0, 2, 5, 6  # physical types
_OPTIONAL, _UTF8, _PLAIN, _RLE, _DATA_PAGE = 1, 0, 0, 3, 0
Field = tuple[int, int, int | bytes]
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12  # thrift compact types


def write_parquet(columns: dict[str, Sequence[Value]]) -> bytes:
    """Spell columns of equal length; a column's type is the widest of its values, and None is null."""
    rows = max((len(values) for values in columns.values()), default=0)
    body = bytearray(_MAGIC)
    chunks = []
    for name, values in columns.items():
        kind = _kind(values)
        page = _page(values, kind)
        header = _page_header(len(page), len(values))
        chunks.append((name, kind, len(body), len(header) + len(page), len(values)))
        body += header + page
    footer = _footer(chunks, rows)
    return bytes(body + footer + struct.pack("<I", len(footer)) + _MAGIC)


def _kind(values: Sequence[Value]) -> int:
    seen = {type(value) for value in values if value is not None}
    if seen <= {bool} and seen:
        return _BOOLEAN
    if seen <= {int} and seen and all(-(1 << 63) <= int(v) < 1 << 63 for v in values if v is not None):
        return _INT64
    return _DOUBLE if seen <= {int, float} and seen else _BYTES


def _page(values: Sequence[Value], kind: int) -> bytes:
    """Definition levels (which are null) as one bit-packed run, then the values that are there."""
    groups = (len(values) + 7) // 8
    bits = bytearray(groups)
    for place, value in enumerate(values):
        if value is not None:
            bits[place // 8] |= 1 << place % 8
    levels = _varint(groups << 1 | 1) + bytes(bits)
    there = [value for value in values if value is not None]
    return struct.pack("<I", len(levels)) + levels + _plain(there, kind)


def _plain(there: Sequence[Value], kind: int) -> bytes:
    if kind == _BOOLEAN:
        bits = bytearray((len(there) + 7) // 8)
        for place, value in enumerate(there):
            bits[place // 8] |= bool(value) << place % 8
        return bytes(bits)
    if kind == _INT64:
        return struct.pack(f"<{len(there)}q", *there)
    if kind == _DOUBLE:
        return struct.pack(f"<{len(there)}d", *(float(value) for value in there if value is not None))
    texts = [_text(value).encode("utf-8") for value in there]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _page_header(size: int, count: int) -> bytes:
    data = _struct([(1, _I32, count), (2, _I32, _PLAIN), (3, _I32, _RLE), (4, _I32, _RLE)])
    return _struct([(1, _I32, _DATA_PAGE), (2, _I32, size), (3, _I32, size), (5, _STRUCT, data)])


def _footer(chunks: list[tuple[str, int, int, int, int]], rows: int) -> bytes:
    schema = [_struct([(4, _BINARY, b"sweep"), (5, _I32, len(chunks))])]
    groups = []
    for name, kind, start, size, count in chunks:
        leaf: list[Field] = [(1, _I32, kind), (3, _I32, _OPTIONAL), (4, _BINARY, name.encode("utf-8"))]
        if kind == _BYTES:
            leaf.append((6, _I32, _UTF8))
        schema.append(_struct(leaf))
        meta = _struct(
            [
                (1, _I32, kind),
                (2, _LIST, _list(_I32, [_zigzag(_PLAIN), _zigzag(_RLE)])),
                (3, _LIST, _list(_BINARY, [_binary(name.encode("utf-8"))])),
                (4, _I32, 0),
                (5, _I64, count),
                (6, _I64, size),
                (7, _I64, size),
                (9, _I64, start),
            ]
        )
        groups.append(_struct([(2, _I64, start), (3, _STRUCT, meta)]))
    whole = sum(chunk[3] for chunk in chunks)
    group = _struct([(1, _LIST, _list(_STRUCT, groups)), (2, _I64, whole), (3, _I64, rows)])
    fields: list[Field] = [
        (1, _I32, 1),
        (2, _LIST, _list(_STRUCT, schema)),
        (3, _I64, rows),
        (4, _LIST, _list(_STRUCT, [group])),
    ]
    return _struct([*fields, (6, _BINARY, b"leasehold")])


def _struct(fields: Sequence[Field]) -> bytes:
    out, last = bytearray(), 0
    for number, kind, value in fields:
        out.append((number - last) << 4 | kind)
        last = number
        if isinstance(value, int):
            out += _zigzag(value)
        else:
            out += _binary(value) if kind == _BINARY else value
    return bytes(out) + b"\0"


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
    return head + b"".join(items)


def _binary(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
