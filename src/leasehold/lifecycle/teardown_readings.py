"""What the teardown gate rests on: every run of the box, read at home and on the box."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from leasehold.errors import LinkError
from leasehold.gates.teardown import RunReadings, TeardownReadings
from leasehold.kit.terminal import one_line
from leasehold.ledger import books
from leasehold.model.lease import Lease, RunRecord
from leasehold.model.plan import plan_from_dict
from leasehold.model.profile import Verb
from leasehold.platforms.engines.caretaker import CaretakerEngine

from .boxes import box_of
from .home import Home
from .left_behind import left_behind
from .sweep.moved import moved_from
from .take_over import holder_words
from .verify import home_damage, sealed_entries
from .waivers import covered_by


def read_all(
    home: Home, lease: Lease, verb: Verb, records: list[RunRecord]
) -> tuple[TeardownReadings, list[dict[str, Any]]]:
    """Read every run of the lease and of the box, at home and on the box; and list what no promise names."""
    left: list[dict[str, Any]] = []
    try:
        engine = box_of(home, lease).connect()
    except LinkError as error:
        runs = tuple(_read_home(home, record) for record in records)
        return TeardownReadings(lease.id, verb.name, False, runs, (), error.message), left
    try:
        on_box = {str(run["run"]) for run in engine.runs()}
        # What this home ran here under an earlier lease goes down with the box too: it is judged, not trusted.
        earlier = [run for run in books.runs(home.ledger) if run.run in on_box and run.lease != lease.id]
        runs = tuple(read_run(engine, home, record, on_box, left) for record in [*records, *earlier])
    except LinkError as error:
        return TeardownReadings(
            lease.id, verb.name, False, tuple(_read_home(home, r) for r in records), (), error.message
        ), left
    finally:
        engine.wire.close()
    strangers = tuple(sorted(one_line(run) for run in on_box - {run.run for run in runs}))
    return TeardownReadings(lease.id, verb.name, True, runs, strangers), left


def _read_home(home: Home, record: RunRecord) -> RunReadings:
    receipt = books.receipt_of(record)
    if receipt is not None and receipt.plan_sha256 != json.loads(record.plan_json)["plan_sha256"]:
        receipt = None  # it proves an earlier promise; the job file was mended since
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
    engine: CaretakerEngine, home: Home, record: RunRecord, on_box: set[str], left: list[dict[str, Any]]
) -> RunReadings:
    """Read one run at home and on the box; files that no promise names are added to left."""
    readings = _read_home(home, record)
    if record.run not in on_box:
        # What was sealed and is absent now counts as changed, unless a person had it removed after its receipt.
        sealed = {} if books.was_removed(home.ledger, record.run) else readings.sealed
        return replace(readings, state="absent", sealed=sealed)
    plan = plan_from_dict(json.loads(record.plan_json))
    home_cells = readings.receipt.cells if readings.receipt else ()
    present, rest = engine.fingerprint(
        record.run, plan.patterns, [cell for cell in record.waived if cell not in home_cells]
    )
    seen = rest["seen"]
    left += left_behind(readings, present, rest)
    return replace(
        readings,
        promised=plan.cells,
        present=present,
        remains=rest["remains"],
        alive=tuple(rest["alive"]),
        state=seen["state"],
        held_by_other_home=seen["holder"].get("home") not in ("", None, home.ledger.home_id),
        held_by=holder_words(seen["holder"]),
    )


def neighbours(home: Home, lease: Lease, verb: Verb) -> tuple[str, ...]:
    """Other open leases on this machine (another --root): a verb that deletes the machine deletes them too."""
    if not verb.deletes or lease.platform == "rehearsal":
        return ()
    held = [other.id for other in books.leases(home.ledger, only_open=True) if other.box == lease.box]
    return tuple(name for name in held if name != lease.id and _has_unproven_run(home, name))


def _has_unproven_run(home: Home, lease_id: str) -> bool:
    started = [record for record in books.runs(home.ledger, lease=lease_id) if record.seq or record.state != "planned"]
    return any(record.owed() for record in started)
