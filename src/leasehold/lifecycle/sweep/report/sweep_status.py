"""The state of a sweep: its runs on every box, asked in parallel, and the roster that they answer for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leasehold.errors import LeaseholdError, UserError
from leasehold.kit.files.manifest import ManifestError
from leasehold.ledger import books
from leasehold.lifecycle.box.fan_out import Call, fan_out
from leasehold.lifecycle.box.health import STALE_BEAT_S
from leasehold.lifecycle.box.refresh import by_run
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.records.sweep_parts import parts_of, sweep_of
from leasehold.lifecycle.results.result_folders import Folders
from leasehold.lifecycle.results.verify import names_at, sealed_entries
from leasehold.model.job.cells import Cell
from leasehold.model.lease.box import LOCAL
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.plan import Plan, plan_from_dict
from leasehold.model.run.sweep import CellRow, Part, Standing

from .metrics import metrics_of
from .printed_metrics import newest_log, numbers_of
from .reconcile import reconcile

_NUMBERS = (".json", ".jsonl", ".csv")


def standing(home: Home, word: str, *, ask: bool = True) -> Standing:
    """Account for every cell; with ask, query each box now, where a silent one does not delay the others."""
    records = parts_of(home, word)
    plans = {record.run: plan_from_dict(json.loads(record.plan_json)) for record in records}
    roster = _roster(plans[record.run] for record in reversed(records))
    if not roster:
        raise UserError(
            "sweep.no_cells", f"{records[0].run} is not a sweep: its job has no cells", hint="lease show has more"
        )
    parts = [replace(_known(record, plans[record.run]), resume=_resume(records)) for record in records]
    if ask:
        parts = _ask_boxes(home, {record.run: record for record in records}, parts)
    else:
        parts = [replace(part, problem="not asked") for part in parts]
    expect_s = max((plan.job.expect_s for plan in plans.values()), default=0.0)
    accounts = reconcile([cell.name for cell in roster], parts, expect_s)
    return Standing(sweep_of(records[0].run), roster, tuple(parts), tuple(accounts))


def rows(home: Home, found: Standing) -> list[CellRow]:
    """Read what every cell at home measured; for a cell whose files hold no number, what it printed."""
    at, logs = numbers_at(home, found), logs_at(home, found)
    listed = []
    for cell, account in zip(found.roster, found.accounts, strict=True):
        metrics = metrics_of(*at[cell.name]) if cell.name in at else {}
        printed = numbers_of(*logs[cell.name]) if not metrics and cell.name in at else {}
        listed.append(CellRow(cell.name, cell.params, metrics or printed, account.word.value, bool(printed)))
    return listed


def logs_at(home: Home, found: Standing) -> dict[str, tuple[Path | None, str]]:
    """Return where each cell's log lies at home, and how its job's progress is read."""
    records = {record.run: record for record in parts_of(home, found.sweep)}
    places: dict[str, tuple[Path | None, str]] = {}
    for account in found.accounts:
        record = records.get(account.run)
        if record is not None:
            export = Folders(Path(record.results), record.run).export
            pattern = str(json.loads(record.plan_json)["job"].get("progress", "auto"))
            places[account.cell] = newest_log(export, account.cell), pattern
    return places


def numbers_at(home: Home, found: Standing) -> dict[str, tuple[Path, list[str]]]:
    """Return where each cell's numbers lie at home: its folder, and the files that may contain some."""
    at = {record.run: Folders(Path(record.results), record.run).export for record in parts_of(home, found.sweep)}
    files = {(part.run, cell): entries for part in found.parts for cell, entries in part.files.items()}
    places = {}
    for account in found.accounts:
        paths = [str(entry["path"]) for entry in files.get((account.run, account.cell), ())]
        called = names_at(at[account.run]) if account.run in at else {}
        keys = [f"{account.cell}/{path}" for path in paths]
        names = [called.get(key, key).partition("/")[2] for key in keys]
        folder = at[account.run] / "cells" / account.cell if account.run in at else None
        if folder is not None and folder.is_dir():
            places[account.cell] = (folder, [name for name in names if name.endswith(_NUMBERS)])
    return places


