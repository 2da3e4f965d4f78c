"""Bring the newest states home in the background of a watch, where home is to be a refuge; at a cadence and a rate."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from leasehold.errors import LeaseholdError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.model.job.parse_refuge import DURABLE, HOME
from leasehold.model.run.note import Note, Report

EVERY_S = 600.0
RATE_BYTES_PER_S = 20e6  # of a link that others use too
_FIRST_EVERY_S = 30.0  # until there is a first state
HERE = "local"  # this machine as a box: a copy on it is no refuge
_QUIET = ("pulling", "pulled", "waiting")  # of a pull that nobody asked for


class StateDuty:
    """A background puller of one run's states; what it brought, and why it could not, is reported."""

    def __init__(self, home: Home, run: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._home, self._run, self._clock = home, run, clock
        record = books.find_run(home.ledger, run)
        plan = json.loads(record.plan_json)
        saves = (plan.get("job") or {}).get("checkpoint") or {}
        elsewhere = (plan.get("environment") or {}).get("durable")
        refuges = saves.get("refuge") or ([DURABLE] if elsewhere else [])
        here = books.find_lease(home.ledger, record.lease).box == HERE
        self._due = bool(saves.get("path")) and (HOME in refuges or not refuges) and not here
        self._every_s = float(saves.get("every_s") or EVERY_S)
        self._rate = float(saves.get("rate_bytes") or RATE_BYTES_PER_S)
        self._next_at = self._clock() + min(self._every_s, _FIRST_EVERY_S)
        self._thread: threading.Thread | None = None
        self._said = self._failed = ""

    @property
    def is_due(self) -> bool:
        """Return whether the job has no other refuge, or names home as one."""
        return self._due

    def beat(self, report: Report) -> None:
        """Begin a pull if one is due and none is under way."""
        busy = self._thread is not None and self._thread.is_alive()
        if not self._due or busy or self._clock() < self._next_at:
            return
        self._next_at = self._clock() + self._every_s
        self._thread = threading.Thread(target=self._pull, args=(report,), daemon=True, name=f"states {self._run}")
        self._thread.start()

    def end(self, limit_s: float) -> None:
        """Wait a while for the pull that is under way; what it has fetched is kept in any case."""
        if self._thread is not None:
            self._thread.join(limit_s)

    def _pull(self, report: Report) -> None:
        from leasehold.lifecycle.results.pull_until_done import PullOrder
        from leasehold.lifecycle.states.pull_states import pull_states
        from leasehold.lifecycle.states.states_brought import HOME_WORDS

        def tell(note: Note) -> None:
            if note.kind not in _QUIET:
                report(note)

        home = replace(self._home)
        try:
            done = pull_states(home, books.find_run(home.ledger, self._run), tell, PullOrder(self._rate))
            self._failed = ""
            if done.new and not self._said:
                self._said = HOME_WORDS
                report(Note("home_refuge", HOME_WORDS, {"run": self._run}))
            if done.lacking:
                self._next_at = min(self._next_at, self._clock() + _FIRST_EVERY_S)
        except LeaseholdError as error:  # the watch goes on; the next turn tries again
            if error.code != self._failed:
                text = f"the newest state could not be brought home: {error.message}; it is tried again"
                report(Note("warning", text, {"code": error.code}))
            self._failed = error.code
        finally:
            home.ledger.close()
