"""The cost of each run of a lease: concurrent runs share its meter; idle time belongs to no run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from leasehold.model.values.money import Money

from .lease import Lease, Segment

Stretch = tuple[float, float]


def shares(
    lease: Lease, an_hour: Callable[[Segment], Money], ran: Mapping[str, Sequence[Stretch]], now_unix: float
) -> dict[str, Money]:
    """Divide the cost of a lease among its runs, by when each of them ran."""
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
    """The seconds that each run has to pay for by a moment: of two concurrent runs, each pays half."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        turns = sorted([(start, 1) for start, _ in stretches] + [(stop, -1) for _, stop in stretches])
        self._moments, self._live, self._due = [0.0], [0], [0.0]
        for at, turn in turns:
            self._due.append(self._by(at))
            self._moments.append(at)
            self._live.append(self._live[-1] + turn)

    def seconds(self, start: float, stop: float) -> float:
        """Return the seconds that a run pays for if it ran from start to stop."""
        return self._by(stop) - self._by(start) if stop > start else 0.0

    def _by(self, at: float) -> float:
        place = bisect_right(self._moments, at) - 1
        live = self._live[place]
        return self._due[place] + ((at - self._moments[place]) / live if live else 0.0)
