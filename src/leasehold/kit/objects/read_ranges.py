"""Read an object in order while several ranges of it arrive at once; a cut range continues where it stopped."""

from __future__ import annotations

import http.client
import re
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Deque, Iterator, List, NamedTuple, Optional, Tuple

from leasehold.kit.refuge.place import LYING, REFUSED, UNREACHABLE, PlaceError

from .bucket import Bucket, Request
from .connections import read_into
from .failures import Refused, place_error

RANGE_BYTES = 8 << 20
BLOCK_BYTES = 1 << 20  # larger ones leave the processor's cache before they are hashed and written: 3 times the time
STREAMS = 4
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)\Z")


class Head(NamedTuple):
    """The object as its first answer describes it."""

    total: int
    tag: str  # If-Match of the following ranges; empty if the store gives none
    ranged: bool  # the store serves ranges


class ObjectReader:
    """Reads one object; open() learns its size, blocks() yields its bytes."""

    def __init__(
        self, bucket: Bucket, key: str, start: int = 0, length: Optional[int] = None, streams: int = STREAMS
    ) -> None:
        self.bucket = bucket
        self.key = key
        self.start = start
        self._length = length
        self._streams = streams
        self.head = Head(0, "", True)
        self._first = b""

    def open(self) -> "ObjectReader":
        """Ask for the first range: it says size and version; raises Absent or PlaceError."""
        most = RANGE_BYTES if self._length is None else min(RANGE_BYTES, self._length)
        if most <= 0:
            return self
        wanted = "bytes=%d-%d" % (self.start, self.start + most - 1)
        request = Request("GET", self.key, headers=(("Range", wanted),), verb="read")
        try:
            self.head, self._first = self.bucket.run_raw(lambda: request, lambda answer: self._take_first(answer, most))
        except Refused as refused:
            if refused.status == 416:  # it ends before this range begins: an empty object, or a start past its end
                return self
            raise place_error(refused, self.bucket.asked(request)) from None
        return self

    @property
    def end(self) -> int:
        """Return the byte behind the last one that will come."""
        wanted = self.head.total if self._length is None else self.start + self._length
        return min(self.head.total, wanted)

    def blocks(self) -> Iterator[memoryview]:
        """Yield the bytes in order; a block is valid until the next one is asked for."""
        for at in range(0, len(self._first), BLOCK_BYTES):
            yield memoryview(self._first)[at : at + BLOCK_BYTES]
        begin = self.start + len(self._first)
        if begin >= self.end:
            return
        if not self.head.ranged:
            raise PlaceError(
                REFUSED, "%s: the store serves no ranges" % self.bucket.asked(Request("GET", self.key)).where
            )
        self._first = b""
        spans = [(at, min(RANGE_BYTES, self.end - at)) for at in range(begin, self.end, RANGE_BYTES)]
        yield from self._in_order(spans)

    def _in_order(self, spans: List[Tuple[int, int]]) -> Iterator[memoryview]:
        streams = min(self._streams, len(spans))
        pool = ThreadPoolExecutor(streams, "objects")
        waiting: Deque[Tuple["Future[None]", bytearray, int]] = Deque()
        free = [bytearray(min(RANGE_BYTES, spans[0][1])) for _ in range(streams + 1)]
        try:
            for at, size in spans:
                if not free:
                    yield from self._next(waiting, free)
                room = free.pop()
                waiting.append((pool.submit(self._fetch, at, memoryview(room)[:size]), room, size))
            while waiting:
                yield from self._next(waiting, free)
        finally:
            for future, _, _ in waiting:
                future.cancel()
            pool.shutdown(wait=True)

    def _next(
        self, waiting: "Deque[Tuple[Future[None], bytearray, int]]", free: List[bytearray]
    ) -> Iterator[memoryview]:
        future, room, size = waiting.popleft()
        future.result()
        for at in range(0, size, BLOCK_BYTES):
            yield memoryview(room)[at : min(size, at + BLOCK_BYTES)]
        free.append(room)

    def _fetch(self, at: int, view: memoryview) -> None:
        """Fill a buffer with one range, in as many requests as cuts make necessary."""
        got = [0]
        match = (("If-Match", self.head.tag),) if self.head.tag else ()

        def make() -> Request:
            wanted = "bytes=%d-%d" % (at + got[0], at + len(view) - 1)
            return Request("GET", self.key, headers=(("Range", wanted), *match), verb="read")

        def take(answer: http.client.HTTPResponse) -> None:
            self._check(answer, at + got[0])
            count = read_into(answer.readinto, view[got[0] :])
            got[0] += count
            if got[0] < len(view):
                raise http.client.IncompleteRead(b"", len(view) - got[0])

        try:
            self.bucket.run_raw(make, take)
        except Refused as refused:
            asked = self.bucket.asked(make())
            if refused.status in (412, 416):
                raise PlaceError(
                    UNREACHABLE, "%s: it was replaced while it was read; read it again" % asked.where
                ) from None
            raise place_error(refused, asked) from None

    def _check(self, answer: http.client.HTTPResponse, at: int) -> None:
        found = _RANGE.match(answer.headers.get("Content-Range") or "")
        if found is None or int(found.group(1)) != at or int(found.group(3)) != self.head.total:
            where = self.bucket.asked(Request("GET", self.key)).where
            seen = answer.headers.get("Content-Range") or "HTTP %d" % answer.status
            raise PlaceError(LYING, "%s: asked for byte %d on, was answered %s" % (where, at, seen[:80]))

    def _take_first(self, answer: http.client.HTTPResponse, most: int) -> Tuple[Head, bytes]:
        mark = answer.headers.get("ETag") or ""
        tag = "" if mark.startswith("W/") else mark
        found = _RANGE.match(answer.headers.get("Content-Range") or "")
        if found is not None:  # 206, or 200 from a server that serves ranges and does not say so
            if int(found.group(1)) != self.start:
                self._check(answer, self.start)
            head = Head(int(found.group(3)), tag, True)
            size = min(most, head.total - self.start)
        else:  # the whole object: small ones may be answered so
            head = Head(answer.length or 0, tag, False)
            if self.start:
                _skip(answer, self.start)
            size = max(0, min(most, head.total - self.start))
        data = bytearray(size)
        if read_into(answer.readinto, memoryview(data)) < size:
            raise http.client.IncompleteRead(b"", size)
        return head, bytes(data)


def _skip(answer: http.client.HTTPResponse, count: int) -> None:
    while count > 0:
        part = answer.read(min(count, 1 << 20))
        if not part:
            return
        count -= len(part)
