"""Frames on the wire: length, request id and type, then a bounded payload.

Both ends may have several requests in flight; bulk chunks of one interleave with events of another.
Nothing relies on end-of-file: each answer ends in END or ERROR.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, Dict, Mapping, NamedTuple, Optional

MAGIC = b"LEASEHOLD/1 "
HEADER = struct.Struct(">IIB")
MAX_PAYLOAD_BYTES = 4 << 20
CHUNK_BYTES = 256 << 10
BLOCK_BYTES = 1 << 20  # of artifacts: the unit of hashing, skipping and resending
ENTRIES_A_FRAME = 250  # of a list of files; of the longest paths, escaped: 3 MB
NO_SUM = bytes(32)  # in a list of hashes, for a file whose hash is not known

JSON, DATA, END, ERROR = 1, 2, 3, 4
PACKED = 5  # an object too long for one frame: on the wire only, readers see JSON
_PACK_OVER_BYTES = 1 << 20
_MAX_OBJECT_BYTES = 128 << 20


class WireError(Exception):
    """The peer broke the protocol, or the stream ended inside a frame."""


class Frame(NamedTuple):
    """One message: which request it belongs to, what it is, its bytes."""

    request: int
    type: int
    payload: bytes

    def json(self) -> Dict[str, Any]:
        """Decode an object payload."""
        try:
            value = json.loads(self.payload.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise WireError("a frame does not hold JSON: %s" % error) from None
        if not isinstance(value, dict):
            raise WireError("a frame holds %s where an object belongs" % type(value).__name__)
        return value


def pack(request: int, type_: int, payload: bytes = b"") -> bytes:
    """Encode one frame."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise WireError("a frame of %d bytes exceeds the limit of %d" % (len(payload), MAX_PAYLOAD_BYTES))
    return head(request, type_, len(payload)) + payload


def head(request: int, type_: int, length: int) -> bytes:
    """Encode the header of a payload."""
    return HEADER.pack(length, request, type_)


def pack_json(request: int, value: Mapping[str, Any], type_: int = JSON) -> bytes:
    """Encode one frame with an object in it; ASCII, so that file names that are not UTF-8 travel too."""
    data = json.dumps(value, separators=(",", ":")).encode("ascii")
    if len(data) > _PACK_OVER_BYTES and type_ == JSON:  # ten thousand similar cells
        import zlib

        return pack(request, PACKED, zlib.compress(data, 1))
    return pack(request, type_, data)


def read_frame(stream: BinaryIO) -> Optional[Frame]:
    """Read the next frame; None at a clean end between frames."""
    head = _read_exactly(stream, HEADER.size, may_end=True)
    if head is None:
        return None
    length, request, type_ = HEADER.unpack(head)
    if length > MAX_PAYLOAD_BYTES or type_ not in (JSON, DATA, END, ERROR, PACKED):
        raise WireError("not a frame: length %d, type %d" % (length, type_))
    payload = _read_exactly(stream, length, may_end=False)
    assert payload is not None
    return Frame(request, JSON, _unpacked(payload)) if type_ == PACKED else Frame(request, type_, payload)


def _unpacked(payload: bytes) -> bytes:
    import zlib

    inflating = zlib.decompressobj()
    try:
        data = inflating.decompress(payload, _MAX_OBJECT_BYTES)
    except zlib.error as error:
        raise WireError("a packed frame cannot be unpacked: %s" % error) from None
    if inflating.unconsumed_tail:
        raise WireError("a packed frame holds more than %d bytes" % _MAX_OBJECT_BYTES)
    return data


def _read_exactly(stream: BinaryIO, count: int, may_end: bool) -> Optional[bytes]:
    parts = []
    missing = count
    while missing:
        part = stream.read(missing)
        if not part:
            if may_end and missing == count:
                return None
            raise WireError("the stream ended %d bytes short of a frame" % missing)
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
