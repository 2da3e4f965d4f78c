"""Give cells to boxes so that all end together: longest first, each to the box that would end it soonest."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bench:
    """A box as a worker: its name, its number of parallel cells, its remaining work."""

    name: str
    places: int = 1
    load: float = 0.0  # cost of the given cells that are not done


def split(cells: Mapping[str, float], boxes: Sequence[Bench]) -> dict[str, list[str]]:
    """Share out cells by cost; each box gets its own longest first. Equal input gives equal output."""
    given: dict[str, list[str]] = {box.name: [] for box in boxes}
    places = [(box.load / box.places, number, place) for number, box in enumerate(boxes) for place in range(box.places)]
    heapq.heapify(places)
    for name in sorted(cells, key=lambda one: (-cells[one], one)):
        load, number, place = heapq.heappop(places)
        given[boxes[number].name].append(name)
        heapq.heappush(places, (load + cells[name], number, place))
    return given


def to_move(waiting: Mapping[str, float], busy: Bench, idle: Bench, on_the_way: float = 0.0) -> list[str]:
    """Choose waiting cells that an idle box would end sooner than the busy one, by more than the transfer takes."""
    moved: list[str] = []
    here, there = busy.load / busy.places, max(on_the_way, idle.load / idle.places)  # it works on during the transfer
    for name in sorted(waiting, key=lambda one: (-waiting[one], one)):
        cost = waiting[name]
        if there + cost / idle.places < here:
            moved.append(name)
            there += cost / idle.places
            here -= cost / busy.places
    return moved


def measured(costs: Mapping[str, float], took_s: Mapping[str, float]) -> dict[str, float]:
    """Turn stated costs into seconds by the measured times of this sweep's cells; done cells keep their own time."""
    known = [(costs[name], took_s[name]) for name in took_s if name in costs and costs[name] > 0 and took_s[name] > 0]
    if not known:
        return dict(costs)
    rate = sum(seconds for _, seconds in known) / sum(cost for cost, _ in known)
    return {name: took_s.get(name) or cost * rate for name, cost in costs.items()}
