"""The caretaker engine: our own supervisor on the box, over one wire."""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from leasehold.errors import BoxError, LinkError
from leasehold.kit.files.code_tree import name_of
from leasehold.kit.wire import frames
from leasehold.model.run.plan import Plan
from leasehold.platforms.code_stream import Tree, blob_stream, list_stream, sizes_of
from leasehold.transport.contract import FAR_S
from leasehold.transport.wire import Talk, Wire, object_of

Range = tuple[int, int]  # the first of them, and how many
_NOTHING: Mapping[str, Any] = {}
_NUMBERS_A_FRAME = 100_000
_FILES_A_REQUEST = 5_000
_PING_S = 5.0


@dataclass(frozen=True)
class Pushed:
    """Whether the tree was new to the box, and what of it had to travel."""

    new: bool
    files: int = 0
    bytes: int = 0

    def __bool__(self) -> bool:
        return self.new


class CaretakerEngine:
    """Speaks to the box's `serve` over an open wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def probe(self) -> dict[str, Any]:
        """Say who and where the box is."""
        return self.wire.ask("probe")

    def round_trip_s(self) -> float:
        """Measure how far the box is: the best of two askings at least, since the first may wake something up."""
        new_to_us = self.wire.quickest_s == float("inf")
        for _ in range(1 + new_to_us):
            self.wire.ask("ping")
        return self.wire.quickest_s

    def push(self, tree: Tree) -> Pushed:
        """Bring what the box lacks of the code; a tree that is there whole travels not at all."""
        sent = {name_of(entry): int(entry["bytes"]) for entry in tree.changed}
        sizes = {} if sent else sizes_of(tree)  # after an edit hardly more than that is lacking
        how_far = self._measure_meanwhile(bool(sizes))
        body = chain(list_stream(tree), blob_stream(tree, set(sent)))
        lacking: set[str] = set()
        answer: dict[str, Any] = {}
        for answer in self.wire.objects("want_tree", body, tree=tree.sha256, files=len(sizes)):
            lacking.update(answer.get("names", ()))
        if answer.get("have"):
            return Pushed(False)
        if not lacking and answer.get("lack") == len(sizes):
            lacking.update(sizes)  # a box that lacks all need not name it
        if lacking:
            sizes = sizes or sizes_of(tree)
            far = FAR_S <= how_far() < float("inf")
            self.wire.ask("put_tree", blob_stream(tree, lacking, pack=far), tree=tree.sha256)
            sent.update((name, sizes.get(name, 0)) for name in lacking)
        return Pushed(True, len(sent), sum(sent.values()))

    def _measure_meanwhile(self, worth: bool) -> Callable[[], float]:
        """Find out how far the box is while something else is asked; what is returned waits for it, and tells."""
        if not worth or self.wire.quickest_s != float("inf"):
            return lambda: self.wire.quickest_s
        measuring = threading.Thread(target=self._try_round_trip, daemon=True)
        measuring.start()

        def told() -> float:
            measuring.join(_PING_S)
            return self.wire.quickest_s

        return told

    def _try_round_trip(self) -> None:
        with contextlib.suppress(LinkError, BoxError):  # who needs the link hears of it
            self.round_trip_s()

    def prune(self, *, dry_run: bool) -> dict[str, Any]:
        """Remove code on the box that nothing uses: {trees, kept, blobs, bytes}."""
        return self.wire.ask("prune", dry_run=dry_run)

    def start(self, plan: Plan, home: str, private: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """Start the run or attach to it."""
        return self.wire.ask("start", run=plan.run, plan=plan.as_dict(), home=home, **private)

    def resume(self, run: str, seq: int, home: str, private: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """Continue an ended run if nothing happened since seq."""
        return self.wire.ask("resume", run=run, seq=seq, home=home, **private)

    def take_over(self, run: str, epoch: int, home: str, private: Mapping[str, Any]) -> dict[str, Any]:
        """Hold the run from now on, if its holder is still the one of this epoch; refused otherwise."""
        return self.wire.ask("take_over", run=run, epoch=epoch, home=home, **private)

    def hush(self, run: str, home: str) -> None:
        """End the box's nagging about a run."""
        self.wire.ask("hush", run=run, home=home)

    def pulled(self, run: str, home: str, seq: int) -> None:
        """Say that this ending of the run is home, verified."""
        self.wire.ask("pulled", run=run, home=home, seq=seq)

    def power_off(self, command: Sequence[str], home: str) -> None:
        """Have the box end itself a moment after it answered; refused while anything of ours lives on it."""
        self.wire.ask("power_off", command=list(command), home=home)

    def look(self, run: str) -> dict[str, Any]:
        """Say what is true of the run now."""
        return self.wire.ask("look", run=run)

    def runs(self) -> list[dict[str, Any]]:
        """List every run the box knows."""
        return list(self.wire.objects("runs"))

    def machine(self, also: Sequence[str] = ()) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return what tells this machine from others, and our other roots there: {root, runs, problem}."""
        answers = list(self.wire.objects("machine", also=list(also)))
        return dict(answers[0]["machine"]), answers[1:]

    def witness(self, notes: Sequence[Mapping[str, Any]], limit_s: float) -> dict[str, Any]:
        """Have the box look for notes that home left beside its results: {machine, seen, below, whole, inside}."""
        return self.wire.ask("witness", notes=list(notes), limit_s=limit_s)

    def events(self, run: str, offset: int, follow_s: float) -> Iterator[dict[str, Any]]:
        """Yield batches {events, offset} from a byte offset on."""
        return self.wire.objects("events", run=run, offset=offset, follow_s=follow_s)

    def tail(self, run: str, cell: str, attempt: int, offset: int, follow_s: float) -> Iterator[bytes]:
        """Yield an attempt's log from a byte offset on."""
        return self.wire.chunks("tail", run=run, cell=cell, attempt=attempt, offset=offset, follow_s=follow_s)

    def follow(
        self, run: str, offset: int, logs: dict[str, int], tail_bytes: int = -1
    ) -> Iterator[dict[str, Any] | bytes]:
        """Yield {events, offset}, {log}, log bytes and {beat_unix} as they come, until the run has ended."""
        for frame in self.wire.stream("follow", run=run, offset=offset, logs=logs, tail_bytes=tail_bytes):
            yield frame.payload if frame.type == frames.DATA else object_of(frame)

    def stop(self, run: str, wish: dict[str, Any]) -> dict[str, Any]:
        """Ask the run to end."""
        return self.wire.ask("stop", run=run, **wish)

    def end_by_force(self, run: str, home: str, grace_s: float) -> dict[str, Any]:
        """Have the box end the run's trainers without its caretaker: {ended, left, guards, proof_age_s}."""
        return self.wire.ask("end_by_force", run=run, home=home, grace_s=grace_s)

    def claim(self, run: str, home: str, who: str) -> dict[str, Any]:
        """Hold a run, begun or not, that nobody holds; return how it stands, and whether it is `mine`."""
        return self.wire.ask("claim", run=run, home=home, who=who)

    def unclaim(self, run: str, home: str) -> None:
        """Let go of a claim on which nothing was begun."""
        self.wire.ask("unclaim", run=run, home=home)

    def release(self, run: str, home: str, wish: Mapping[str, Any]) -> list[str]:
        """Have the box give cells to another: {release, withdraw, to}; return those that it no longer has.

        `release` are given up only if they have not begun; of those in `withdraw` the attempt is ended.
        """
        return [str(name) for name in self.wire.ask("release", run=run, home=home, **wish)["released"]]

    def manifest(self, run: str, cells: list[str], patterns: Sequence[str] = ()) -> bytes:
        """Have the box seal what these patterns (or its plan's) name in these cells; return the manifest's bytes."""
        return b"".join(self.wire.chunks("manifest", run=run, cells=cells, patterns=list(patterns)))

    def fingerprint(
        self, run: str, patterns: Sequence[str] = (), whole: Sequence[str] = ()
    ) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
        """Return artifact stats by cell, and what lives and lies beside them.

        `whole` names cells of which every file is listed, promised or not: by cell, in `remains` of the second part.
        """
        present: dict[str, list[dict[str, Any]]] = {}
        remains: dict[str, list[dict[str, Any]]] = {}
        rest: dict[str, Any] = {}
        for answer in self.wire.objects("fingerprint", run=run, patterns=list(patterns), whole=list(whole)):
            if "cell" in answer:
                present.setdefault(str(answer["cell"]), []).extend(answer["entries"])
            elif "whole" in answer:
                remains.setdefault(str(answer["whole"]), []).extend(answer["entries"])
            else:
                rest = answer
        return present, {**rest, "remains": remains}

    def prove(self, run: str, items: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Have the box read files [cell, path] in full; yield {upto} bytes of these, and {entries} with their sums."""
        before = 0
        for start in range(0, len(items), _FILES_A_REQUEST):
            upto = 0
            for answer in self.wire.objects("prove", run=run, items=items[start : start + _FILES_A_REQUEST]):
                upto = int(answer.get("upto", upto))
                yield {**answer, "upto": before + upto}
            before += upto

    def occupants(self, run: str) -> dict[str, Any]:
        """List who works in a run's folders: {occupants, unread}."""
        return self.wire.ask("occupants", run=run)

    def clear_occupant(self, run: str, home: str, process: Mapping[str, Any]) -> None:
        """Note on the box that a person called a process harmless."""
        self.wire.ask("clear_occupant", run=run, home=home, **process)

    def get(self, run: str, area: str, cell: str, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes from offset on."""
        return self.wire.chunks("get", run=run, area=area, cell=cell, path=path, offset=offset)

    def get_many(self, run: str, items: Sequence[tuple[str, str, str]]) -> Iterator[tuple[int, bytes]]:
        """Yield (which, bytes) of files [area, cell, path]; each that is there begins with no bytes."""
        for start in range(0, len(items), _FILES_A_REQUEST):
            asked, current = items[start : start + _FILES_A_REQUEST], -1
            for frame in self.wire.stream("get_many", run=run, items=[list(item) for item in asked]):
                if frame.type != frames.DATA:
                    current = _place(object_of(frame).get("file"), current, len(asked))
                    yield start + current, b""
                elif current >= 0:
                    yield start + current, frame.payload

    def chart(
        self, run: str, cells: Sequence[str], patterns: Sequence[str], quiet_s: float = -1.0, *, look: bool = False
    ) -> ChartTalk:
        """Ask what there is. With quiet_s: of a run that still works, only files nobody has written for so long.

        With look: the first part is {seen}, how the run stood then; it is the last one if these cells had not finished.
        """
        asked: dict[str, Any] = {"run": run, "cells": list(cells), "patterns": list(patterns), "quiet_s": quiet_s}
        return ChartTalk(self.wire.talk("chart", **asked, look=look))

    def fetch(self, run: str, items: Sequence[Sequence[Any]], *, pack: bool, frame_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of ranges [cell, path, offset, length, mtime_ns], one after the other.

        A sixth element that is true: a small file whole, with the 32 bytes of its sha256 behind it.
        """
        unpacks_to = 0
        for frame in self.wire.stream("fetch", run=run, items=list(items), pack=pack, frame_bytes=frame_bytes):
            if frame.type != frames.DATA:
                unpacks_to = int(object_of(frame).get("unpacks_to", 0))
                continue
            yield _unpacked(frame.payload, unpacks_to) if unpacks_to else frame.payload
            unpacks_to = 0

    def sums(self, run: str, cell: str, path: str) -> list[str]:
        """Return the sha256 of each block of one file."""
        return [
            str(one) for answer in self.wire.objects("sums", run=run, cell=cell, path=path) for one in answer["sums"]
        ]

    def salvageable(self, run: str, cell: str) -> list[dict[str, Any]]:
        """List every plain file in a cell's out folder."""
        return list(self.wire.objects("salvageable", run=run, cell=cell))

    def adoptable(self, young_s: float) -> Iterator[dict[str, Any]]:
        """Yield what may be training that was started without us, older than this, the likeliest first."""
        return self.wire.objects("adoptable", young_s=young_s)

    def send_notices(self, sends: Sequence[Mapping[str, Any]], platform: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Have the box send notices; it keeps nothing of them."""
        answer = self.wire.ask("send_notices", sends=list(sends), platform=dict(platform))
        return [item for item in answer.get("results", []) if isinstance(item, dict)]

    def enter(self, run: str, cell: str) -> dict[str, Any]:
        """Say how a shell of the box gets into a run's environment: {argv, work, cell}."""
        return self.wire.ask("enter", run=run, cell=cell)

    def series(self, run: str, last_s: int = 0) -> Iterator[dict[str, Any]]:
        """Yield {records} that the patrol measured in the last seconds (0: ever), then {now_unix, newest, health}."""
        return self.wire.objects("series", run=run, last_s=last_s)

    def leave_note(self, path: str, name: str, text: str) -> str:
        """Leave a note on a shared disk; return what went wrong."""
        return str(self.wire.ask("leave_note", path=path, name=name, text=text)["problem"])

    def find_note(self, path: str, name: str, wait_s: float) -> dict[str, Any]:
        """Look for a note another box left: {text, disk}, the text None when it did not come in time."""
        return self.wire.ask("find_note", path=path, name=name, wait_s=wait_s)

    def drop_note(self, path: str, name: str) -> str:
        """Take a note away; one that is gone is no fault."""
        return str(self.wire.ask("drop_note", path=path, name=name)["problem"])


def _place(said: Any, before: int, count: int) -> int:
    """Read which of the files comes now; they come in order, each once."""
    if type(said) is not int or not before < said < count:
        raise LinkError("link.strange", "the box broke the protocol: it sends a file that nobody asked for")
    return said


class ChartTalk:
    """A chart on its way: {files}, {listed}, {file, upto, zeros, copies} and {sums}, then the manifest's bytes."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._over = False

    def __iter__(self) -> Iterator[dict[str, Any] | bytes]:
        for frame in self._talk:
            yield frame.payload if frame.type == frames.DATA else object_of(frame)

    def want_sums(self, numbers: Sequence[int]) -> None:
        """Have the box sum these small files itself: they may not be asked for, or are here in part."""
        with contextlib.suppress(LinkError):  # whoever reads the chart hears of it too
            for start in range(0, len(numbers), _NUMBERS_A_FRAME):
                self._talk.say([{"sum": numbers[start : start + _NUMBERS_A_FRAME]}])

    def tell(self, ranges: Sequence[Range], digests: bytes) -> None:
        """Say what came of these ranges of files, 32 bytes a file in order, zeros for what the box sums itself."""
        if not ranges:
            return
        size = frames.MAX_PAYLOAD_BYTES
        parts = (digests[start : start + size] for start in range(0, len(digests), size))
        with contextlib.suppress(LinkError):  # whoever reads the chart hears of it too
            self._talk.say(chain([{"told": [list(one) for one in ranges]}], parts))

    def seal(self, ranges: Sequence[Range], digests: bytes) -> None:
        """Say the rest of it; the manifest comes then."""
        self._over = True
        self.tell(ranges, digests)
        self._talk.end()

    def leave(self) -> None:
        """Want no manifest any more. A second call does nothing."""
        with contextlib.suppress(LinkError):
            self._talk.say([] if self._over else [{"leave": True}])
        self._over = True
        self._talk.leave()


def _unpacked(packed: bytes, size: int) -> bytes:
    """Unpack a block from an untrusted box, never to more than it may be."""
    if size > frames.MAX_PAYLOAD_BYTES:
        raise LinkError("link.strange", f"the box packed {size} bytes into one block")
    try:
        block = zlib.decompressobj().decompress(packed, size)
    except zlib.error as error:
        raise LinkError("link.strange", f"a packed block does not unpack: {error}") from None
    if len(block) != size:
        raise LinkError("link.strange", "a packed block is shorter than the box said")
    return block
