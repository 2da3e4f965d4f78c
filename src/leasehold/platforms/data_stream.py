"""Send data to a box: find out what it lacks, then send only those bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

from leasehold.kit.wire import frames
from leasehold.transport.wire import Wire

_FILES_A_HEAD = 1000

Tell = Callable[[int], None]  # the number of additional bytes that were sent


class Data(Protocol):
    """Data that can be sent."""

    @property
    def sha256(self) -> str:
        """Return its name on every box."""

    @property
    def text(self) -> bytes:
        """Return the list that this name is the hash of."""

    @property
    def entries(self) -> Sequence[dict[str, Any]]:
        """Return files {path, bytes, sha256}."""

    def read(self, entry: dict[str, Any], offset: int) -> Iterator[bytes]:
        """Yield a file's bytes from offset on."""


class Lacking(NamedTuple):
    """A file that is not whole on the box, and how much of it is there."""

    entry: dict[str, Any]
    offset: int

    @property
    def missing(self) -> int:
        """Return how many bytes are still to be sent."""
        return int(self.entry["bytes"]) - self.offset


def ask_lacking(wire: Wire, data: Data) -> list[Lacking]:
    """Ask the box which files it lacks; it refuses if there is no room for them. None: all is there."""
    packed = zlib.compress(data.text, 1)
    size = frames.CHUNK_BYTES
    listed = (packed[start : start + size] for start in range(0, len(packed), size))
    lacking: dict[str, int] = {}
    for answer in wire.objects("want_data", listed, tree=data.sha256):
        lacking.update((str(name), int(here)) for name, _, here in answer.get("names", ()))
    found = []
    for entry in data.entries:
        offset = lacking.pop(str(entry["sha256"]), None)
        if offset is not None:
            found.append(Lacking(entry, max(0, min(offset, int(entry["bytes"])))))
    return found


def send(wire: Wire, data: Data, lacking: Sequence[Lacking], tell: Tell) -> None:
    """Send what is lacking; the box checks each file's hash, and names the data once all files are there."""
    talk = wire.talk("put_data", tree=data.sha256)
    try:
        talk.say(takewhile(lambda _: not talk.answered, _stream(data, lacking, tell)))  # a refusal ends it early
        talk.end()
        for _ in talk:
            pass
    finally:
        talk.leave()


def _stream(data: Data, lacking: Sequence[Lacking], tell: Tell) -> Iterator[dict[str, Any] | bytes]:
    for start in range(0, len(lacking), _FILES_A_HEAD):
        batch = lacking[start : start + _FILES_A_HEAD]
        yield {"files": [[one.entry["sha256"], int(one.entry["bytes"]), one.offset] for one in batch]}
        for part in _end_to_end(data, batch):
            yield part
            tell(len(part))


def _end_to_end(data: Data, batch: Sequence[Lacking]) -> Iterator[bytes]:
    held = bytearray()
    for one in batch:
        sent = 0
        for chunk in data.read(one.entry, one.offset):
            held += chunk
            sent += len(chunk)
            if len(held) >= frames.CHUNK_BYTES:
                yield bytes(held)
                held.clear()
        while sent < one.missing:  # it shrank meanwhile: the box will refuse its hash
            filler = bytes(min(frames.CHUNK_BYTES, one.missing - sent))
            sent += len(filler)
            held += filler
            if len(held) >= frames.CHUNK_BYTES:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)
