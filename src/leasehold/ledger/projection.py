"""Tables for fast reading, each row a fold of events; dropped and rebuilt at any time."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from leasehold.model.lease.box import BoxEntry, box_from_dict
from leasehold.model.lease.lease import PARKED, RUNNING, UNKNOWN, Change, Lease, RunLine, RunRecord

if TYPE_CHECKING:
    from leasehold.model.lease.rental import Rental

_TABLES = """
CREATE TABLE IF NOT EXISTS leases (
  id TEXT PRIMARY KEY, box TEXT, platform TEXT, root TEXT, opened REAL, price TEXT, closed REAL DEFAULT 0,
  changes TEXT DEFAULT '[]');
CREATE TABLE IF NOT EXISTS runs (
  run TEXT PRIMARY KEY, lease TEXT, box TEXT, name TEXT, state TEXT, reason TEXT, project TEXT, results TEXT,
  created REAL, seen REAL, seq INTEGER, plan TEXT, receipt TEXT, home_since TEXT, waived TEXT, work TEXT DEFAULT '');
CREATE INDEX IF NOT EXISTS runs_by_lease ON runs (lease, created);
CREATE TABLE IF NOT EXISTS stays (run TEXT, lease TEXT, began REAL, ended REAL DEFAULT 0);
CREATE INDEX IF NOT EXISTS stays_by_lease ON stays (lease);
CREATE INDEX IF NOT EXISTS stays_by_run ON stays (run);
CREATE TABLE IF NOT EXISTS boxes (name TEXT PRIMARY KEY, added REAL, entry TEXT);
CREATE TABLE IF NOT EXISTS rentals (
  label TEXT PRIMARY KEY, market TEXT, platform TEXT, state TEXT, asked REAL, run TEXT, price TEXT, spot INTEGER,
  holding TEXT DEFAULT '', box TEXT DEFAULT '', lease TEXT DEFAULT '', ended REAL DEFAULT 0, approval TEXT DEFAULT '');
