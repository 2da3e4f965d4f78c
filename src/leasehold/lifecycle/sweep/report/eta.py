"""The pace of a sweep: cells that take longer than comparable ones, and when each box will have done its part."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from leasehold.model.run.sweep import BoxPace, Part, Standing, Straggler

_LATE = 1.5  # times the median of comparable cells
_ENOUGH = 3  # finished cells needed before any straggler is reported
_DONE = ("finished", "failed")


def stragglers(found: Standing) -> dict[str, Straggler]:
    """Find running cells that are past 1.5 times the median of finished ones, per unit of cost."""
    costs = {cell.name: cell.cost or 1.0 for cell in found.roster}
    usual = _rate(found, costs)
    late = {}
    for part in found.parts if usual else ():
        for name, cell in part.seen.items():
            ran_s = part.now_unix - _number(cell, "started_unix")
            if cell.get("state") == "running" and name in costs and ran_s > _LATE * usual * costs[name]:
                late[name] = Straggler(name, ran_s, usual * costs[name])
    return late


def paces(found: Standing) -> list[BoxPace]:
    """Return for each box what is done, what runs, and its estimated end at the pace so far."""
    costs = {cell.name: cell.cost or 1.0 for cell in found.roster}
    rate = _rate(found, costs, enough=1)
    words = {account.cell: account for account in found.accounts}
    rows = []
    for part in found.parts:
        mine = [words[name] for name in part.cells if name in words and words[name].run == part.run]
        done = sum(account.settled or account.word.value == "on the box" for account in mine)
        running = [account.cell for account in mine if account.word.value == "running"]
        waiting = [account.cell for account in mine if account.word.value == "waiting"]
        left_s = _left_s(part, costs, rate, len(running)) if rate and (running or waiting) else None
        bad = len(mine) - done - len(running) - len(waiting)
        rows.append(
            BoxPace(part.box, part.run, len(mine), done, tuple(running), len(waiting), bad, left_s, part.problem)
        )
    return rows


def _left_s(part: Part, costs: Mapping[str, float], rate: float, at_once: int) -> float:
    """Estimate the remaining time at the current parallelism; at least the longest running cell."""
    longest = total = 0.0
    for name, cell in part.seen.items():
        if cell.get("state") in _DONE or name not in costs:
            continue
        ran_s = max(0.0, part.now_unix - _number(cell, "started_unix")) if cell.get("state") == "running" else 0.0
        left = max(0.0, rate * costs[name] - ran_s)
        total += left
        longest = max(longest, left)
    return max(longest, total / max(1, at_once))


def _rate(found: Standing, costs: Mapping[str, float], enough: int = _ENOUGH) -> float:
    """Return the median of seconds per cost over the finished cells; 0 where too few have finished."""
    rates = []
    for part in found.parts:
        for name, cell in part.seen.items():
            took_s = _number(cell, "ended_unix") - _number(cell, "started_unix")
            if cell.get("state") == "finished" and name in costs and took_s > 0:
                rates.append(took_s / costs[name])
    return statistics.median(rates) if len(rates) >= enough else 0.0


def _number(cell: Mapping[str, Any], key: str) -> float:
    value = cell.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
