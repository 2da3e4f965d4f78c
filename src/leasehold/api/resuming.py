"""Verbs that take up a run again, or let it go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.lifecycle.home.home import Home

if TYPE_CHECKING:
    from leasehold.lifecycle.records.orders import RunOutcome
    from leasehold.model.run.note import Report


def resume(home: Home, word: str, report: Report, *, detach: bool = False) -> RunOutcome:
    """Go on with a stopped or failed run from the plan and the code that it began with."""
    from leasehold.lifecycle.run.resume import resume as go_on

    return go_on(home, word, report, detach=detach)


def forget(home: Home, word: str) -> dict[str, str]:
    """Take a run out of this home's lists, if nothing of it could be lost or could bill."""
    from leasehold.lifecycle.care.forget import forget as let_go

    record = let_go(home, word)
    return {"run": record.run, "state": record.state, "home": record.home_since}
