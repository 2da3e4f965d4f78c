"""The parts of a sweep: a sweep over several boxes has one run on each, and one name."""

from __future__ import annotations

import re

from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import RunRecord

_PART = re.compile(r"-b[0-9a-f]{6}\Z")


def sweep_of(run: str) -> str:
    """Return the sweep of which a run is a part."""
    return _PART.sub("", run)


def parts_of(home: Home, word: str) -> list[RunRecord]:
    """List every run of the sweep that a run, a sweep or a job's name stands for."""
    known = books.runs(home.ledger)
    whole = [record for record in known if word and sweep_of(record.run) == sweep_of(word)]
    if not whole:
        sweep = sweep_of(books.find_run(home.ledger, word).run)
        whole = [record for record in known if sweep_of(record.run) == sweep]
    return whole
