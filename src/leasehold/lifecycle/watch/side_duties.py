"""Duties beside a watch: record the work at risk, bring states home, warn of the budget, keep the handbook current."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leasehold.kit.run.run_state import RunState
from leasehold.kit.run.run_states import FINISHED
from leasehold.ledger import books
from leasehold.lifecycle.money import budget
from leasehold.lifecycle.tell import handbook
from leasehold.model.lease.budget import THRESHOLDS
from leasehold.model.lease.trained_time import checked_work, with_progress

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.run.note import Report

from .bring_states import StateDuty

_KEEP_EVERY_S = 300.0
_FEW_CELLS = 8
_PAGE_EVERY_S = 5.0  # limits the page of very many cells while they end one after the other
_KEEP_AT_MOST_S = 20.0  # a new checkpoint is recorded sooner, but not every second
_BUDGET_EVERY_S = 10.0
_BUDGET_KINDS = ("budget_warned", "budget_reached")


class Minder:
    """The side duties for one watched run."""

    def __init__(self, home: Home, run: str) -> None:
        self._home, self._run = home, run
        self._kept_at = self._budget_at = float("-inf")
        self._unsaved_s = self._lost_s = 0.0
        self._cells = (1, 0)  # total, and how many have finished
        self._page_state = ""
        self._page_at = 0.0
        self._states = StateDuty(home, run)

    def beat(self, beat: Mapping[str, Any], report: Report, proof_age_s: float | None = None) -> None:
        """Process a beat: how much is trained and saved, and how old the caretaker's sign of life is."""
        work = checked_work(beat.get("work"))
        if work:
            self._keep(with_progress(work, beat.get("readings"), *self._cells), proof_age_s)
        self._states.beat(report)
        if time.monotonic() - self._budget_at >= _BUDGET_EVERY_S:
            self._budget_at = time.monotonic()
            budget.warn(self._home, books.find_run(self._home.ledger, self._run), time.time(), report)

    def knows(self, event: dict[str, Any]) -> bool:
        """Return whether this journal event was already reported here; if not, remember it: the caller reports it."""
        percent, name = event.get("percent"), str(event.get("budget", ""))[:40]
        if event.get("k") not in _BUDGET_KINDS or percent not in THRESHOLDS:
            return False
        if budget.told(self._home.ledger, self._run, name) >= percent:
            return True
        budget.remember(self._home.ledger, books.find_run(self._home.ledger, self._run), name, percent)
        return False

    def stands(self, state: RunState) -> None:
        """Update the handbook at home after the run's state changed."""
        self._cells = len(state.cells), sum(cell.state == FINISHED for cell in state.cells.values())
        if not self._page_due(state):
            return
        handbook.refresh(self._home, books.find_run(self._home.ledger, self._run), state.as_dict())

    def _page_due(self, state: RunState) -> bool:
        """Return whether to write the page: at once for few cells or a change of the run itself, else seldom."""
        now = time.monotonic()
        turned = state.state != self._page_state or len(state.cells) <= _FEW_CELLS
        if not turned and now - self._page_at < _PAGE_EVERY_S:
            return False
        self._page_state, self._page_at = state.state, now
        return True

    def _keep(self, work: dict[str, Any], proof_age_s: float | None) -> None:
        age_s = time.monotonic() - self._kept_at
        lost_s = (work.get("refuge") or {}).get("lost_s", 0.0)
        saved = work.get("unsaved_s", 0.0) < self._unsaved_s or lost_s < self._lost_s
        self._unsaved_s, self._lost_s = work.get("unsaved_s", 0.0), lost_s
        if not work["training"] or age_s >= _KEEP_EVERY_S or (saved and age_s >= _KEEP_AT_MOST_S):
            self._kept_at = time.monotonic()
            lease = books.find_run(self._home.ledger, self._run).lease
            proven = {} if proof_age_s is None else {"proven_unix": time.time() - proof_age_s}
            self._home.ledger.append("run_work", lease=lease, run=self._run, work=work, **proven)
