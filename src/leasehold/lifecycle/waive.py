"""Waive: a person's typed abandonment of a cell's results, after what exists was salvaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from leasehold.errors import BoxError, LinkError, Refusal, UserError
from leasehold.kit.terminal import one_line
from leasehold.ledger import books
from leasehold.model.lease import RunRecord
from leasehold.model.note import Note, Report
from leasehold.model.plan import plan_from_dict

from . import waivers
from .approve import Ask
from .boxes import box_of
from .home import Home, person
from .results import Folders, private
from .salvage import salvage

_NAMED = 8  # files that the question names; more are counted


class _Left(NamedTuple):
    """What was found of a cell on the box."""

    files: list[dict[str, Any]]
    reached: bool  # the box answered, with our folder on it
    missed: bool = False  # and this run was not in it


def waive(home: Home, record: RunRecord, cell: str, ask: Ask, report: Report) -> Path:
    """Salvage a cell into quarantine, then have a person type what is given up."""
    plan = plan_from_dict(json.loads(record.plan_json))
    if cell not in plan.cells:
        raise UserError(
            "cell.unknown", f"{record.run} has no cell {cell!r}", hint=f"its cells: {', '.join(plan.cells)}"
        )
    receipt = books.receipt_of(record)
    if receipt and cell in receipt.cells:
        raise UserError("cell.home", f"{cell} is home and verified; there is nothing to give up")
    place = Folders(Path(record.results), record.run).quarantine(f"waived-{cell}")
    private(place.parent)
    place.mkdir(parents=True)
    left = _salvage(home, record, cell, place, report)
    promised = ", ".join(artifact.pattern for artifact in plan.job.artifacts)
    report(Note("waiver_asked", _warning(record, cell, promised, left)))
    phrase = f"give up {cell} of {record.run}"
    answer = ask(f"to give it up, type exactly:  {phrase}\n> ").strip()
    if answer != phrase:
        raise Refusal(
            "waiver.not_given",
            f"{answer!r} is not the phrase; {cell} is not given up",
            hint=f"what was salvaged stays in {place}",
        )
    facts = {
        "cell": cell,
        "by": person(),
        "lost": promised,
        "salvaged": sum(entry["salvaged"] for entry in left.files),
        "reached_box": left.reached,
        "missed": left.missed,
        "place": str(place),
    }
    waivers.record(home, record, facts, left.files)
    return place


def take_back(home: Home, record: RunRecord, cell: str) -> None:
    """End a waiver: the cell is owed again, and the identical `lease run` resumes it."""
    if not record.waives(cell):
        given_up = ", ".join(record.waived) or "none"
        raise UserError("cell.not_waived", f"{cell} of {record.run} was not given up", hint=f"given up: {given_up}")
    home.ledger.append("waiver_taken_back", lease=record.lease, run=record.run, cell=cell, by=person())


def _salvage(home: Home, record: RunRecord, cell: str, place: Path, report: Report) -> _Left:
    box = box_of(home, books.find_lease(home.ledger, record.lease))
    try:
        engine = box.connect()
        try:
            seen = engine.look(record.run)
        except LinkError:
            engine.wire.close()
            raise
    except (BoxError, LinkError) as error:  # a box whose disk with our folder is gone answers, and has nothing to read
        what = "cannot be reached" if isinstance(error, LinkError) else "answers, and our folder there cannot be used"
        report(Note("unreachable", f"{box.name} {what} ({error.message}); nothing can be salvaged now"))
        return _Left([], reached=False)
    try:
        if seen["state"] == "absent":
            return _Left([], reached=True, missed=True)
        if not seen["terminal"]:
            raise Refusal(
                "run.alive",
                f"{record.run} is {seen['state']}; a live run cannot be given up",
                hint=f"lease stop {record.run}",
            )
        return _Left(salvage(engine, record.run, cell, place / "salvaged", report), reached=True)
    finally:
        engine.wire.close()


def _warning(record: RunRecord, cell: str, promised: str, left: _Left) -> str:
    kept = sum(entry["salvaged"] for entry in left.files)
    salvaged = (
        f"{kept} files were salvaged, unverified" if left.reached else "nothing there can be read, NOTHING was salvaged"
    )
    if left.missed:
        salvaged = "the box answers and has no such run, NOTHING was salvaged"
    lines = [
        f"giving up {cell} of {record.run}: its promised artifacts ({promised}) will not count as home; {salvaged}"
    ]
    if not left.reached or left.missed:
        lines.append("this covers no file: if any is on the box when it is to go, lease down refuses and names it")
    missed = [one_line(str(entry["path"])) for entry in left.files if not entry["salvaged"]]
    if missed:
        more = f" and {len(missed) - _NAMED:,} more" if len(missed) > _NAMED else ""
        lines.append(f"given up WITHOUT a copy at home: {', '.join(missed[:_NAMED])}{more}")
    return "\n  ".join(lines)
