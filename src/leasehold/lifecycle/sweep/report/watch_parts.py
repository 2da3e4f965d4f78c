"""Watch every part of a sweep in parallel: one screen, each line with the box that it comes from."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from leasehold.errors import LeaseholdError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.watch.side_duties import Minder
from leasehold.lifecycle.watch.watch import Watch
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.note import Note, Report

_LOOK_S = 0.5
_WORST = ("failed", "stopped", "unknown")


def watch_parts(home: Home, records: Sequence[RunRecord], report: Report) -> str:
    """Follow all to their ends; return the worst state, and raise the error of a part that could not be followed."""
    parts = [_Part(home, record, report) for record in records]
    for part in parts:
        part.start()
    for part in parts:
        while part.is_alive():
            part.join(_LOOK_S)
    for part in parts:
        if part.error is not None:
            raise part.error
    states = {part.state for part in parts}
    return next((word for word in _WORST if word in states), "finished" if states == {"finished"} else "unknown")


class _Part(threading.Thread):
    def __init__(self, home: Home, record: RunRecord, report: Report) -> None:
        super().__init__(daemon=True)  # Ctrl-C only leaves; the runs go on
        self._home, self._record, self._report = home, record, report
        self.state = "unknown"
        self.error: LeaseholdError | None = None

    def run(self) -> None:
        lease = books.find_lease(self._home.ledger, self._record.lease)
        try:
            minder = Minder(self._home, self._record.run)
            following = Watch(self._record.run, lease.id, box_of(self._home, lease), minder=minder)
            self.state = following.until_end(self._home.ledger, None, self._say).state
        except LeaseholdError as error:
            self.error = error

    def _say(self, note: Note) -> None:
        lines = "\n".join(f"{self._record.box}: {line}" for line in note.text.rstrip("\n").split("\n"))
        self._report(replace(note, text=lines))
