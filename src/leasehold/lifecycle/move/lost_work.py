"""What a move loses: the work between the state that goes on and the last progress known; unknown when unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.values.money import HourlyPrice
from leasehold.model.values.wording import ago

from .leave_old import Old
from .places import Kept

_MOST_S = 30 * 86400.0  # a longer difference is one of two clocks


class Lost(NamedTuple):
    """Steps, seconds and money; None where unknown."""

    steps: int | None
    seconds: float | None
    money: str

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {"steps": self.steps, "seconds": self.seconds, "money": self.money or None}

    @property
    def words(self) -> str:
        """Format it for people."""
        steps = "unknown how many steps" if self.steps is None else f"{self.steps} step{'s' * (self.steps != 1)}"
        time = "for unknown time" if self.seconds is None else f"about {ago(self.seconds)} of training"
        return f"{steps}, {time}, {self.money or 'at an unknown price'}"


def lost_work(record: RunRecord, lease: Lease, old: Old, kept: Kept | None) -> Lost:
    """Compare the state with the last progress that the old box, or this home's last report of it, names."""
    cells: list[str] = json.loads(record.plan_json).get("cells") or []
    if len(cells) != 1:
        return Lost(None, None, "")
    steps = _steps(record, old, kept)
    seconds = _seconds(record, old, kept, str(cells[0]))
    return Lost(steps, seconds, _money(lease, seconds))


def _steps(record: RunRecord, old: Old, kept: Kept | None) -> int | None:
    reached = _progress(old.seen) if old.seen else None
    said = json.loads(record.work_json) if record.work_json else {}
    reached = reached if reached is not None else _whole((said.get("progress") or {}).get("step"))
    at = 0 if kept is None else kept.state.step
    return None if reached is None or at is None else max(0, reached - at)


def _progress(seen: Mapping[str, Any]) -> int | None:
    progress = seen.get("progress")
    return _whole(progress.get("step")) if isinstance(progress, dict) else None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else None


def _seconds(record: RunRecord, old: Old, kept: Kept | None, cell: str) -> float | None:
    """Return the training time after the state: by the old box's own clock if it answers, else by the last report."""
    last = json.loads(record.work_json) if record.work_json else {}
    if kept is None:
        trained = ((old.seen or {}).get("work") or last).get("trained_s")
        return float(trained) if isinstance(trained, int | float) else None
    after = _until(old, last, cell) - kept.state.made_unix
    return round(max(0.0, after), 1) if -60.0 < after < _MOST_S else None


def _until(old: Old, last: Mapping[str, Any], cell: str) -> float:
    """Return until when it is known to have trained."""
    if old.seen is None or cell not in old.seen.get("cells", {}):
        return float(last.get("heard_unix") or 0.0)
    has = old.seen["cells"][cell]
    ended = 0.0 if has.get("state") == "running" else float(has.get("ended_unix") or 0.0)
    return ended or float(old.seen.get("now_unix") or 0.0)


def _money(lease: Lease, seconds: float | None) -> str:
    return "" if seconds is None or not lease.price else HourlyPrice.parse(lease.price).cost(seconds)
