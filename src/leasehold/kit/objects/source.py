"""The bytes that are put: read once, in order, and compared with the size and hash that were announced."""

from __future__ import annotations

import hashlib
from typing import BinaryIO, Callable

from leasehold.kit.refuge.place import SourceChanged

from .connections import read_into

_BLOCK_BYTES = 1 << 20


class Source:
    """Reads a stream block by block and hashes it on the way."""

    def __init__(self, stream: BinaryIO, size: int, sha256: str, tick: Callable[[int], None] = lambda _: None) -> None:
        self.size = size
        self.sha256 = sha256
        self._stream = stream
        self._tick = tick
        self._begin = stream.tell() if stream.seekable() else None
        self._sha = hashlib.sha256()
        self._read = 0

    def rewind(self) -> None:
        """Start again at the first byte; a stream that was not read yet needs no seek."""
        if not self._read:
            return
        if self._begin is None:
            raise SourceChanged("the source can be read only once")
        self._stream.seek(self._begin)
        self._sha, self._read = hashlib.sha256(), 0

    def fill(self, view: memoryview) -> None:
        """Read the next bytes into a buffer; SourceChanged if the stream ends before it is full."""
        for at in range(0, len(view), _BLOCK_BYTES):
            part = view[at : at + _BLOCK_BYTES]
            if read_into(self._into, part) < len(part):
                raise SourceChanged("the source ends after %d of %d bytes" % (self._read, self.size))
            self._sha.update(part)  # while it is still in the processor's cache
            self._tick(len(part))

    def finish(self) -> None:
        """Compare with what was announced; SourceChanged if it differs."""
        if self._into(memoryview(bytearray(1))):
            raise SourceChanged("the source is longer than %d bytes" % self.size)
        if self._sha.hexdigest() != self.sha256:
            raise SourceChanged("the source's bytes have another sha256 than was announced")

    def all(self) -> bytes:
        """Read everything; for small sources."""
        data = bytearray(self.size)
        self.fill(memoryview(data))
        self.finish()
        return bytes(data)

    def _into(self, view: memoryview) -> int:
        read = getattr(self._stream, "readinto", None)
        try:
            if read is not None:
                count = int(read(view) or 0)
            else:
                data = self._stream.read(len(view))
                count = len(data)
                view[:count] = data
        except OSError as error:
            raise SourceChanged("the source cannot be read: %s" % (error.strerror or error)) from None
        self._read += count
        return count
