"""Waive a cell's results: a person types that they are given up, after what exists was salvaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from leasehold.errors import BoxError, LinkError, Refusal, UserError
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import count
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask
from leasehold.lifecycle.home.home import Home, person
from leasehold.lifecycle.machine.box import closed_on_failure
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.results.result_folders import Folders, private
from leasehold.lifecycle.results.salvage import salvage
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan, plan_from_dict

from . import waivers

_NAMED = 8  # files listed in the question; the rest are counted


class _Left(NamedTuple):
    """The files of a cell that were found on the box."""

    files: list[dict[str, Any]]
    reached: bool  # the box answered, with our folder on it
    missed: bool = False  # and this run was not in it
    beside: str | None = None  # a file that the cell wrote into its working folder; "" none, None unknown


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
    place = _place(record, cell)
    left = _salvage(home, record, cell, place, report)
    promised = _promised(plan)
    report(Note("waiver_asked", _warning(record, cell, promised, left)))
    phrase = f"give up {cell} of {record.run}"
    _ask(ask, phrase, "give it up", f"{cell} is not given up", f"what was salvaged stays in {place}")
    _record(home, record, cell, promised, left, place)
    return place


def waive_failed(home: Home, word: str, ask: Ask, report: Report) -> list[tuple[str, str, Path]]:
    """Salvage every failed cell of a box or lease, then have a person type once that all of them are given up.

    Finished cells that are not home are not included; a cell that left no file needs no waiver.
    """
    leases = [one for one in books.leases(home.ledger, only_open=True) if word in (one.id, one.box)]
    if not leases:
        raise UserError(
            "lease.unknown", f"no open lease is called {word!r} or is on a box of that name", hint="lease down"
        )
    records = [one for lease in leases for one in books.runs(home.ledger, lease=lease.id) if one.owed()]
    asked = []
    for record, cell in _failed_cells(home, leases, records):
        place = _place(record, cell)
        left = _salvage(home, record, cell, place, report)
        if left.reached and not left.missed and not left.files and left.beside == "":
            (place / "salvaged").rmdir()
            place.rmdir()
            report(
                Note("next", f"{record.run}/{cell} failed and left no file: it needs no waiver", {"run": record.run})
            )
            continue
        promised = _promised(plan_from_dict(json.loads(record.plan_json)))
        report(Note("waiver_asked", _warning(record, cell, promised, left)))
        asked.append((record, cell, promised, left, place))
    if not asked:
        report(Note("next", f"nothing that failed on {word} has to be given up"))
        return []
    phrase = f"give up {len(asked)} failed on {word}"
    kept = f"what was salvaged stays in {asked[0][-1].parent}"
    _ask(ask, phrase, "give up every one that is listed above", "nothing is given up", kept)
    for one in asked:
        _record(home, *one)
    return [(record.run, cell, place) for record, cell, _, _, place in asked]


def _failed_cells(home: Home, leases: list[Lease], records: list[RunRecord]) -> list[tuple[RunRecord, str]]:
    """List the failed cells as the box reports them now; an unreachable box is asked about one run at a time."""
    found = []
    for lease in leases:
        with box_of(home, lease).connect() as engine:
            for record in (one for one in records if one.lease == lease.id):
                seen = engine.observe.look(record.run)
                cells = seen["cells"] if seen["state"] == "failed" else {}
                owed = record.owed()
                found += [(record, name) for name, cell in cells.items() if cell["state"] == "failed" and name in owed]
    return found


def _place(record: RunRecord, cell: str) -> Path:
    place = Folders(Path(record.results), record.run).quarantine(f"waived-{cell}")
    private(place.parent)
    place.mkdir(parents=True)
    return place


def _promised(plan: Plan) -> str:
    return ", ".join(artifact.pattern for artifact in plan.job.artifacts)


def _ask(ask: Ask, phrase: str, what: str, refused: str, hint: str) -> None:
    answer = ask(f"to {what}, type exactly:  {phrase}\n> ").strip()
    if answer != phrase:
        raise Refusal("waiver.not_given", f"{answer!r} is not the phrase; {refused}", hint=hint)


def _record(home: Home, record: RunRecord, cell: str, promised: str, left: _Left, place: Path) -> None:
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
        with closed_on_failure(engine):
            seen = engine.observe.look(record.run)
    except (BoxError, LinkError) as error:  # a box that lost the disk with our folder answers, and has nothing to read
        what = "cannot be reached" if isinstance(error, LinkError) else "answers, and our folder there cannot be used"
        report(Note("unreachable", f"{box.name} {what} ({error.message}); nothing can be salvaged now"))
        return _Left([], reached=False)
    with engine:
        if seen["state"] == "absent":
            return _Left([], reached=True, missed=True)
        if not seen["terminal"]:
            raise Refusal(
                "run.alive",
                f"{record.run} is {seen['state']}; a live run cannot be given up",
                hint=f"lease stop {record.run}",
            )
        files = salvage(engine, record.run, cell, place / "salvaged", report)
        _, rest = engine.proof.fingerprint(record.run, plan_from_dict(json.loads(record.plan_json)).patterns)
        return _Left(files, reached=True, beside=(rest.get("beside") or {}).get(cell))


def _warning(record: RunRecord, cell: str, promised: str, left: _Left) -> str:
    kept = sum(entry["salvaged"] for entry in left.files)
    salvaged = (
        f"{count(kept, 'file')} {'was' if kept == 1 else 'were'} salvaged, unverified"
        if left.reached
        else "nothing there can be read, NOTHING was salvaged"
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
    if left.beside:
        lines.append(
            f"NOT salvaged: what it wrote into its working folder ({one_line(left.beside)} and maybe more); "
            f"look first: lease ssh {record.run}"
        )
    return "\n  ".join(lines)