"""
_INDEXES = """
CREATE INDEX IF NOT EXISTS runs_by_state ON runs (lease, state);
CREATE INDEX IF NOT EXISTS events_by_kind ON events (lease, kind, seq);
"""
_RUN_COLUMNS = (
    "run, lease, box, name, state, reason, project, results, created, seen, seq, plan, receipt, home_since, waived"
)

LINE = "run, lease, box, name, state, reason, results, created, seen, home_since, waived, receipt <> '', "
LINE += "substr(receipt, 1, 12) = '{\"nonfinite\"', work"
_ALIVE, _OVER = ("running", "stopping"), ("finished", "failed", "stopped", "absent")
_RUN_FIELDS = tuple(field.name for field in fields(RunRecord))


def create(db: sqlite3.Connection) -> None:
    """Create the missing tables."""
    for statement in _TABLES.split(";"):
        db.execute(statement)
    with contextlib.suppress(sqlite3.OperationalError):  # a disk that is full or read-only: they only save time
        for statement in _INDEXES.split(";"):
            db.execute(statement)


def drop(db: sqlite3.Connection) -> None:
    """Remove the tables."""
    db.execute("DROP TABLE IF EXISTS leases")
    db.execute("DROP TABLE IF EXISTS runs")
    db.execute("DROP TABLE IF EXISTS boxes")
    db.execute("DROP TABLE IF EXISTS stays")
    db.execute("DROP TABLE IF EXISTS rentals")


def apply(db: sqlite3.Connection, t: float, kind: str, lease: str, run: str, data: dict[str, Any]) -> None:
    """Fold one event in; kinds without a row of their own change nothing."""
    step = _STEPS.get(kind)
    if step is not None:
        step(db, t, lease, run, data)


def lease_from_row(row: tuple[Any, ...]) -> Lease:
    """Read a row of `SELECT * FROM leases`."""
    changes = tuple(Change(*change) for change in json.loads(row[7] or "[]"))
    return Lease(row[0], row[1], row[2], row[3], row[4], row[5], row[6], changes)


def run_from_row(row: tuple[Any, ...]) -> RunRecord:
    """Read a row of `SELECT * FROM runs`."""
    values = dict(zip(_RUN_FIELDS, row, strict=True))
    values["work_json"] = values["work_json"] or ""
    values["waived"] = _cells(values["waived"])
    return RunRecord(**values)


def line_from_row(row: tuple[Any, ...]) -> RunLine:
    """Read a row of `SELECT {LINE} FROM runs`."""
    return RunLine._make((*row[:10], _cells(row[10]), bool(row[11]), bool(row[12]), row[13] or ""))


def _cells(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text and text != "[]" else ()


def box_from_row(row: tuple[Any, ...]) -> BoxEntry:
    """Read a row of `SELECT * FROM boxes`."""
    return box_from_dict(json.loads(row[2]))


def rental_from_row(row: tuple[Any, ...]) -> Rental:
    """Read a row of `SELECT * FROM rentals`."""
    from leasehold.model.lease.rental import Rental, RentalState  # most commands meet no rental

    label, market, platform, state, asked, run, price, spot, *rest = row
    return Rental(label, market, platform, RentalState(state), asked, run, price, bool(spot), *rest)


def _lease_opened(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    """Open a lease; one of a rented box began when the landlord made the box."""
    price = data.get("price", "")
    t = min(t, float(data.get("since_unix") or t))
    changes = json.dumps([[t, "price", price]] if price else [])
    row = (lease, data["box"], data["platform"], data["root"], t, price, changes)
    db.execute(
        "INSERT OR IGNORE INTO leases (id, box, platform, root, opened, price, changes) VALUES (?,?,?,?,?,?,?)", row
    )


def _lease_priced(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("UPDATE leases SET price = ? WHERE id = ?", (data["price"], lease))
    _changed(db, t, lease, "price", data["price"])


def _lease_parked(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    _changed(db, float(data.get("since_unix") or t), lease, "state", PARKED)


def _verb_unknown(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    if data.get("state") == UNKNOWN:  # else the box still answers: nothing changed
        _changed(db, t, lease, "state", UNKNOWN)


def _lease_resumed(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    _changed(db, t, lease, "state", RUNNING)


def _lease_rated(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    """Record what the landlord says that the whole lease bills an hour, in its present state."""
    _changed(db, float(data.get("since_unix") or t), lease, "rate", data["rate"])


def _lease_disk(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    _changed(db, t, lease, "disk", {str(tier): str(size) for tier, size in data["gb"].items()})


def _lease_balance(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    _changed(db, t, lease, "balance", {"amount": data["amount"], "told_unix": data.get("told_unix", t)})


def _lease_spot(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    _changed(db, t, lease, "spot", bool(data["spot"]))


def _changed(db: sqlite3.Connection, t: float, lease: str, what: str, value: Any) -> None:
    """Record a change of an open lease; an unchanged value is no change, so that a state keeps its start time."""
    row = db.execute("SELECT changes FROM leases WHERE id = ? AND closed = 0", (lease,)).fetchone()
    if row is None:
        return
    changes = json.loads(row[0] or "[]")
    default = RUNNING if what == "state" else None
    if next((change[2] for change in reversed(changes) if change[1] == what), default) != value:
        told = sorted([*changes, [t, what, value]], key=lambda change: float(change[0]))  # a person may backdate it
        text = json.dumps(told, sort_keys=True, ensure_ascii=False)
        db.execute("UPDATE leases SET changes = ? WHERE id = ?", (text, lease))


def _lease_rebooked(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    row = (data["platform"], data["root"], lease)
    db.execute("UPDATE leases SET platform = ?, root = ? WHERE id = ? AND closed = 0", row)


def _lease_counted_by(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    _changed(db, float(data.get("since_unix") or t), lease, "counted", data["by"])


def _lease_closed(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    for (twin,) in db.execute("SELECT id FROM leases WHERE closed = 0 AND changes LIKE '%\"counted\"%'").fetchall():
        row = db.execute("SELECT changes FROM leases WHERE id = ?", (twin,)).fetchone()
        told = [change[2] for change in json.loads(row[0]) if change[1] == "counted"]
        if told[-1] == lease:  # the lease that counted it no longer does: it counts by itself
            _changed(db, t, twin, "counted", "")
    db.execute("UPDATE leases SET closed = ? WHERE id = ? AND closed = 0", (t, lease))


def _lease_reopened(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    """Reopen a lease whose box answered; unless proven never to have stopped, it was off from its closing until now."""
    db.execute("UPDATE leases SET closed = 0 WHERE id = ?", (lease,))
    if data.get("off_since_unix"):
        _changed(db, float(data["off_since_unix"]), lease, "state", PARKED)
    _changed(db, t, lease, "state", RUNNING)


def _run_planned(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    plan = json.dumps(data["plan"], sort_keys=True, ensure_ascii=False)
    row = (
        run,
        lease,
        data["box"],
        data["name"],
        "planned",
        "",
        data["project"],
        data["results"],
        t,
        0,
        0,
        plan,
        "",
        "",
        "[]",
    )
    db.execute(f"INSERT OR IGNORE INTO runs ({_RUN_COLUMNS}) VALUES ({','.join('?' * 15)})", row)
    db.execute(
        "UPDATE runs SET lease = ?, box = ?, results = ?, project = ?, plan = ? WHERE run = ?",
        (lease, data["box"], data["results"], data["project"], plan, run),
    )


def _run_withdrawn(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    """Record that a launch was refused before anything began."""
    db.execute("DELETE FROM runs WHERE run = ? AND state = 'planned' AND seq = 0", (run,))


def _run_seen(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute(
        "UPDATE runs SET state = ?, reason = ?, seen = ?, seq = ? WHERE run = ?",
        (data["state"], data.get("reason", ""), min(t, data.get("proven_unix", t)), data.get("seq", 0), run),
    )
    _forget_waivers(db, run, data)
    _run_stays(db, t, lease, run, data)
    if data.get("work"):
        _run_work(db, t, lease, run, data)


def _run_work(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    work = {**_last_progress(db, run), **data["work"], "heard_unix": t}
    proven = min(t, data.get("proven_unix", 0.0))  # 0: nothing but the work itself was reported
    changed = (json.dumps(work, sort_keys=True), proven, run)
    db.execute("UPDATE runs SET work = ?, seen = MAX(COALESCE(seen, 0), ?) WHERE run = ?", changed)


def _last_progress(db: sqlite3.Connection, run: str) -> dict[str, Any]:
    """Return the progress at the last report, without the remaining time, which no longer holds."""
    row = db.execute("SELECT work FROM runs WHERE run = ?", (run,)).fetchone()
    progress = json.loads(row[0]).get("progress") if row and row[0] else None
    return {"progress": {name: one for name, one in progress.items() if name != "eta_s"}} if progress else {}


def _run_stays(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    """Record when a run starts or stops using a lease: its time is shared among the runs of the lease."""
    alive, over = data["state"] in _ALIVE, data["state"] in _OVER
    row = db.execute("SELECT created FROM runs WHERE run = ?", (run,)).fetchone() if alive or over else None
    if row is None:
        return
    stays = db.execute("SELECT rowid, lease, began, ended FROM stays WHERE run = ? ORDER BY began", (run,)).fetchall()
    began = stays[-1][2] if stays else row[0]
    live = bool(stays) and not stays[-1][3]
    moved = live and stays[-1][1] != lease
    said = float(data.get("changed_unix") or 0.0)
    end = said if began < said < t else t  # as the box reports, unless that is impossible
    if live and (over or moved):
        db.execute("UPDATE stays SET ended = ? WHERE rowid = ?", (end, stays[-1][0]))
    if (alive and (moved or not live)) or (over and not stays and data["state"] != "absent"):
        db.execute("INSERT INTO stays VALUES (?,?,?,?)", (run, lease, t if stays else began, end if over else 0))


def _forget_waivers(db: sqlite3.Connection, run: str, data: dict[str, Any]) -> None:
    """Drop the waivers of a cell that trains again: they do not cover its new results."""
    if data.get("did") not in ("opened", "resumed"):
        return
    if "trains_again" not in data:  # an older event: every unfinished cell trained again
        db.execute("UPDATE runs SET waived = '[]' WHERE run = ?", (run,))
    for cell in data.get("trains_again", ()):
        _waiver_over(db, 0.0, "", run, {"cell": cell})


def _receipt_written(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    receipt = {**data["receipt"], **({"home_s": data["home_s"]} if data.get("home_s") else {})}
    # `nonfinite` comes first: a list of runs finds it without reading whole receipts, which are long.
    order = sorted(receipt, key=lambda name: (name != "nonfinite", name))
    text = json.dumps({name: receipt[name] for name in order}, ensure_ascii=False)
    db.execute("UPDATE runs SET receipt = ?, home_since = ? WHERE run = ?", (text, data["export"], run))


def _receipt_void(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("UPDATE runs SET receipt = '', home_since = '' WHERE run = ?", (run,))


def _waived(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    _set_waived(db, run, _waived_cells(db, run) | {data["cell"]})


def _waiver_over(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    _set_waived(db, run, _waived_cells(db, run) - {data["cell"]})


def _waived_cells(db: sqlite3.Connection, run: str) -> set[str]:
    row = db.execute("SELECT waived FROM runs WHERE run = ?", (run,)).fetchone()
    return set(json.loads(row[0] or "[]")) if row else set()


def _set_waived(db: sqlite3.Connection, run: str, cells: set[str]) -> None:
    db.execute("UPDATE runs SET waived = ? WHERE run = ?", (json.dumps(sorted(cells)), run))


def _run_forgotten(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("DELETE FROM runs WHERE run = ?", (run,))


def _box_written(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    entry = json.dumps(data, sort_keys=True, ensure_ascii=False)
    db.execute("INSERT OR REPLACE INTO boxes VALUES (?,?,?)", (data["name"], data["added_unix"], entry))


def _box_removed(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("DELETE FROM boxes WHERE name = ?", (data["name"],))


def _rent_intended(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    said = (data["label"], data["market"], data["platform"])
    row = (*said, "intended", t, run, data["price"], int(data["spot"]), data["approval"])
    columns = "label, market, platform, state, asked, run, price, spot, approval"
    db.execute(f"INSERT OR IGNORE INTO rentals ({columns}) VALUES (?,?,?,?,?,?,?,?,?)", row)


def _rent_made(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    row = ("held", data["holding"], data["box"], lease, data["label"])
    db.execute("UPDATE rentals SET state = ?, holding = ?, box = ?, lease = ? WHERE label = ?", row)


def _rent_absent(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("UPDATE rentals SET state = ? WHERE label = ?", ("absent", data["label"]))


def _rent_ended(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("UPDATE rentals SET state = ?, ended = ? WHERE label = ?", ("ended", t, data["label"]))


_STEPS: dict[str, Callable[[sqlite3.Connection, float, str, str, dict[str, Any]], None]] = {
    "lease_opened": _lease_opened,
    "lease_priced": _lease_priced,
    "lease_parked": _lease_parked,
    "verb_unknown": _verb_unknown,
    "lease_resumed": _lease_resumed,
    "lease_rated": _lease_rated,
    "lease_disk": _lease_disk,
    "rent_intended": _rent_intended,
    "rent_made": _rent_made,
    "rent_absent": _rent_absent,
    "rent_ended": _rent_ended,
    "lease_balance": _lease_balance,
    "lease_spot": _lease_spot,
    "lease_rebooked": _lease_rebooked,
    "lease_counted_by": _lease_counted_by,
    "lease_closed": _lease_closed,
    "lease_reopened": _lease_reopened,
    "run_planned": _run_planned,
    "run_withdrawn": _run_withdrawn,
    "run_seen": _run_seen,
    "run_work": _run_work,
    "receipt_written": _receipt_written,
    "receipt_void": _receipt_void,
    "waived": _waived,
    "waiver_taken_back": _waiver_over,
    "run_forgotten": _run_forgotten,
    "box_added": _box_written,
    "box_changed": _box_written,
    "box_removed": _box_removed,
}
