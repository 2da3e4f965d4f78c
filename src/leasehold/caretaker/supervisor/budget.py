"""Enforce a run's budget on the box because the laptop may be closed. Money is whole numbers here, never a float."""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.run_state import RunState

from .stop import request_stop

THRESHOLDS = (50, 80, 100)
_SCALE = 10**12
_DIGITS = 12
_GRACE_S = 30.0
_AMOUNT = re.compile(r"(\d{1,30})(?:\.(\d{1,30}))?\Z")


class Allowance:
    """What a run may cost, what it had cost when home reported it, and the price of an hour."""

    def __init__(self, value: Dict[str, Any]) -> None:
        self.limit = units(value["limit"])
        self.currency = str(value["currency"])[:8]
        self.at_limit = "stop" if value.get("at_limit") == "stop" else "warn"
        self._limit_text = str(value["limit"])
        self.name = self._limit_text + self.currency
        self._spent = units(value["spent"])
        self._per_hour = units(value["per_hour"])
        self._as_of_ms = int(float(value["as_of_unix"]) * 1000)

    @classmethod
    def read(cls, folder: RunFolder) -> Optional["Allowance"]:
        """Read the budget from home; None when there is none, or it cannot be computed with."""
        value = read_json(folder.budget)
        try:
            return cls(value) if value else None
        except (KeyError, TypeError, ValueError):
            return None

    def spent(self, now_unix: float) -> int:
        """Return the amount spent by now."""
        hours_ms = max(0, int(now_unix * 1000) - self._as_of_ms)
        return self._spent + self._per_hour * hours_ms // 3600000

    def passed(self, now_unix: float) -> int:
        """Return the highest threshold that is reached, in percent; 0 is none."""
        spent = self.spent(now_unix)
        return max([percent for percent in THRESHOLDS if spent * 100 >= self.limit * percent] or [0])

    def facts(self, percent: int, now_unix: float) -> Dict[str, Any]:
        """Format for the journal."""
        said = {"percent": percent, "spent": spell(self.spent(now_unix)), "limit": self._limit_text}
        return dict(said, currency=self.currency, budget=self.name, at_limit=self.at_limit)


def mind(
    folder: RunFolder, plan: Dict[str, Any], run: RunState, events: List[Dict[str, Any]], note: Callable[..., None]
) -> None:
    """Journal each threshold once; at the limit stop the run as `lease stop` does, if the job asks for that."""
    budget = Allowance.read(folder)
    percent = budget.passed(time.time()) if budget else 0
    if budget is None or not percent:
        return
    if percent > told(events, budget.name):
        note("budget_reached" if percent >= 100 else "budget_warned", **budget.facts(percent, time.time()))
    if percent >= 100 and budget.at_limit == "stop":
        writes_s = float(plan["job"].get("checkpoint", {}).get("write_s") or 0.0)
        grace_s = max(_GRACE_S, 2 * writes_s)
        request_stop(folder, {"id": "budget-%d" % run.seq, "by": "budget", "grace_s": grace_s})


def told(events: Iterable[Dict[str, Any]], budget: str) -> int:
    """Return the highest threshold of this budget in the journal."""
    kinds = ("budget_warned", "budget_reached")
    return max([int(e.get("percent", 0)) for e in events if e.get("k") in kinds and e.get("budget") == budget] or [0])


def units(text: Any) -> int:
    """Read an exact decimal as a whole number of 10^-12."""
    found = _AMOUNT.match(str(text))
    if not found:
        raise ValueError("not an amount: %r" % (text,))
    return int(found.group(1)) * _SCALE + int(((found.group(2) or "") + "0" * _DIGITS)[:_DIGITS])


def spell(amount: int) -> str:
    """Write units as a decimal with four places, cut, not rounded up."""
    return "%d.%04d" % (amount // _SCALE, amount % _SCALE // 10 ** (_DIGITS - 4))
