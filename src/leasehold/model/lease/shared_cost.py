"""What each run of a lease costs: those that run at once share its meter; time in which none runs is nobody's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from leasehold.model.values.money import Money

from .lease import Lease, Segment

Stretch = tuple[float, float]


def shares(
    lease: Lease, an_hour: Callable[[Segment], Money], ran: Mapping[str, Sequence[Stretch]], now_unix: float
) -> dict[str, Money]:
    """Share out what a lease cost among its runs, by when each of them ran."""
    due = _Due([stretch for stretches in ran.values() for stretch in stretches])
    rates = [(segment.from_unix, segment.to_unix, an_hour(segment)) for segment in lease.segments(now_unix)]
    found = {}
    for run, stretches in ran.items():
        total = Money()
        for begin, end, hourly in rates:
            seconds = sum(due.seconds(max(begin, start), min(end, stop)) for start, stop in stretches)
            total += hourly.times(seconds / 3600)
        found[run] = total
    return found


class _Due:
    """How many seconds each running run had to pay for by a moment: of two that run at once, each pays half."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        turns = sorted([(start, 1) for start, _ in stretches] + [(stop, -1) for _, stop in stretches])
        self._moments, self._live, self._due = [0.0], [0], [0.0]
        for at, turn in turns:
            self._due.append(self._by(at))
            self._moments.append(at)
            self._live.append(self._live[-1] + turn)

    def seconds(self, start: float, stop: float) -> float:
        """Say how many seconds a run pays for that ran from start to stop."""
        return self._by(stop) - self._by(start) if stop > start else 0.0

    def _by(self, at: float) -> float:
        place = bisect_right(self._moments, at) - 1
        live = self._live[place]
        return self._due[place] + ((at - self._moments[place]) / live if live else 0.0)
