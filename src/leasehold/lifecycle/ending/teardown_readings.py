"""Collect the teardown gate's readings: every run of the box, at home and on the box."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, LinkError
from leasehold.gates.end.box_copy import ReadInFull, everything, suspects
from leasehold.gates.end.teardown import RunReadings, TeardownReadings
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.take_over import holder_words
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.machine.shared_meters import twins_of
from leasehold.lifecycle.results.verify import home_damage, sealed_entries
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.lease.trained_time import checked_work
from leasehold.model.platform.profile import Verb
from leasehold.model.run.note import Report, silent
from leasehold.model.run.plan import plan_from_dict

from .full_read import read_in_full
from .harmless import with_word
from .left_behind import left_behind
from .machine_readings import read_around
from .moved_cells import moved_from
from .rented_end import excuse
from .waivers import covered_by, missed_by

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


_NAMED = 100  # files listed in an event; the rest are counted


@dataclass(frozen=True)
class Look:
    """How closely to read the box; with in_full it reads every file that is home, which may take long."""

    in_full: bool = False
    report: Report = silent


def read_all(
    home: Home, lease: Lease, verb: Verb, records: list[RunRecord], look: Look
) -> tuple[TeardownReadings, list[dict[str, Any]]]:
    """Read every run of the lease and of the box, at home and on the box; also list the files that no promise names."""
    left: list[dict[str, Any]] = []
    box = box_of(home, lease)
    try:
        engine = box.connect()
    except (BoxError, LinkError) as error:  # a disk that is gone with our folder: its contents are unknown
        runs = tuple(_read_home(home, record) for record in records)
        excused = excuse(home, lease)
        return TeardownReadings(
            lease.id, verb.name, False, runs, (), unreachable_because=error.message, unreachable_excused=excused
        ), left
    with engine:
        try:
            there = {str(run["run"]): one_line(str(run.get("problem") or "")) for run in engine.observe.runs()}
            on_box = {run for run, problem in there.items() if not problem}
            # What this home ran here under an earlier lease is torn down with the box too: it is judged, not trusted.
            earlier = [run for run in books.runs(home.ledger) if run.run in on_box and run.lease != lease.id]
            known = [record for record in [*records, *earlier] if not there.get(record.run)]
            runs = tuple(read_run(engine, home, record, on_box, left, look) for record in known)
            around = read_around(
                home, (lease, verb, box), engine, [*records, *earlier],
                lambda there, record, names: read_run(there, home, record, names, left, look),
            )  # fmt: skip
        except LinkError as error:
            home_only = tuple(_read_home(home, record) for record in records)
            return TeardownReadings(lease.id, verb.name, False, home_only, (), unreachable_because=error.message), left
    strangers = tuple(sorted(one_line(run) for run in on_box - {run.run for run in runs}))
    unreadable = tuple(sorted((one_line(run), problem) for run, problem in there.items() if problem))
    return TeardownReadings(
        lease.id, verb.name, True, (*runs, *around.runs), strangers, unreadable,
        around=around.findings, doubts=around.doubts,
    ), left  # fmt: skip


def _read_home(home: Home, record: RunRecord) -> RunReadings:
    receipt = books.receipt_of(record)
    if receipt is not None and receipt.plan_sha256 != json.loads(record.plan_json)["plan_sha256"]:
        receipt = None  # it proves an earlier promise; the job file was changed since
    export = Path(record.home_since) if record.home_since else None
    never_started = record.state == "planned" and record.seq == 0
    return RunReadings(
        run=record.run,
        promised=() if never_started else plan_from_dict(json.loads(record.plan_json)).cells,
        receipt=receipt,
        waived=record.waived,
        sealed=sealed_entries(export) if export else {},
        home_damage=home_damage(export, receipt) if export and receipt else (),
        state=record.state,
        moved=moved_from(home, record),
        given_up=covered_by(home, record),
    )


def read_run(
    engine: Engine,
    home: Home,
    record: RunRecord,
    on_box: set[str],
    left: list[dict[str, Any]],
    look: Look,
) -> RunReadings:
    """Read one run at home and on the box; files that no promise names are added to left.

    Files are read in full before their stats are taken: a write meanwhile shows up in one or the other.
    """
    readings = replace(_read_home(home, record), in_full=look.in_full)
    if record.run not in on_box:
        # A sealed file that is absent now counts as changed, unless a person had it removed after its receipt.
        if books.was_removed(home.ledger, record.run):
            return replace(readings, state="absent", sealed={}, missed=readings.waived)
        return replace(readings, state="absent", missed=missed_by(home, record))
    plan = plan_from_dict(json.loads(record.plan_json))
    home_cells = readings.receipt.cells if readings.receipt else ()
    wanted = everything(readings.sealed, home_cells) if look.in_full else {}
    read = read_in_full(engine, record.run, wanted, look.report)
    present, rest = engine.proof.fingerprint(
        record.run, plan.patterns, [cell for cell in record.waived if cell not in home_cells]
    )
    if not look.in_full:
        read = read_in_full(engine, record.run, suspects(readings.sealed, present, home_cells), look.report)
    _note_differing(home, record, readings, read)
    seen = rest["seen"]
    _note_work(home, record, seen)
    left += left_behind(readings, present, rest)
    return replace(
        readings,
        promised=plan.cells,
        present=present,
        remains=rest["remains"],
        bare=_bare(plan.cells, present, rest),
        beside={cell: first for cell, first in (rest.get("beside") or {}).items() if first},
        alive=tuple(rest["alive"]),
        occupants=with_word(home, record.run, rest.get("occupants") or ()),
        unseen=tuple(map(str, rest.get("unread") or ())),
        state=seen["state"],
        held_by_other_home=seen["holder"].get("home") not in ("", None, home.ledger.home_id),
        held_by=holder_words(seen["holder"]),
        read=read,
        unread=_unread(record.run, seen),
    )


def _bare(cells: tuple[str, ...], present: dict[str, list[dict[str, Any]]], rest: dict[str, Any]) -> tuple[str, ...]:
    """List the cells that wrote no file below the run's folder; none where files were only counted, or work was saved.

    A cell's files in its working folder count as well: a script may not know of $LEASE_OUT.
    """
    if (rest.get("other_more") or {}).get("files", 1):
        return ()
    listed = {str(entry["cell"]) for entry in rest["other"]}
    told = rest["seen"].get("cells") or {}
    beside = rest.get("beside") or {}  # the first such file, "" for none, None for unknown
    return tuple(
        cell
        for cell in cells
        if not present.get(cell)
        and cell not in listed
        and not (told.get(cell) or {}).get("saved")
        and beside.get(cell) == ""
    )


def _unread(run: str, seen: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """List what of a run could not be read on the box, each with the way on: none of it counts as nothing."""
    found = []
    holder, take_over = seen["holder"], f"lease attach {run} --take-over"
    if holder.get("unreadable"):
        found.append((f"who holds it is unknown: {one_line(str(holder['unreadable']))}", take_over))
    elif not holder.get("home"):
        found.append(("who holds it is unknown: its holder.json is gone", take_over))
    if seen.get("unproven"):
        found.append((f"its state is unknown: {one_line(str(seen.get('journal')))}", f"lease stop {run}"))
    return tuple(found)


def _note_work(home: Home, record: RunRecord, seen: dict[str, Any]) -> None:
    """Record the box's last report of trained time: what a waiver gives up is told from it."""
    work = checked_work(seen.get("work"))
    if not work or not record.owed():
        return
    known = json.loads(record.work_json) if record.work_json else {}
    until = seen.get("changed_unix" if seen.get("terminal") else "now_unix")
    more = {"progress": known["progress"]} if "progress" in known else {}
    if isinstance(until, int | float) and math.isfinite(until):
        more["until_unix"] = until  # by the box's clock, as the times of its states are
    home.ledger.append("run_work", lease=record.lease, run=record.run, work={**work, **more})


