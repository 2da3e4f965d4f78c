"""Verbs that look back: curves of what a box measured, and its patrol log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.model.run.curve import Curve
from leasehold.model.run.note import Report, silent

if TYPE_CHECKING:
    from leasehold.lifecycle.watch.curves import Measured
    from leasehold.model.lease.lease import RunRecord

_LOOK_EVERY_S = 15.0


def plot(
    home: Home, word: str, wanted: Sequence[str], since: str, report: Report = silent
) -> tuple[str, list[Curve], float]:
    """Return the run, its curves and the box's clock; report when they come from the home copy."""
    from leasehold.lifecycle.records.sweep_parts import sweep_of
    from leasehold.lifecycle.sweep.report.find_runs import runs_named
    from leasehold.lifecycle.watch.curves import curves_of

    parts = runs_named(home, word)
    if len(parts) > 1:
        return _plot_parts(home, parts, wanted, since, sweep_of(parts[0].run), report)
    run, seen = _measured(home, parts[0].run, since, report)
    if not seen.records:
        raise UserError(
            "plot.empty",
            f"nothing was measured of {run}" + (f" in the last {since}" if since else " yet"),
            hint="a reading comes every 5 seconds while the run lives; a run older than this version has none",
        )
    return run, curves_of(seen, wanted), seen.now_unix


def _plot_parts(
    home: Home, parts: Sequence[RunRecord], wanted: Sequence[str], since: str, sweep: str, report: Report
) -> tuple[str, list[Curve], float]:
    """Draw the parts of a sweep in the same panels, each line labelled with its box."""
    from leasehold.lifecycle.watch.curves import curves_of

    seen = [(part.box, _measured(home, part.run, since, report)[1]) for part in parts]
    if not any(measured.records for _, measured in seen):
        raise UserError("plot.empty", f"nothing was measured of {sweep}", hint="a reading comes every 5 seconds")
    drawn = [
        replace(curve, name=f"{box}" if curve.name == curve.panel else f"{box} {curve.name}")
        for box, measured in seen
        if measured.records
        for curve in curves_of(measured, wanted)
    ]
    order = list(dict.fromkeys(curve.panel for curve in drawn))
    drawn.sort(key=lambda curve: order.index(curve.panel))
    return sweep, drawn, max(measured.now_unix for _, measured in seen)


def patrol(
    home: Home, word: str, since: str, follow: bool, emit: Callable[[dict[str, Any]], None], report: Report
) -> str:
    """Emit one record per minute of what the patrol measured; with follow, continue until the run has ended."""
    from leasehold.lifecycle.results.home_copy import HomeCopy, seen_from, tell_copy
    from leasehold.lifecycle.watch.curves import read_series
    from leasehold.lifecycle.watch.patrol_minutes import last_of_minutes

    record = books.find_run(home.ledger, word)
    engine = seen_from(home, record, alone=True)
    tell_copy(engine, report)
    follow = follow and not isinstance(engine, HomeCopy)  # the home copy does not grow
    after_unix, last_s = 0.0, _seconds(since)
    with engine:
        while True:
            ended = engine.observe.look(record.run)["state"] in ("finished", "failed", "stopped")
            seen = read_series(engine, record.run, last_s)
            for reading in last_of_minutes(seen, after_unix, whole=ended or not follow):
                after_unix = float(reading["t"])
                emit(reading)
            if ended or not follow:
                return record.run
            last_s = 300.0
            time.sleep(_LOOK_EVERY_S)


def _measured(home: Home, word: str, since: str, report: Report) -> tuple[str, Measured]:
    from leasehold.lifecycle.results.home_copy import seen_from, tell_copy
    from leasehold.lifecycle.watch.curves import read_series

    last_s = _seconds(since)
    record = books.find_run(home.ledger, word)
    with seen_from(home, record, alone=True) as engine:
        tell_copy(engine, report)
        return record.run, read_series(engine, record.run, last_s)


def _seconds(since: str) -> float:
    from leasehold.model.values.units import parse_duration

    try:
        return parse_duration(since) if since else 0.0
    except ValueError as error:
        raise UserError("plot.bad_since", str(error), hint="lease plot NAME --since 2h") from None
