"""Requests for the bytes of files, and for proof of what lies in a run's folders."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import LinkError
from leasehold.kit.wire import frames
from leasehold.transport.wire import Talk, Wire, object_of

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import Occupants

Range = tuple[int, int]  # the first of them, and how many
_NUMBERS_A_FRAME = 100_000
_FILES_A_REQUEST = 5_000


class RangeRequests:
    """Read files of a run, whole or in ranges."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def get(self, run: str, area: str, cell: str, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes from offset on."""
        return self._wire.chunks("get", run=run, area=area, cell=cell, path=path, offset=offset)

    def get_many(self, run: str, items: Sequence[tuple[str, str, str]]) -> Iterator[tuple[int, bytes]]:
        """Yield (index, bytes) of files [area, cell, path]; each existing one begins with no bytes."""
        for start in range(0, len(items), _FILES_A_REQUEST):
            asked, current = items[start : start + _FILES_A_REQUEST], -1
            for frame in self._wire.stream("get_many", run=run, items=[list(item) for item in asked]):
                if frame.type != frames.DATA:
                    current = _place(object_of(frame).get("file"), current, len(asked))
                    yield start + current, b""
                elif current >= 0:
                    yield start + current, frame.payload

    def chart(
        self, run: str, cells: Sequence[str], patterns: Sequence[str], quiet_s: float = -1.0, *, look: bool = False
    ) -> ChartTalk:
        """List the files. With quiet_s: of a run that still works, only files nobody has written for so long.

        With look: the first part is {seen}, the run's state then; it is the last one if these cells had not finished.
        """
        asked: dict[str, Any] = {"run": run, "cells": list(cells), "patterns": list(patterns), "quiet_s": quiet_s}
        return ChartTalk(self._wire.talk("chart", **asked, look=look))

    def live_chart(self, run: str, cells: Sequence[str], wish: Mapping[str, Any]) -> ChartTalk:
        """List what is complete now, from a stable view: {patterns, quiet_s, view}, and {states} for these alone."""
        asked: dict[str, Any] = {"run": run, "cells": list(cells), **wish}
        return ChartTalk(
            self._wire.talk("state_chart", **asked) if "states" in wish else self._wire.talk("chart", **asked)
        )

    def fetch(
        self, run: str, items: Sequence[Sequence[Any]], *, pack: bool, frame_bytes: int, view: str = ""
    ) -> Iterator[bytes]:
        """Yield the bytes of ranges [cell, path, offset, length, mtime_ns], one after the other.

        A true sixth element means: a small file whole, followed by the 32 bytes of its sha256.
        """
        unpacks_to = 0
        wish: dict[str, Any] = {"pack": pack, "frame_bytes": frame_bytes, **({"view": view} if view else {})}
        for frame in self._wire.stream("fetch", run=run, items=list(items), **wish):
            if frame.type != frames.DATA:
                unpacks_to = int(object_of(frame).get("unpacks_to", 0))
                continue
            yield _unpacked(frame.payload, unpacks_to) if unpacks_to else frame.payload
            unpacks_to = 0

    def sums(self, run: str, cell: str, path: str, view: str = "") -> list[str]:
        """Return the sha256 of each block of one file."""
        asked: dict[str, Any] = {"run": run, "cell": cell, "path": path, **({"view": view} if view else {})}
        answers = self._wire.objects("sums", **asked)
        return [str(one) for answer in answers for one in answer["sums"]]


