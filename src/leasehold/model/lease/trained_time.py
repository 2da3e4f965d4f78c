"""Check a box's report of trained time and checkpoints before it is used or stored."""

from __future__ import annotations

import json
import math
from typing import Any

from leasehold.model.platform.billing_facts import LeaseFacts

from .lease import RunRecord
from .meter import Work
from .off_the_box import checked_refuge

_MOST_S = 10 * 366 * 86400.0
_FIGURES = ("trained_s", "unsaved_s", "uncopied_s", "stored_s", "open_s")
_LENT = ("core_s", "card_s")  # of an allocation: many at once, so no duration
_MOST_LENT_S = 1e6 * _MOST_S
_OVER = ("finished", "failed", "stopped", "absent")


def checked_work(value: Any) -> dict[str, Any]:
    """Keep the figures that are durations; anything else in a box's report is dropped."""
    if not isinstance(value, dict) or not _is_duration(value.get("trained_s")):
        return {}
    kept: dict[str, Any] = {name: value[name] for name in _FIGURES if _is_duration(value.get(name))}
    kept.update((name, value[name]) for name in _LENT if _is_duration(value.get(name), _MOST_LENT_S))
    refuge = checked_refuge(value.get("refuge"))
    return {**kept, "training": value.get("training") is True, **({"refuge": refuge} if refuge else {})}


def with_progress(work: dict[str, Any], readings: Any, cells: int = 1, done: int = 0) -> dict[str, Any]:
    """Add a training's progress, as its box reads its log; of several cells only how many have finished."""
    progress = _checked_progress(readings, cells, done)
    return {**work, "progress": progress} if progress else work


def _checked_progress(readings: Any, cells: int, done: int) -> dict[str, Any]:
    if cells > 1:
        return {"cells": cells, "cells_done": done}
    said = readings.get("progress") if isinstance(readings, dict) else None
    if not isinstance(said, dict):
        return {}
    kept: dict[str, Any] = {name: int(said[name]) for name in ("step", "total") if _is_duration(said.get(name), 1e15)}
    kept.update((name, said[name]) for name in ("epoch", "epochs", "eta_s") if _is_duration(said.get(name)))
    loss = said.get("loss", "")  # None: it was a number, and no longer is
    if loss is None or (isinstance(loss, int | float) and not isinstance(loss, bool) and math.isfinite(loss)):
        kept["loss"] = loss
    return kept


def work_of(record: RunRecord, facts: LeaseFacts, root: str) -> Work | None:
    """Return the work of a run that exists only on its box; None if nothing is owed, or nothing was reported."""
    if not record.work_json or not record.owed():
        return None
    said = json.loads(record.work_json)
    trained, unsaved, heard = said["trained_s"], said.get("unsaved_s"), float(said["heard_unix"])
    only_here = max(0.0, trained - record.home_s())  # in a sweep, some cells may be home already
    if facts.outlives_box(root) and unsaved is not None:
        only_here = unsaved
    if facts.copies_outlive_box and "uncopied_s" in said:
        only_here = min(only_here, said["uncopied_s"])
    if "stored_s" in said:  # an object store is no part of any box
        only_here = min(only_here, said["stored_s"])
    training = said["training"] and record.state not in _OVER
    started = heard - said["open_s"] if "open_s" in said else 0.0
    return Work(
        record.run, training, only_here, unsaved, heard, started, _left_s(record, trained, said.get("open_s", 0.0))
    )


def _left_s(record: RunRecord, trained_s: float, open_s: float) -> float | None:
    """Return the time until every cell has had its `expect`; past that, or without it, it is unknown.

    Cells that run in parallel train more than an hour per hour; the same number is assumed to continue.
    """
    plan = json.loads(record.plan_json)
    expected = float(plan.get("job", {}).get("expect_s") or 0.0) * max(1, len(plan.get("cells") or ()))
    side_by_side = max(1.0, trained_s / open_s) if open_s else 1.0
    return (expected - trained_s) / side_by_side if expected > trained_s else None


def _is_duration(value: Any, most_s: float = _MOST_S) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 <= value < most_s
