"""Pull through lost links: what came is kept, the pause grows and is capped, and a stall that ends starts it anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from leasehold.errors import LinkError, RunFailed
from leasehold.ledger import books
from leasehold.model.lease import RunRecord
from leasehold.model.note import Note, Report
from leasehold.model.receipt import Receipt
from leasehold.platforms.engines.caretaker import CaretakerEngine

from .boxes import Box, box_of
from .bring_home import PullWish, bring_home
from .evacuate import evacuate
from .home import Home
from .orders import Evacuation
from .pull.calling import Calls
from .pull.pace import Pace

_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_T = TypeVar("_T")
_FRUITLESS = 8  # attempts in a row that brought nothing


@dataclass(frozen=True)
class PullOrder:
    """What `lease pull` was asked for."""

    limit_bytes_per_s: float = 0.0


def pull_home(
    home: Home, record: RunRecord, report: Report, engine: CaretakerEngine | None = None, order: PullOrder | None = None
) -> Receipt:
    """Bring a run's results home and verify them; finds a finished pull done. An open wire may be handed in."""

    def once(open_engine: CaretakerEngine, wish: PullWish) -> Receipt:
        return bring_home(home.ledger, record, open_engine, report, wish)

    return _Persistent(home, record, report, order or PullOrder()).keep_on(once, engine)


def pull_or_evacuate(home: Home, record: RunRecord, report: Report, order: PullOrder) -> Receipt | Evacuation:
    """Bring results home; of a run that still works, what is finished so far."""

    def once(engine: CaretakerEngine, wish: PullWish) -> Receipt | Evacuation:
        try:
            return bring_home(home.ledger, record, engine, report, wish)
        except RunFailed as error:
            if error.code != "run.unfinished":
                raise
        return evacuate(home.ledger, record, engine, report, wish)

    return _Persistent(home, record, report, order).keep_on(once, None)


class _Persistent:
    """Repeats a pull until it is done, or until several attempts in a row bring nothing."""

    def __init__(self, home: Home, record: RunRecord, report: Report, order: PullOrder) -> None:
        self._box: Box = box_of(home, books.find_lease(home.ledger, record.lease))
        self._report = report
        self._pace = Pace(report)
        self._calls = Calls(self._box, home.way_memory(self._box.name))
        self._wish = PullWish(self._calls.more, order.limit_bytes_per_s, self._pace, self._calls.remember)

    def keep_on(self, once: Callable[[CaretakerEngine, PullWish], _T], engine: CaretakerEngine | None) -> _T:
        """Call until it returns; a lost link is told, waited for and taken up again."""
        try:
            return self._keep_on(once, engine)
        finally:
            self._calls.hang_up()

    def _keep_on(self, once: Callable[[CaretakerEngine, PullWish], _T], engine: CaretakerEngine | None) -> _T:
        fruitless = 0
        while True:
            before = self._pace.fetched_bytes
            try:
                engine = engine or self._calls.first()
                return once(engine, self._wish)
            except LinkError as error:
                fruitless = 0 if self._pace.fetched_bytes > before else fruitless + 1
                if fruitless >= _FRUITLESS:
                    raise
                pause_s = _PAUSES_S[min(fruitless, len(_PAUSES_S) - 1)]
                text = f"{error.message}; what came so far is kept; trying again in {pause_s:.0f} s"
                self._report(Note("unknown", text, {"pause_s": pause_s, "code": error.code}))
                time.sleep(pause_s)
            finally:
                if engine is not None:
                    engine.wire.close()
                engine = None
