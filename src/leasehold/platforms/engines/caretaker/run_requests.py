"""Requests about runs: start and stop them, observe them, and settle which home holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from leasehold.kit.wire import frames
from leasehold.transport.wire import Wire, object_of

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import (
        ClaimAnswer,
        Entry,
        EventBatch,
        Followed,
        ForceAnswer,
        RunSeen,
        SeriesPart,
        StartAnswer,
        StopAnswer,
    )
    from leasehold.model.run.plan import Plan

_NOTHING: Mapping[str, Any] = {}


class WorkRequests:
    """Start, continue and end runs."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def start(self, plan: Plan, home: str, private: Mapping[str, Any] = _NOTHING) -> StartAnswer:
        """Start the run or attach to it."""
        return cast("StartAnswer", self._wire.ask("start", run=plan.run, plan=plan.as_dict(), home=home, **private))

    def resume(self, run: str, seq: int, home: str, private: Mapping[str, Any] = _NOTHING) -> StartAnswer:
        """Continue an ended run if nothing happened since seq."""
        return cast("StartAnswer", self._wire.ask("resume", run=run, seq=seq, home=home, **private))

    def stop(self, run: str, wish: Mapping[str, Any]) -> StopAnswer:
        """Ask the run to end."""
        return cast("StopAnswer", self._wire.ask("stop", run=run, **wish))

    def end_by_force(self, run: str, home: str, grace_s: float) -> ForceAnswer:
        """Have the box end the run's trainers without its caretaker: {ended, left, guards, proof_age_s}."""
        return cast("ForceAnswer", self._wire.ask("end_by_force", run=run, home=home, grace_s=grace_s))

    def enter(self, run: str, cell: str) -> Entry:
        """Return how a shell of the box enters a run's environment: {argv, work, cell}."""
        return cast("Entry", self._wire.ask("enter", run=run, cell=cell))


class ObserveRequests:
    """Read the state, the journal, the logs and the readings of runs."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def runs(self) -> list[RunSeen]:
        """List every run that the box knows."""
        return cast("list[RunSeen]", list(self._wire.objects("runs")))

    def look(self, run: str) -> RunSeen:
        """Return the run's state now."""
        return cast("RunSeen", self._wire.ask("look", run=run))

    def events(self, run: str, offset: int, follow_s: float) -> Iterator[EventBatch]:
        """Yield batches {events, offset} from a byte offset on."""
        return cast("Iterator[EventBatch]", self._wire.objects("events", run=run, offset=offset, follow_s=follow_s))

    def follow(self, run: str, offset: int, logs: dict[str, int], tail_bytes: int = -1) -> Iterator[Followed | bytes]:
        """Yield {events, offset}, {log}, log bytes and {beat_unix} as they arrive, until the run has ended."""
        for frame in self._wire.stream("follow", run=run, offset=offset, logs=logs, tail_bytes=tail_bytes):
            yield frame.payload if frame.type == frames.DATA else cast("Followed", object_of(frame))

    def tail(self, run: str, cell: str, attempt: int, offset: int, follow_s: float) -> Iterator[bytes]:
        """Yield an attempt's log from a byte offset on."""
        return self._wire.chunks("tail", run=run, cell=cell, attempt=attempt, offset=offset, follow_s=follow_s)

    def series(self, run: str, last_s: int = 0) -> Iterator[SeriesPart]:
        """Yield {records} that the patrol measured in the last seconds (0: ever), then {now_unix, newest, health}."""
        return cast("Iterator[SeriesPart]", self._wire.objects("series", run=run, last_s=last_s))


class HoldRequests:
    """Claim runs, take them over, give cells to other boxes, report results as home."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def claim(self, run: str, home: str, who: str) -> ClaimAnswer:
        """Hold a run, begun or not, that nobody holds; return its state, and whether it is `mine`."""
        return cast("ClaimAnswer", self._wire.ask("claim", run=run, home=home, who=who))

    def unclaim(self, run: str, home: str) -> None:
        """Give up a claim on which nothing was begun."""
        self._wire.ask("unclaim", run=run, home=home)

    def take_over(self, run: str, epoch: int, home: str, private: Mapping[str, Any]) -> RunSeen:
        """Hold the run from now on, if its holder is still the one of this epoch; refused otherwise."""
        return cast("RunSeen", self._wire.ask("take_over", run=run, epoch=epoch, home=home, **private))

    def release(self, run: str, home: str, wish: Mapping[str, Any]) -> list[str]:
        """Have the box give cells to another: {release, withdraw, to}; return those that it no longer has.

        Cells in `release` are given up only if they have not begun; for those in `withdraw` the attempt is ended.
        """
        return [str(name) for name in self._wire.ask("release", run=run, home=home, **wish)["released"]]

    def pulled(self, run: str, home: str, seq: int) -> None:
        """Report that this ending of the run is home, verified."""
        self._wire.ask("pulled", run=run, home=home, seq=seq)

    def hush(self, run: str, home: str) -> None:
        """End the box's reminders about a run."""
        self._wire.ask("hush", run=run, home=home)
