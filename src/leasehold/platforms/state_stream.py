"""Lay a state onto a box: ask what is missing there, then send only those bytes, or have the box fetch them itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from leasehold.kit.refuge.records import StateFile
from leasehold.kit.wire import frames
from leasehold.transport.wire import Wire

Source = Callable[[StateFile, int], Iterator[bytes]]  # a file's bytes from an offset on
Tell = Callable[[int], None]  # the number of additional bytes that moved


@dataclass(frozen=True)
class Laying:
    """One state for one cell of a run on a box."""

    run: str
    cell: str
    home: str
    who: str
    epoch: int
    state: str
    files: tuple[StateFile, ...]  # named as $LEASE_OUT will have them
    pattern: str = ""  # of the job's checkpoints: older ones there are set aside
    facts: Mapping[str, Any] = field(default_factory=dict)  # where it comes from, as the journal will say

    def args(self) -> dict[str, Any]:
        """Return the request's arguments."""
        files = [[one.path, one.bytes, one.sha256] for one in self.files]
        return {**vars(self), "files": files, "facts": dict(self.facts)}


class Missing(NamedTuple):
    """A file that is not whole on the box, and how much of it is there."""

    number: int  # its place in the laying's list
    offset: int


def ask_missing(wire: Wire, laying: Laying) -> list[Missing] | None:
    """Ask which files are missing; None if the state is laid already."""
    answer = wire.ask("want_state", **laying.args())
    if answer.get("laid"):
        return None
    found = []
    for index, offset in answer.get("lacking", ()):
        if 0 <= int(index) < len(laying.files):
            found.append(Missing(int(index), max(0, min(int(offset), laying.files[int(index)].bytes))))
    return found


def send(wire: Wire, laying: Laying, missing: Sequence[Missing], source: Source, tell: Tell) -> dict[str, Any]:
    """Send the missing bytes; the box checks each file's hash and lays the state once all files are there."""
    talk = wire.talk("put_state", **laying.args())
    answer: dict[str, Any] = {}
    try:
        talk.say(takewhile(lambda _: not talk.answered, _stream(laying, missing, source, tell)))
        talk.end()
        for frame in talk:
            if frame.type == frames.JSON:
                answer = frame.json()
    finally:
        talk.leave()
    return dict(answer.get("laid") or {})


def fetch(wire: Wire, laying: Laying, place: Mapping[str, Any], kept: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Have the box copy the state out of a place that it sees, and lay it."""
    answer: dict[str, Any] = {}
    upto = 0
    for answer in wire.objects("fetch_state", **laying.args(), place=dict(place), kept=dict(kept)):
        if "upto" in answer:
            tell(int(answer["upto"]) - upto)
            upto = int(answer["upto"])
    return dict(answer.get("laid") or {})


def _stream(laying: Laying, missing: Sequence[Missing], source: Source, tell: Tell) -> Iterator[dict[str, Any] | bytes]:
    for index, offset in missing:
        one = laying.files[index]
        yield {"file": index, "at": offset}
        for chunk in source(one, offset):
            for start in range(0, len(chunk), frames.CHUNK_BYTES):
                yield bytes(chunk[start : start + frames.CHUNK_BYTES])
            tell(len(chunk))