class ProofRequests:
    """Seal, stat and read back what a run left, and find who still writes there."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def manifest(self, run: str, cells: Sequence[str], patterns: Sequence[str] = ()) -> bytes:
        """Have the box seal the files that these patterns (or its plan's) match; return the manifest's bytes."""
        return b"".join(self._wire.chunks("manifest", run=run, cells=list(cells), patterns=list(patterns)))

    def fingerprint(
        self, run: str, patterns: Sequence[str] = (), whole: Sequence[str] = ()
    ) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
        """Return artifact stats by cell, and what lives and lies beside them.

        `whole` names cells of which every file is listed, promised or not: by cell, in `remains` of the second part.
        """
        present: dict[str, list[dict[str, Any]]] = {}
        remains: dict[str, list[dict[str, Any]]] = {}
        rest: dict[str, Any] = {}
        for answer in self._wire.objects("fingerprint", run=run, patterns=list(patterns), whole=list(whole)):
            if "cell" in answer:
                present.setdefault(str(answer["cell"]), []).extend(answer["entries"])
            elif "whole" in answer:
                remains.setdefault(str(answer["whole"]), []).extend(answer["entries"])
            else:
                rest = answer
        return present, {**rest, "remains": remains}

    def prove(self, run: str, items: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Have the box read files [cell, path] in full; yield {upto} bytes of these, and {entries} with hashes."""
        before = 0
        for start in range(0, len(items), _FILES_A_REQUEST):
            upto = 0
            for answer in self._wire.objects("prove", run=run, items=items[start : start + _FILES_A_REQUEST]):
                upto = int(answer.get("upto", upto))
                yield {**answer, "upto": before + upto}
            before += upto

    def salvageable(self, run: str, cell: str) -> list[dict[str, Any]]:
        """List every plain file in a cell's out folder."""
        return list(self._wire.objects("salvageable", run=run, cell=cell))

    def occupants(self, run: str) -> Occupants:
        """List the processes that work in a run's folders: {occupants, unread}."""
        return cast("Occupants", self._wire.ask("occupants", run=run))

    def clear_occupant(self, run: str, home: str, process: Mapping[str, Any]) -> None:
        """Record on the box that a person declared a process harmless."""
        self._wire.ask("clear_occupant", run=run, home=home, **process)


class ChartTalk:
    """A chart in progress: {files}, {listed}, {file, upto, zeros, copies} and {sums}, then the manifest's bytes."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._over = False

    def __iter__(self) -> Iterator[dict[str, Any] | bytes]:
        for frame in self._talk:
            yield frame.payload if frame.type == frames.DATA else object_of(frame)

    def want_sums(self, numbers: Sequence[int]) -> None:
        """Have the box hash these small files itself: they may not be requested, or are here in part."""
        with contextlib.suppress(LinkError):  # the reader of the chart gets the error too
            for start in range(0, len(numbers), _NUMBERS_A_FRAME):
                self._talk.say([{"sum": numbers[start : start + _NUMBERS_A_FRAME]}])

    def tell(self, ranges: Sequence[Range], digests: bytes) -> None:
        """Report the hashes of these ranges of files, 32 bytes a file in order, zeros for what the box hashes."""
        if not ranges:
            return
        size = frames.MAX_PAYLOAD_BYTES
        parts = (digests[start : start + size] for start in range(0, len(digests), size))
        with contextlib.suppress(LinkError):  # the reader of the chart gets the error too
            self._talk.say(chain([{"told": [list(one) for one in ranges]}], parts))

    def seal(self, ranges: Sequence[Range], digests: bytes) -> None:
        """Report that no more hashes follow; the manifest comes then."""
        self._over = True
        self.tell(ranges, digests)
        self._talk.end()

    def leave(self) -> None:
        """Cancel the manifest. A second call does nothing."""
        with contextlib.suppress(LinkError):
            self._talk.say([] if self._over else [{"leave": True}])
        self._over = True
        self._talk.leave()


def _place(said: Any, before: int, count: int) -> int:
    """Return the index of the next file; they arrive in order, each once."""
    if type(said) is not int or not before < said < count:
        raise LinkError("link.strange", "the box broke the protocol: it sent a file that was not requested")
    return said


def _unpacked(packed: bytes, size: int) -> bytes:
    """Unpack a block from an untrusted box, never to more than its allowed size."""
    if size > frames.MAX_PAYLOAD_BYTES:
        raise LinkError("link.strange", f"the box packed {size} bytes into one block")
    try:
        block = zlib.decompressobj().decompress(packed, size)
    except zlib.error as error:
        raise LinkError("link.strange", f"a packed block does not unpack: {error}") from None
    if len(block) != size:
        raise LinkError("link.strange", "a packed block is shorter than announced")
    return block
