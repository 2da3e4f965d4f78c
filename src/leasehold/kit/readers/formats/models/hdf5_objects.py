"""HDF5's structures: the superblock, object headers of both versions with their checksums, heaps and trees of names."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Set, Tuple

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import Unreadable

SIGNATURE = b"\x89HDF\r\n\x1a\n"
NOWHERE = (1 << 64) - 1
_MOST_HEADER_BYTES = 16 << 20
_MOST_BLOCKS = 10_000  # of one object header
_MOST_NODES = 1_000_000
_MOST_DEPTH = 32
_MASK = 0xFFFFFFFF


class Message(NamedTuple):
    """A message of an object header; a shared one holds the address of its contents."""

    kind: int
    data: bytes
    shared: bool


class File:
    """An HDF5 file: addresses count from its first byte, and every one is checked before use."""

    def __init__(self, source: Source) -> None:
        self._source = source
        head = source.read_at(0, min(source.size, 96))
        if head[:8] != SIGNATURE:
            raise Unreadable("is not HDF5: it begins with %r" % head[:8])
        if len(head) < 48:
            raise Unreadable("cut short: %d bytes hold no superblock" % len(head))
        self.version = head[8]
        if self.version > 3:
            raise Unreadable("has superblock version %d; 0 to 3 are read" % self.version)
        sizes, places = (head[13:15], 24 + 4 * self.version) if self.version < 2 else (head[9:11], 12)
        if sizes != b"\x08\x08":
            raise Unreadable("has addresses of %d bytes; 8 are read" % sizes[0])
        base, _, end = (int.from_bytes(head[places + 8 * n : places + 8 * n + 8], "little") for n in range(3))
        if self.version >= 2:
            self._check_sum(head[:44], head[44:48], "superblock")
            self.root = int.from_bytes(head[36:44], "little")
        else:
            self.root = int.from_bytes(head[places + 40 : places + 48], "little")
        if base:
            raise Unreadable("begins at byte %d of the file, behind other data" % base)
        if end > source.size:
            raise Unreadable("cut short: its superblock says %d bytes, the file has %d" % (end, source.size))
        self.end = end

    def take(self, at: int, count: int, what: str) -> bytes:
        """Return bytes of the file."""
        if at == NOWHERE or at + count > self.end:
            raise Unreadable("cut short or lying: %s lies from byte %d to %d of %d" % (what, at, at + count, self.end))
        return self._source.read_at(at, count)

    def number(self, at: int, count: int, what: str) -> int:
        """Return a little-endian number of the file."""
        return int.from_bytes(self.take(at, count, what), "little")

    def messages(self, at: int) -> List[Message]:
        """Return the messages of the object header at an address."""
        head = self.take(at, 16, "an object header")
        if head[:4] == b"OHDR":
            return self._new_messages(at, head)
        if head[0] != 1 or head[1]:
            raise Unreadable("is damaged: no object header at byte %d" % at)
        wanted, size = int.from_bytes(head[2:4], "little"), int.from_bytes(head[8:12], "little")
        found: List[Message] = []
        blocks, seen = [(at + 16, size)], 0
        for begin, length in blocks:  # grows during the walk: a header continues elsewhere
            data = self._block(begin, length)
            place = 0
            while place + 8 <= len(data) and seen < wanted:
                kind, count = (
                    int.from_bytes(data[place : place + 2], "little"),
                    int.from_bytes(data[place + 2 : place + 4], "little"),
                )
                body = data[place + 8 : place + 8 + count]
                if len(body) != count:
                    raise Unreadable("is damaged: a message at byte %d ends past its header" % (begin + place))
                flags_at, place, seen = place + 4, place + 8 + count, seen + 1
                self._add(found, blocks, kind, body, data[flags_at])
        if seen != wanted:
            raise Unreadable("the object header at byte %d has %d messages, it claims %d" % (at, seen, wanted))
        return found

    def _new_messages(self, at: int, head: bytes) -> List[Message]:
        flags = head[5]
        place = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        size = self.number(at + place, width, "an object header")
        first = place + width
        if head[4] != 2:
            raise Unreadable("has an object header of version %d" % head[4])
        found: List[Message] = []
        blocks = [(at, first + size + 4)]
        for begin, length in blocks:
            data = self._block(begin, length)
            self._check_sum(data[:-4], data[-4:], "object header at byte %d" % begin)
            if begin != at and data[:4] != b"OCHK":
                raise Unreadable("is damaged: no continuation at byte %d" % begin)
            step, place = (6 if flags & 4 else 4), first if begin == at else 4
            while place + step <= len(data) - 4:
                count = int.from_bytes(data[place + 1 : place + 3], "little")
                body = data[place + step : place + step + count]
                if place + step + count > len(data) - 4:
                    raise Unreadable("is damaged: a message at byte %d ends past its header" % (begin + place))
                self._add(found, blocks, data[place], body, data[place + 3])
                place += step + count
        return found

    def _add(self, found: List[Message], blocks: List[Tuple[int, int]], kind: int, body: bytes, flags: int) -> None:
        if kind != 0x10:
            found.append(Message(kind, body, bool(flags & 2)))
            return
        blocks.append((int.from_bytes(body[:8], "little"), int.from_bytes(body[8:16], "little")))
        if len(blocks) > _MOST_BLOCKS:
            raise Unreadable("an object header continues at more than %d places" % _MOST_BLOCKS)

    def _block(self, at: int, length: int) -> bytes:
        if not 4 < length <= _MOST_HEADER_BYTES:
            raise Unreadable("an object header at byte %d claims %d bytes" % (at, length))
        return self.take(at, length, "an object header")

    def _check_sum(self, data: bytes, stored: bytes, what: str) -> None:
        if lookup3(data) != int.from_bytes(stored, "little"):
            raise Unreadable("is damaged: the %s has a wrong checksum" % what)

    def names(self, tree: int, heap: int) -> Iterator[Tuple[str, int]]:
        """Yield the names of an old group and the addresses that they stand for."""
        head = self.take(heap, 32, "a heap of names")
        if head[:4] != b"HEAP":
            raise Unreadable("is damaged: no heap of names at byte %d" % heap)
        size, place = int.from_bytes(head[8:16], "little"), int.from_bytes(head[24:32], "little")
        if size > _MOST_HEADER_BYTES:
            raise Unreadable("a heap of names claims %d bytes" % size)
        names = self.take(place, size, "a heap of names")
        for _, node in self.leaves(tree, 0, 8):
            entries = self.take(node, 8, "a list of names")
            if entries[:4] != b"SNOD":
                raise Unreadable("is damaged: no list of names at byte %d" % node)
            count = int.from_bytes(entries[6:8], "little")
            data = self.take(node + 8, 40 * count, "a list of names")
            for at in range(0, 40 * count, 40):
                begin = int.from_bytes(data[at : at + 8], "little")
                name = names[begin : names.find(b"\0", begin)] if begin < size else b""
                yield name.decode("utf-8", "replace"), int.from_bytes(data[at + 8 : at + 16], "little")

    def leaves(self, tree: int, kind: int, key_bytes: int) -> Iterator[Tuple[bytes, int]]:
        """Yield key and address of each leaf of a tree of version 1."""
        waiting = [(tree, -1)]
        seen: Set[int] = set()
        while waiting:
            at, level = waiting.pop()
            if at in seen or len(seen) > _MOST_NODES:
                raise Unreadable("is damaged: a tree leads back to itself at byte %d" % at)
            seen.add(at)
            head = self.take(at, 24, "a tree")
            if head[:4] != b"TREE" or head[4] != kind or (level >= 0 and head[5] != level) or head[5] > _MOST_DEPTH:
                raise Unreadable("is damaged: no tree at byte %d" % at)
            count, step = int.from_bytes(head[6:8], "little"), key_bytes + 8
            data = self.take(at + 24, count * step + key_bytes, "a tree")
            for place in range(0, count * step, step):
                child = int.from_bytes(data[place + key_bytes : place + step], "little")
                if head[5]:
                    waiting.append((child, head[5] - 1))
                else:
                    yield data[place : place + key_bytes], child

    def global_text(self, reference: bytes) -> bytes:
        """Return the element of variable length that a reference into a global heap points to."""
        length, heap, number = (int.from_bytes(reference[a:b], "little") for a, b in ((0, 4), (4, 12), (12, 16)))
        if self.take(heap, 4, "a global heap") != b"GCOL":
            raise Unreadable("is damaged: no global heap at byte %d" % heap)
        end, at = heap + self.number(heap + 8, 8, "a global heap"), heap + 16
        while at + 16 <= end:
            index, size = self.number(at, 2, "a global heap"), self.number(at + 8, 8, "a global heap")
            if index == number:
                return self.take(at + 16, min(size, length), "a global heap")
            at += 16 + -(-size // 8) * 8
            if not index:
                break
        raise Unreadable("is damaged: a text is not in the heap at byte %d" % heap)


def lookup3(data: bytes) -> int:
    """Return Jenkins' lookup3 of the data, as HDF5 computes it."""
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    at, left = 0, len(data)
    while left > 12:
        a, b, c = (
            value + int.from_bytes(data[at + n : at + n + 4], "little") & _MASK for value, n in ((a, 0), (b, 4), (c, 8))
        )
        for turn in (4, 6, 8, 16, 19, 4):
            a = ((a - c) ^ _turned(c, turn)) & _MASK
            c = (c + b) & _MASK
            a, b, c = b, c, a
        at, left = at + 12, left - 12
    if not left:
        return c
    rest = data[at:] + bytes(12 - left)
    a, b, c = (value + int.from_bytes(rest[n : n + 4], "little") & _MASK for value, n in ((a, 0), (b, 4), (c, 8)))
    for turn in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _turned(b, turn)) & _MASK
        a, b, c = b, c, a
    return b


def _turned(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK
