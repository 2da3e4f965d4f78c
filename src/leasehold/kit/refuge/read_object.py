"""Read one small object whole, and put one: records of a refuge, never files of a state."""

from __future__ import annotations

import io

from leasehold.kit.files.canonical_json import sha256

from .place import LYING, Place, PlaceError


def read_object(place: Place, key: str, most_bytes: int) -> bytes:
    """Return an object's bytes; Absent if it is not there, PlaceError if it is larger than any record of ours."""
    parts, size = [], 0
    for part in place.get(key, 0, most_bytes + 1):
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            raise PlaceError(LYING, "%s in %s is larger than %d bytes" % (key, place.where, most_bytes))
    return b"".join(parts)


def put_object(place: Place, key: str, data: bytes) -> None:
    """Put a record and read it back; PlaceError(lying) if the place holds other bytes afterwards."""
    wanted = sha256(data)
    place.put(key, io.BytesIO(data), len(data), wanted)
    if place.read_back(key) != wanted:
        raise PlaceError(LYING, "%s holds other bytes under %s than were written" % (place.where, key))
