"""Read a compressed file as its decompressed bytes, forwards, in bounded pieces; nothing is written."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Callable, Iterator, NamedTuple, Union

from leasehold.kit.readers.base.bounded_file import CHUNK_BYTES, Source
from leasehold.kit.readers.base.result import Limits, Unreadable

_IN_BYTES = 64 * 1024
_LZMA_MEMORY = 256 << 20


class _Zlib:
    """Wraps zlib's object, whose unused input is kept outside of it; here it is kept inside, as in bz2 and lzma."""

    def __init__(self, bits: int) -> None:
        self._stream, self._waiting = zlib.decompressobj(bits), b""

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        found = self._stream.decompress(self._waiting + data, max_length)
        self._waiting = self._stream.unconsumed_tail
        return found


_Stream = Union[_Zlib, bz2.BZ2Decompressor, lzma.LZMADecompressor]


class Packing(NamedTuple):
    """A compression format: its name, how to open a stream of it, and whether several may follow each other."""

    name: str
    open: Callable[[], _Stream]
    many: bool = True


GZIP = Packing("gzip", lambda: _Zlib(31))
ZLIB = Packing("zlib", lambda: _Zlib(15), many=False)
BZIP2 = Packing("bzip2", bz2.BZ2Decompressor)
XZ = Packing("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY))
LZMA = Packing("lzma", lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=_LZMA_MEMORY), many=False)


class Inflated(Source):
    """The contents of a compressed file. Opening it decompresses all once: checksums are checked, the size is known."""

    def __init__(self, source: Source, packing: Packing, limits: Limits) -> None:
        self._packed, self._packing, self._limits = source, packing, limits
        self.path = source.path
        self.size = sum(map(len, self._stream()))
        if not self.size:
            raise Unreadable("holds nothing: its %s stream is empty" % packing.name)
        self._pieces_left = self._stream()
        self._base, self._held = 0, bytearray()

    def read_at(self, offset: int, count: int) -> bytes:
        """Return exactly `count` bytes; what lies before `offset` is discarded."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise Unreadable(
                "cut short or lying: bytes %d to %d are needed, it inflates to %d" % (offset, offset + count, self.size)
            )
        if offset < self._base:
            self._restart()
        while self._base + len(self._held) < offset + count:
            spare = offset - self._base
            if spare >= len(self._held):
                self._base, self._held = self._base + len(self._held), bytearray()
            elif spare > CHUNK_BYTES:
                self._base += spare
                del self._held[:spare]
            self._held += next(self._pieces_left)
        return bytes(self._held[offset - self._base : offset - self._base + count])

    def window(self, offset: int, count: int) -> Source:
        """Refuse: two readers of one stream would decompress it over and over."""
        raise Unreadable("is compressed, so that no part of it can be read alone")

    def pieces(self, offset: int, count: int) -> Iterator[memoryview]:
        """Yield the bytes in pieces of at most CHUNK_BYTES."""
        while count > 0:
            piece = self.read_at(offset, min(count, CHUNK_BYTES))
            yield memoryview(piece)
            offset, count = offset + len(piece), count - len(piece)

    def close(self) -> None:
        """Leave the file open for the caller that opened it."""

    def _restart(self) -> None:
        self._pieces_left, self._base, self._held = self._stream(), 0, bytearray()

    def _stream(self) -> Iterator[bytes]:
        """Decompress the file from its first byte; it must end with a whole stream."""
        stream, total = self._packing.open(), 0
        for piece in self._packed_pieces():
            data = piece
            while data or not stream.eof:
                if stream.eof:
                    if not self._packing.many:
                        raise Unreadable("has bytes behind the end of its %s stream" % self._packing.name)
                    stream = self._packing.open()
                found = self._inflate(stream, data)
                data = stream.unused_data if stream.eof else b""
                total += len(found)
                self._check_bomb(total)
                yield found
                if not stream.eof and len(found) < CHUNK_BYTES:
                    break  # all of the piece is decompressed
        if not stream.eof:
            raise Unreadable("is cut short: its %s stream has no end" % self._packing.name)

    def _packed_pieces(self) -> Iterator[bytes]:
        for at in range(0, self._packed.size, _IN_BYTES):
            yield self._packed.read_at(at, min(_IN_BYTES, self._packed.size - at))

    def _inflate(self, stream: _Stream, data: bytes) -> bytes:
        try:
            return stream.decompress(data, CHUNK_BYTES)
        except (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError) as error:
            raise Unreadable("does not inflate as %s: %s" % (self._packing.name, error)) from error

    def _check_bomb(self, total: int) -> None:
        most = max(self._limits.ratio_free_bytes, self._packed.size * self._limits.max_inflate_ratio)
        if total > min(most, self._limits.max_inflated_bytes):
            seen = (self._packing.name, self._packed.size, total)
            raise Unreadable("%s bomb: %d bytes inflate to %d and more" % seen)
