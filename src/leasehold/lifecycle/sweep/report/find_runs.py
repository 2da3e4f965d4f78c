"""Find the runs that a word names: a sweep over several boxes has one on each, and its name means all of them."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.errors import UserError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.records.sweep_parts import parts_of, sweep_of
from leasehold.model.lease.lease import RunRecord


def runs_named(home: Home, word: str) -> list[RunRecord]:
    """Find the run that a word names, or every part of the sweep, by box; a part's own id means that part."""
    known = books.runs(home.ledger)
    whole = [record for record in known if word and record.run.startswith(word) and sweep_of(record.run) != record.run]
    if len(whole) > 1 and len({sweep_of(record.run) for record in whole}) == 1 and not _is_name(known, word):
        return sorted(parts_of(home, whole[0].run), key=lambda part: part.box)
    record = books.find_run(home.ledger, word)
    if sweep_of(record.run) == record.run or len(word) > len(sweep_of(record.run)):
        return [record]
    return sorted(parts_of(home, record.run), key=lambda part: part.box)


def _is_name(known: Sequence[RunRecord], word: str) -> bool:
    return any(word in (record.name, record.run) for record in known)


def one_with_cell(home: Home, records: Sequence[RunRecord], cell: str) -> RunRecord:
    """Choose the part that has a cell now: it may have been moved from one box to another."""
    if len(records) == 1:
        return records[0]
    from .sweep_status import standing  # most commands are about one run

    found = standing(home, records[0].run)
    for account in found.accounts:
        if account.cell == cell:
            return next((record for record in records if record.run == account.run), records[0])
    known = ", ".join(one.name for one in found.roster)
    raise UserError("cell.which", f"{found.sweep} has no cell {cell!r}", hint=f"--cell, one of: {known}")
