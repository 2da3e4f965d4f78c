"""Estimate how often this run is interrupted: from its journal, and before that from the platform's known rate."""

from __future__ import annotations

from typing import Any, Dict, Iterable

from leasehold.kit.files.journal import read_from
from leasehold.kit.run.cadence import QUIET_GAP_S, mean_gap_s

from .run_folder import RunFolder

_RAN = ("attempt_started", "attempt_ended")


def gap_s(folder: RunFolder, now_unix: float) -> float:
    """Return the mean time between interruptions that the next attempt should reckon with."""
    events, _ = read_from(folder.journal, 0)
    if not any(event.get("k") in _RAN for event in events):
        return _assumed_s(folder.platform())
    from .work_clock import stretches, trained_s  # here: a first attempt has nothing to add up

    trained = sum(trained_s(spans, now_unix) for spans in stretches(events).values())
    return mean_gap_s(_assumed_s(folder.platform()), trained, interruptions(events))


def interruptions(events: Iterable[Dict[str, Any]]) -> int:
    """Count the attempts that something else ended: a signal or a vanished box, but no stop request and no bug."""
    count, wished = 0, False
    for event in events:
        kind = event.get("k")
        if kind in ("stop_requested", "resumed"):
            wished = kind == "stop_requested"
        elif kind == "attempt_ended" and not wished:
            count += bool(event.get("lost")) or event.get("signal") is not None
    return count


def _assumed_s(platform: Dict[str, Any]) -> float:
    said = platform.get("gap_s")
    return float(said) if isinstance(said, (int, float)) and said > 0 else QUIET_GAP_S
