"""What has left a box and what would be lost with it: the box's report, checked, carried on by the clock, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from leasehold.kit.events.refuge_events import remedy_of
from leasehold.model.values.money import HourlyPrice
from leasehold.model.values.wording import ago, one_line

_MOST_S = 10 * 366 * 86400.0
_MOST_PLACES = 16
_PLACE_CHARS = 300
HOME_ALONE = "refuge: home only; home is no refuge while its machine sleeps"


def checked_refuge(value: Any) -> dict[str, Any]:
    """Keep what has the right form; anything else in a box's report is dropped."""
    if not isinstance(value, Mapping) or not _is_duration(value.get("lost_s")):
        return {}
    kept: dict[str, Any] = {"lost_s": value["lost_s"], "home": value.get("home") is True}
    kept["places"] = [_text(one) for one in _listed(value.get("places"))]
    kept.update({name: value[name] for name in ("cells", "copied", "step") if _is_count(value.get(name))})
    if _is_duration(value.get("age_s")):
        kept.update(age_s=value["age_s"], place=_text(value.get("place")))
    failed = [one for one in _listed(value.get("failed")) if isinstance(one, Mapping)]
    kept["failed"] = [{"place": _text(one.get("place")), "class": _text(one.get("class"))[:40]} for one in failed]
    return kept


def carried_on(refuge: Mapping[str, Any], heard_s: float, training: bool, price: str) -> dict[str, Any]:
    """Advance a report to now: ages grow, the loss grows while it trains; add what the loss costs."""
    value = dict(refuge)
    if "age_s" in value:
        value["age_s"] = round(value["age_s"] + heard_s, 1)
    value["lost_s"] = round(value["lost_s"] + (heard_s if training else 0.0), 1)
    cost = HourlyPrice.parse(price).money.times(value["lost_s"] / 3600) if price else None
    return {**value, "cost": cost.spelled if cost else ""}


def say_refuge(refuge: Mapping[str, Any]) -> list[str]:
    """Describe it: the newest state off the box, or that there is none, and what fails."""
    if not refuge:
        return []
    lost = ago(refuge["lost_s"]) + (f" / {refuge['cost']}" if refuge.get("cost") else "")
    risk = f"{lost} at risk" if refuge["lost_s"] >= 1 else "nothing at risk"
    return [f"{_newest(refuge)}, {risk}", *_failures(refuge)]


def _newest(refuge: Mapping[str, Any]) -> str:
    if "age_s" not in refuge:
        return HOME_ALONE if refuge["home"] and not refuge["places"] else "nothing has left this box"
    step = f"step {refuge['step']}, " if "step" in refuge else ""
    cells, copied = refuge.get("cells", 1), refuge.get("copied", 1)
    which = "newest state off the box" if cells <= 1 else f"{copied} of {cells} cells are off the box, the oldest"
    return f"{which}: {step}{ago(refuge['age_s'])} old, in {one_line(refuge['place'])}"


def _failures(refuge: Mapping[str, Any]) -> list[str]:
    said = []
    for one in refuge.get("failed", ()):
        remedy = remedy_of(one["class"])
        kind = one["class"].replace("_", "-") or "failed"
        said.append(f"no checkpoint reaches {one_line(one['place'])} ({kind})" + (f": {remedy}" if remedy else ""))
    return said


def _listed(value: Any) -> list[Any]:
    return list(value[:_MOST_PLACES]) if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value[:_PLACE_CHARS] if isinstance(value, str) else ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15


def _is_duration(value: Any) -> bool:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return good and math.isfinite(value) and 0 <= value < _MOST_S
