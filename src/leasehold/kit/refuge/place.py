"""A place keeps objects by key: a folder on a tier, an object store. Keys are relative paths with `/`."""

from __future__ import annotations

from typing import BinaryIO, Iterator, NamedTuple, Optional, Protocol

FULL, READ_ONLY, REFUSED = "full", "read_only", "refused"
UNREACHABLE, LYING, ABSENT = "unreachable", "lying", "absent"
KINDS = (FULL, READ_ONLY, REFUSED, UNREACHABLE, LYING, ABSENT)


class PlaceError(Exception):
    """A place did not do what was asked; `kind` is one of KINDS, str() is a sentence for people."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Absent(PlaceError):
    """The key is not there."""

    def __init__(self, why: str) -> None:
        super().__init__(ABSENT, why)


class SourceChanged(Exception):
    """The source gave other bytes than were announced; nothing was put. The place is not at fault."""


class Stored(NamedTuple):
    """An object as its place lists it."""

    key: str
    bytes: int
    modified_unix: float


class Place(Protocol):
    """Keeps objects by key. Every method may raise PlaceError, and may block as long as the place does."""

    where: str  # for people: "s3://bucket/prefix", "/root/autodl-fs"

    def put(self, key: str, source: BinaryIO, size: int, sha256: str) -> None:
        """Keep a whole object, durably, replacing an older one; SourceChanged if the source differs from size, sha256.

        Until it returns, a reader finds the older object or none, never a part.
        """

    def put_new(self, key: str, data: bytes) -> bool:
        """Create an object only if the key is free; of several that try at once, exactly one gets True."""

    def get(self, key: str, start: int = 0, length: Optional[int] = None) -> Iterator[bytes]:
        """Read an object, or a part of it, up to its end; Absent is raised by the call itself."""

    def list(self, prefix: str) -> Iterator[Stored]:
        """List whole objects whose key begins with the prefix, in any order; none is no error."""

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is no error."""

    def read_back(self, key: str) -> str:
        """Return the sha256 of what the place really holds now, read from it and not from a memory of the upload."""