def _note_differing(home: Home, record: RunRecord, readings: RunReadings, read: ReadInFull) -> None:
    """Record that the box now has other bytes than the receipt: the next pull must not consider it done."""
    sealed = {(cell, one["path"]): one["sha256"] for cell, entries in readings.sealed.items() for one in entries}
    differing = [key for key, one in read.entries.items() if one.get("sha256", sealed[key]) != sealed[key]]
    if differing:
        names = [f"{cell}/{path}" for cell, path in differing]
        home.ledger.append("box_differs", lease=record.lease, run=record.run, files=names[:_NAMED], count=len(names))


def neighbours(home: Home, lease: Lease, verb: Verb) -> tuple[str, ...]:
    """List other open leases on this machine (another --root): a verb that deletes the machine deletes them too."""
    if not verb.deletes or lease.platform == "rehearsal":
        return ()
    twins = twins_of(home, lease)
    held = [
        other.id for other in books.leases(home.ledger, only_open=True) if other.box == lease.box or other.id in twins
    ]
    return tuple(name for name in held if name != lease.id and _has_unproven_run(home, name))


def _has_unproven_run(home: Home, lease_id: str) -> bool:
    started = [record for record in books.runs(home.ledger, lease=lease_id) if record.seq or record.state != "planned"]
    return any(record.owed() for record in started)
