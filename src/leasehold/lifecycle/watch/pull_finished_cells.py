"""Pull finished cells home while the others go on, so that a box's death costs little.

A pull begins once enough finished work lies on the box alone: more than a person accepts to lose, and a fair part of
what is home already, since every pull checks all of it again.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError
from leasehold.kit.run.run_state import RunState
from leasehold.kit.run.run_states import FINISHED
from leasehold.ledger import books
from leasehold.lifecycle.results.pull_until_done import pull_home
from leasehold.model.run.note import Note, Report

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home

AT_RISK_S = 600.0
_SHARE = 0.25  # of what is home


class Harvest:
    """A background puller of one run's finished cells, beside its watch."""

    def __init__(self, home: Home, run: str, report: Report, at_risk_s: float = AT_RISK_S) -> None:
        self._home, self._run, self._report, self._at_risk_s = home, run, report, at_risk_s
        self._thread: threading.Thread | None = None

    def stands(self, state: RunState) -> None:
        """Check the cells' states, and begin a pull if it is worthwhile and none is under way."""
        if state.terminal or len(state.cells) < 2 or (self._thread is not None and self._thread.is_alive()):
            return
        if self._due(state):
            self._thread = threading.Thread(target=self._pull, daemon=True, name=f"harvest {self._run}")
            self._thread.start()

    def end(self) -> None:
        """Wait for the pull that is under way, so that its files are not fetched again."""
        if self._thread is not None:
            self._thread.join()

    def _due(self, state: RunState) -> bool:
        took = {
            name: max(0.0, cell.ended_unix - cell.started_unix)
            for name, cell in state.cells.items()
            if cell.state == FINISHED
        }
        home = set(books.find_run(self._home.ledger, self._run).settled())
        here_alone_s = sum(seconds for name, seconds in took.items() if name not in home)
        at_home_s = sum(seconds for name, seconds in took.items() if name in home)
        return bool(took.keys() - home) and here_alone_s >= max(self._at_risk_s, _SHARE * at_home_s)

    def _pull(self) -> None:
        home = replace(self._home)
        try:
            pull_home(home, books.find_run(home.ledger, self._run), self._report)
        except LeaseholdError as error:  # the end of the run pulls again, and reports it as an error
            self._report(Note("warning", f"finished cells could not be brought home yet: {error.message}"))
        finally:
            home.ledger.close()
