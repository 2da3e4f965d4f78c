"""Tables for quick reading, each row a fold of events; dropped and rebuilt at will."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from leasehold.model.box import BoxEntry, box_from_dict
from leasehold.model.lease import Lease, RunRecord

_TABLES = """
CREATE TABLE IF NOT EXISTS leases (
  id TEXT PRIMARY KEY, box TEXT, platform TEXT, root TEXT, opened REAL, price TEXT, closed REAL DEFAULT 0);
CREATE TABLE IF NOT EXISTS runs (
  run TEXT PRIMARY KEY, lease TEXT, box TEXT, name TEXT, state TEXT, reason TEXT, project TEXT, results TEXT,
  created REAL, seen REAL, seq INTEGER, plan TEXT, receipt TEXT, home_since TEXT, waived TEXT);
CREATE TABLE IF NOT EXISTS boxes (name TEXT PRIMARY KEY, added REAL, entry TEXT);
"""
_RUN_COLUMNS = (
    "run, lease, box, name, state, reason, project, results, created, seen, seq, plan, receipt, home_since, waived"
)

_RUN_FIELDS = tuple(field.name for field in fields(RunRecord))


def create(db: sqlite3.Connection) -> None:
    """Make the tables that are not there yet; an older ledger gets the newer ones at its next opening."""
    for statement in _TABLES.split(";"):
        db.execute(statement)


def drop(db: sqlite3.Connection) -> None:
    """Remove the tables."""
    db.execute("DROP TABLE IF EXISTS leases")
    db.execute("DROP TABLE IF EXISTS runs")
    db.execute("DROP TABLE IF EXISTS boxes")


def apply(db: sqlite3.Connection, t: float, kind: str, lease: str, run: str, data: dict[str, Any]) -> None:
    """Fold one event in; kinds without a row of their own change nothing."""
    step = _STEPS.get(kind)
    if step is not None:
        step(db, t, lease, run, data)


def lease_from_row(row: tuple[Any, ...]) -> Lease:
    """Read a row of `SELECT * FROM leases`."""
    return Lease(row[0], row[1], row[2], row[3], row[4], row[5], row[6])


def run_from_row(row: tuple[Any, ...]) -> RunRecord:
    """Read a row of `SELECT * FROM runs`."""
    values = dict(zip(_RUN_FIELDS, row, strict=True))
    values["waived"] = tuple(json.loads(values["waived"] or "[]"))
    return RunRecord(**values)


def box_from_row(row: tuple[Any, ...]) -> BoxEntry:
    """Read a row of `SELECT * FROM boxes`."""
    return box_from_dict(json.loads(row[2]))


def _lease_opened(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    row = (lease, data["box"], data["platform"], data["root"], t, data.get("price", ""))
    db.execute("INSERT OR IGNORE INTO leases (id, box, platform, root, opened, price) VALUES (?,?,?,?,?,?)", row)


def _lease_priced(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("UPDATE leases SET price = ? WHERE id = ?", (data["price"], lease))


def _lease_closed(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("UPDATE leases SET closed = ? WHERE id = ? AND closed = 0", (t, lease))


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


def _run_seen(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute(
        "UPDATE runs SET state = ?, reason = ?, seen = ?, seq = ? WHERE run = ?",
        (data["state"], data.get("reason", ""), t, data.get("seq", 0), run),
    )
    _forget_waivers(db, run, data)


def _forget_waivers(db: sqlite3.Connection, run: str, data: dict[str, Any]) -> None:
    """A run that was started again promises again: what was given up before says nothing of the new results."""
    if data.get("did") in ("opened", "resumed"):
        db.execute("UPDATE runs SET waived = '[]' WHERE run = ?", (run,))


def _receipt_written(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    text = json.dumps(data["receipt"], sort_keys=True, ensure_ascii=False)
    db.execute("UPDATE runs SET receipt = ?, home_since = ? WHERE run = ?", (text, data["export"], run))


def _receipt_void(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("UPDATE runs SET receipt = '', home_since = '' WHERE run = ?", (run,))


def _waived(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    row = db.execute("SELECT waived FROM runs WHERE run = ?", (run,)).fetchone()
    cells = set(json.loads(row[0] or "[]")) if row else set()
    db.execute("UPDATE runs SET waived = ? WHERE run = ?", (json.dumps(sorted(cells | {data["cell"]})), run))


def _box_written(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    entry = json.dumps(data, sort_keys=True, ensure_ascii=False)
    db.execute("INSERT OR REPLACE INTO boxes VALUES (?,?,?)", (data["name"], data["added_unix"], entry))


def _box_removed(db: sqlite3.Connection, t: float, lease: str, run: str, data: dict[str, Any]) -> None:
    db.execute("DELETE FROM boxes WHERE name = ?", (data["name"],))


_STEPS: dict[str, Callable[[sqlite3.Connection, float, str, str, dict[str, Any]], None]] = {
    "lease_opened": _lease_opened,
    "lease_priced": _lease_priced,
    "lease_closed": _lease_closed,
    "run_planned": _run_planned,
    "run_seen": _run_seen,
    "receipt_written": _receipt_written,
    "receipt_void": _receipt_void,
    "waived": _waived,
    "box_added": _box_written,
    "box_changed": _box_written,
    "box_removed": _box_removed,
}