def _roster(plans: Iterable[Plan]) -> tuple[Cell, ...]:
    found: dict[str, Cell] = {}
    for plan in plans:
        for cell in plan.job.cells:
            found.setdefault(cell.name, cell)
    return tuple(found.values())


def _resume(records: list[RunRecord]) -> str:
    """Format the command that continues a sweep, as typed in its project's folder."""
    boxes = ",".join(sorted({record.box for record in records}))
    return "lease run" if boxes == LOCAL else f"lease run --on {boxes}"


def _known(record: RunRecord, plan: Plan) -> Part:
    """Return what this home knows of a run without its box."""
    receipt = books.receipt_of(record)
    kept = Folders(Path(record.results), record.run).export
    try:
        sealed: dict[str, Any] = sealed_entries(kept) if receipt else {}
    except ManifestError:
        sealed = {}
    home_cells = frozenset(receipt.cells if receipt else ()) & frozenset(sealed)
    return Part(record.run, record.box, plan.cells, {}, sealed, home_cells, frozenset(record.waived))


def _ask_boxes(home: Home, records: dict[str, RunRecord], parts: list[Part]) -> list[Part]:
    """Ask the boxes of unsettled runs in parallel, over connections that brief queries share."""
    promised = {cell for part in parts for cell in part.cells}
    found = {part.run: part for part in parts}
    calls = []
    for part in parts:
        if part.home | part.waived >= set(part.cells):
            continue
        record = records[part.run]
        try:
            box = box_of(home, books.find_lease(home.ledger, record.lease))
        except LeaseholdError as error:  # it was removed from the book
            found[part.run] = replace(part, problem=error.message)
            continue
        asked = _Asked(box, replace(part, refused=_refused(home, record)), promised)
        calls.append(Call(part.run, box.gateway, asked.part))
    for turn in fan_out(calls):
        found.update(turn.heard)
    return [found[part.run] for part in parts]


def _refused(home: Home, record: RunRecord) -> dict[str, str]:
    """Return the cells that came home and were refused, by the newest record of each."""
    events = home.ledger.events(run=record.run, kind="quarantined")
    return {str(cell): str(event.data["reason"]) for event in events for cell in event.data.get("cells", ())}


@dataclass(frozen=True)
class _Asked:
    """One run and the box to ask about it."""

    box: Box
    known: Part
    promised: set[str]  # of all the sweep's runs: a cell that none of them promises is reported by the box that has it

    def part(self) -> Part:
        """Combine the box's answer with what is known, or with the reason why there is none."""
        try:
            told = self._told()
            return self._with_word(*self._look()) if told is None else self._with_word({}, told)
        except LeaseholdError as error:
            return replace(self.known, problem=error.message)

    def _told(self) -> dict[str, Any] | None:
        """Return the run's status as its caretaker keeps it; None where files or a cluster must be read too."""
        status = by_run(self.box.told()).get(self.known.run, {})
        age_s, cells, beat_unix = (status.get(key) for key in ("age_s", "cells", "heartbeat_unix"))
        fresh = status.get("state") == "running" and isinstance(age_s, int) and age_s <= STALE_BEAT_S
        if not fresh or status.get("engine") == "slurm" or not isinstance(cells, dict):
            return None
        open_cells = {name: cell for name, cell in cells.items() if name not in self.known.home}
        if not all(isinstance(cell, dict) and cell.get("state") != "finished" for cell in open_cells.values()):
            return None
        now_unix = beat_unix + age_s if isinstance(beat_unix, int | float) and isinstance(age_s, int) else None
        return {"cells": cells, "now_unix": now_unix}

    def _look(self) -> tuple[dict[str, Any], dict[str, Any]]:
        with self.box.look_in() as engine:
            present, rest = engine.proof.fingerprint(self.known.run)
            return present, rest.get("seen") or {}

    def _with_word(self, present: dict[str, Any], seen: dict[str, Any]) -> Part:
        cells: dict[str, Any] = seen["cells"] if isinstance(seen.get("cells"), dict) else {}
        now_unix = seen.get("now_unix")
        mine = dict.fromkeys((*self.known.cells, *(name for name in cells if name not in self.promised)))
        asked = replace(self.known, seen=cells, files={**present, **self.known.files}, cells=tuple(mine))
        return replace(asked, now_unix=float(now_unix) if isinstance(now_unix, int | float) else 0.0)
