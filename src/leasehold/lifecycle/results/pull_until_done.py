"""Pull until done: what came is kept; the pause grows with each attempt that brings nothing, up to a cap."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from leasehold.errors import LinkError, RunFailed
from leasehold.kit.failure.back_off import pause_after
from leasehold.ledger import books
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.pull.connections import Calls
from leasehold.lifecycle.pull.rate import Pace
from leasehold.lifecycle.records.orders import PullOutcome
from leasehold.model.run.note import Note, Report
from leasehold.transport.early_calls import EarlyCalls

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import RunRecord
    from leasehold.model.run.receipt import Receipt
    from leasehold.platforms.contract import Engine

    from .bring_home import PullWish

_T = TypeVar("_T")
_FRUITLESS = 8  # consecutive attempts that brought nothing


@dataclass(frozen=True)
class PullOrder:
    """The parameters of `lease pull`."""

    limit_bytes_per_s: float = 0.0


def pull_home(
    home: Home, record: RunRecord, report: Report, engine: Engine | None = None, order: PullOrder | None = None
) -> Receipt:
    """Bring a run's results home and verify them, unless that is done; an open connection may be passed in."""

    persistent = Persistent(home, record, report, order or PullOrder(), engine)
    from .bring_home import bring_home  # while ssh shakes hands

    def once(open_engine: Engine, wish: PullWish) -> Receipt:
        return bring_home(home.ledger, record, open_engine, report, wish)

    return persistent.keep_on(once)


def pull_or_evacuate(home: Home, record: RunRecord, report: Report, order: PullOrder) -> PullOutcome:
    """Bring results home; of cells that go on, what is finished so far; of failed ones, what they left."""

    persistent = Persistent(home, record, report, order, None)
    from .bring_home import bring_home  # while ssh shakes hands
    from .evacuate import evacuate, nothing_yet

    def once(engine: Engine, wish: PullWish) -> PullOutcome:
        try:
            receipt = bring_home(home.ledger, record, engine, report, wish)
        except RunFailed as error:
            if error.code not in ("run.unfinished", "run.no_result"):
                raise
            return PullOutcome(record.run, None, evacuate(home.ledger, record, engine, report, wish))
        if not books.find_run(home.ledger, record.run).owed():
            return PullOutcome(record.run, receipt)
        try:  # what its other cells left, or have so far, comes too, unsealed
            return PullOutcome(record.run, receipt, evacuate(home.ledger, record, engine, report, wish))
        except RunFailed as error:
            if error.code != "run.unfinished":
                raise
            return PullOutcome(record.run, receipt, nothing_yet(record, engine))

    return persistent.keep_on(once)


class Persistent:
    """A loop that repeats a pull until it is done, or until several attempts in a row bring nothing."""

    def __init__(self, home: Home, record: RunRecord, report: Report, order: PullOrder, engine: Engine | None) -> None:
        self._box: Box = box_of(home, books.find_lease(home.ledger, record.lease))
        self._report = report
        self._record: RunRecord | None = record if engine is None else None  # the command that launched it has checked
        self._pace = Pace(report)

        stays = getattr(self._box.transport, "stays", True)  # a box that moves is not called by an old command line
        answered = EarlyCalls(home.path).remembering(record.name, record.run) if stays else None
        self._calls = Calls(self._box.transport, self._box.connect_by, home.way_memory(self._box.name), answered)
        self._engine = engine
        if engine is None:
            self._calls.begin()
        from .bring_home import PullWish

        self._wish = PullWish(self._calls.more, order.limit_bytes_per_s, self._pace, self._calls.remember)

    def keep_on(self, once: Callable[[Engine, PullWish], _T]) -> _T:
        """Call until it returns; a lost link is reported, waited for and replaced."""
        try:
            return self._keep_on(once)
        finally:
            self._calls.hang_up()

    def _look_where_it_goes(self, engine: Engine) -> None:
        """Check once, before any bytes, that results do not come home to the box itself: that would be no copy."""
        record, self._record = self._record, None
        if record is not None:
            from leasehold.lifecycle.machine.two_places import warn_results_on_box

            warn_results_on_box(engine, self._box, record, self._report)

    def _keep_on(self, once: Callable[[Engine, PullWish], _T]) -> _T:
        fruitless = 0
        engine, self._engine = self._engine, None
        heard, begun = engine is not None, time.monotonic()
        while True:
            before = self._pace.fetched_bytes
            try:
                engine = engine or self._calls.first()
                heard = True
                self._look_where_it_goes(engine)
                return once(engine, self._wish)
            except LinkError as error:
                fruitless = 0 if self._pace.fetched_bytes > before else fruitless + 1
                silent = not heard and time.monotonic() - begun >= self._box.limits.first_word_s
                if fruitless >= _FRUITLESS or silent:
                    raise
                pause_s = pause_after(fruitless + 1)
                text = f"{error.message}; what came so far is kept; trying again in {pause_s:.0f} s"
                self._report(Note("unknown", text, {"pause_s": pause_s, "code": error.code}))
                time.sleep(pause_s)
            finally:
                if engine is not None:
                    engine.close()
                engine = None
