"""Requests of a move: fence a run, read what it left, lay a state for its next start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from leasehold.platforms.state_stream import Laying, Missing, Source, Tell, ask_missing, fetch, send
from leasehold.transport.wire import Wire

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen


class MoveRequests:
    """Move a run's work from box to box."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def fence(self, run: str, home: str, claim: Mapping[str, Any]) -> RunSeen:
        """Fence a run from an epoch on; return its state."""
        return cast("RunSeen", self._wire.ask("fence", run=run, home=home, **claim))

    def left(self, run: str, cell: str, facts: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        """Hash what a stopped cell left: {id, state, beside, torn}; without a state that loads, {id: ""}."""
        answer: dict[str, Any] = {}
        upto = 0
        for answer in self._wire.objects("left_state", run=run, cell=cell, **facts):
            if "upto" in answer:
                tell(int(answer["upto"]) - upto)
                upto = int(answer["upto"])
        return answer

    def kept(self, place: Mapping[str, Any], cells: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """List the states of (run, cell) that a place of the box keeps, the newest first; or {problem, kind}."""
        asked = [list(one) for one in cells]
        return list(self._wire.objects("kept_in", place=dict(place), cells=asked))

    def claim(self, place: Mapping[str, Any], run: str, claim: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Claim an epoch in a place that the box sees, or only read: {highest, mine, claim}."""
        return self._wire.ask("claim_epoch", place=dict(place), run=run, claim=dict(claim) if claim else None)

    def read(self, place: Mapping[str, Any], kept: Mapping[str, Any], path: str, offset: int) -> Iterator[bytes]:
        """Yield a file of a kept state from an offset on."""
        return self._wire.chunks("read_kept", place=dict(place), **kept, path=path, offset=offset)

    def prove(self, place: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
        """Have the box read every byte of a kept state; return what is wrong, nothing if it is whole."""
        answer = self._wire.ask("prove_kept", place=dict(place), **kept)
        return [str(one) for one in answer.get("wrong", ["it was not read"])]

    def missing(self, laying: Laying) -> list[Missing] | None:
        """Ask which files of a state are missing; None if it is laid already."""
        return ask_missing(self._wire, laying)

    def send(self, laying: Laying, missing: Sequence[Missing], source: Source, tell: Tell) -> dict[str, Any]:
        """Send the missing bytes and have the state laid."""
        return send(self._wire, laying, missing, source, tell)

    def fetch(self, laying: Laying, place: Mapping[str, Any], kept: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        """Have the box copy a state out of a place that it sees, and lay it."""
        return fetch(self._wire, laying, place, kept, tell)
