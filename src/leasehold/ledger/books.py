"""The ledger's queries and records, in the terms of the lifecycle stages."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from leasehold.errors import Refusal, UserError
from leasehold.model.lease.lease import Lease, RunLine, RunRecord

from .projection import LINE, lease_from_row, line_from_row, run_from_row
from .store import Ledger

_LIVE = ("opened", "running", "stopping", "unknown")
_PART = re.compile(r"-b[0-9a-f]{6}\Z")  # the position of a box in a sweep
_ENDS_INTENT = (
    "verb_done", "verb_refused", "verb_asked", "lease_closed", "lease_reopened", "lease_parked", "lease_resumed"
)  # fmt: skip

if TYPE_CHECKING:  # `lease status` must not load what it does not show
    from leasehold.model.run.receipt import Approval, Receipt


def runs(ledger: Ledger, *, lease: str = "") -> list[RunRecord]:
    """List runs, newest first."""
    if lease:
        rows = ledger.query("SELECT * FROM runs WHERE lease = ? ORDER BY created DESC", lease)
    else:
        rows = ledger.query("SELECT * FROM runs ORDER BY created DESC")
    return [run_from_row(row) for row in rows]


def run_lines(ledger: Ledger) -> list[RunLine]:
    """Return the list entry of every run, newest first."""
    return [line_from_row(row) for row in ledger.query(f"SELECT {LINE} FROM runs ORDER BY created DESC")]


def leases_of(ledger: Ledger, runs: list[str]) -> set[str]:
    """Name the leases that these runs lived on; a run that moved has several."""
    rows = ledger.query(
        "SELECT DISTINCT lease FROM stays WHERE run IN (SELECT value FROM json_each(?))", json.dumps(runs)
    )
    return {str(lease) for (lease,) in rows}


def stays_on(ledger: Ledger, lease: str) -> list[tuple[str, float, float]]:
    """List when each run lived on a lease: (run, from, to), to is 0 while it lives."""
    return [tuple(row) for row in ledger.query("SELECT run, began, ended FROM stays WHERE lease = ?", lease)]


def run_called(ledger: Ledger, run: str) -> RunRecord | None:
    """Return the run with this id, if there is one."""
    rows = ledger.query("SELECT * FROM runs WHERE run = ?", run)
    return run_from_row(rows[0]) if rows else None


def metered_runs(ledger: Ledger, lease: str) -> list[RunRecord]:
    """List the runs of a lease that its meter covers: alive, or with trained time that is not proven home."""
    wanted = "SELECT * FROM runs WHERE lease = ? AND (state IN ('running', 'stopping', 'unknown') OR (work <> '' "
    partly = "json_array_length(receipt, '$.cells') < json_array_length(plan, '$.cells')"
    wanted += f"AND (receipt = '' OR {partly}))) ORDER BY created DESC"
    return [run_from_row(row) for row in ledger.query(wanted, lease)]


def project_of(ledger: Ledger, lease: str) -> str:
    """Return the project folder of a lease's newest run that has one."""
    newest = "SELECT project FROM runs WHERE lease = ? AND project <> '' ORDER BY created DESC LIMIT 1"
    rows = ledger.query(newest, lease)
    return str(rows[0][0]) if rows else ""


def ended_on(ledger: Ledger, lease: str, ended: tuple[str, ...], most: int) -> list[RunRecord]:
    """Return the newest started runs of a lease if every one of them has ended, else nothing."""
    marks = ",".join("?" * len(ended))
    busy = f"SELECT count(*) FROM runs WHERE lease = ? AND state <> 'planned' AND state NOT IN ({marks})"
    if ledger.query(busy, lease, *ended)[0][0]:
        return []
    newest = "SELECT * FROM runs WHERE lease = ? AND state <> 'planned' ORDER BY created DESC LIMIT ?"
    return [run_from_row(row) for row in ledger.query(newest, lease, most)]


def started_on(ledger: Ledger, lease: str) -> int:
    """Count the runs of a lease that got further than being planned."""
    return int(ledger.query("SELECT count(*) FROM runs WHERE lease = ? AND state <> 'planned'", lease)[0][0])


def latest_of(ledger: Ledger, lease: str, *kinds: str) -> str:
    """Return which of these kinds of event happened last on a lease; empty if none did."""
    marks = ",".join("?" * len(kinds))
    newest = f"SELECT kind FROM events WHERE lease = ? AND kind IN ({marks}) ORDER BY seq DESC LIMIT 1"
    rows = ledger.query(newest, lease, *kinds)
    return str(rows[0][0]) if rows else ""


def latest_on_run(ledger: Ledger, run: str, *kinds: str) -> str:
    """Return which of these kinds of event happened last to a run; empty if none did."""
    marks = ",".join("?" * len(kinds))
    newest = f"SELECT kind FROM events WHERE run = ? AND kind IN ({marks}) ORDER BY seq DESC LIMIT 1"
    rows = ledger.query(newest, run, *kinds)
    return str(rows[0][0]) if rows else ""


def find_run(ledger: Ledger, word: str) -> RunRecord:
    """Find a run by id, by its job's name (see _named), or by an unambiguous beginning."""
    rows = ledger.query("SELECT * FROM runs WHERE run = ?", word)
    if not rows and word:  # an unset shell variable must not mean "the only run"
        rows = _named(ledger, word)
    if not rows and word:
        escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        rows = ledger.query("SELECT * FROM runs WHERE run LIKE ? ESCAPE '\\'", escaped + "%")
    if len(rows) == 1:
        return run_from_row(rows[0])
    if rows:
        names = ", ".join(row[0] for row in rows[:5])
        raise UserError("run.ambiguous", f"{word!r} fits {len(rows)} runs: {names}", hint="write more of the id")
    raise UserError("run.unknown", f"this home knows no run {word!r}", hint="lease status lists the runs")


def _named(ledger: Ledger, name: str) -> list[tuple[Any, ...]]:
    """Resolve a job's name: the run that lives, else the newest that ever lived, else the newest planned one.

    If two live, a person must choose; the parts of one sweep on several boxes count as one.
    """
    rows = ledger.query("SELECT * FROM runs WHERE name = ? ORDER BY created DESC", name)
    records = [run_from_row(row) for row in rows]
    open_now = {lease.id for lease in leases(ledger, only_open=True)}
    live = [n for n, one in enumerate(records) if one.state in _LIVE and one.lease in open_now]
    if len({_PART.sub("", records[n].run) for n in live}) > 1:
        named = "; ".join(f"{records[n].run} ({records[n].state} on {records[n].box})" for n in live[:5])
        raise UserError("run.ambiguous", f"{name!r} fits {len(live)} live runs: {named}", hint="write the run's id")
    lived = [n for n, one in enumerate(records) if one.state != "planned" or one.seq]
    return [rows[n] for n in (*live, *lived, *range(len(rows)))[:1]]


def leases(ledger: Ledger, *, only_open: bool = False) -> list[Lease]:
    """List leases, newest first."""
    rows = ledger.query("SELECT * FROM leases ORDER BY opened DESC")
    found = [lease_from_row(row) for row in rows]
    return [lease for lease in found if lease.open or not only_open]


def find_lease(ledger: Ledger, lease: str) -> Lease:
    """Return the lease with this id."""
    rows = ledger.query("SELECT * FROM leases WHERE id = ?", lease)
    if not rows:
        raise UserError("lease.unknown", f"this home knows no lease {lease!r}", hint="lease status lists them")
    return lease_from_row(rows[0])


def lease_held(ledger: Ledger, box: str, root: str) -> Lease | None:
    """Return the open lease of this box and folder, if there is one."""
    rows = ledger.query("SELECT * FROM leases WHERE box = ? AND root = ? AND closed = 0", box, root)
    return lease_from_row(rows[0]) if rows else None


def open_lease(ledger: Ledger, box: str, platform: str, root: str, price: str) -> Lease:
    """Return the open lease of this box, opening one before anything is done on it."""
    with ledger.transaction() as append:
        rows = ledger.query("SELECT * FROM leases WHERE box = ? AND root = ? AND closed = 0", box, root)
        if rows:
            held = lease_from_row(rows[0])
            if price and price != held.price:
                append("lease_priced", held.id, "", {"price": price})
        else:
            count = ledger.query("SELECT count(*) FROM leases")[0][0]
            slug = "".join(char if char.isalnum() else "-" for char in box).strip("-")[:40] or "box"
            data = {"box": box, "platform": platform, "root": root, "price": price}
            append("lease_opened", f"{slug}-{count + 1}", "", data)
    rows = ledger.query("SELECT * FROM leases WHERE box = ? AND root = ? AND closed = 0", box, root)
    return lease_from_row(rows[0])


def closed_by_word(ledger: Ledger, lease: str) -> bool:
    """Return whether a lease was closed because a person said so, and no platform."""
    closed = [event for event in ledger.events(lease=lease) if event.kind == "lease_closed"]
    return bool(closed) and "said" in closed[-1].data


def newest_event(ledger: Ledger) -> int:
    """Return the number of the last event."""
    return int(ledger.query("SELECT coalesce(max(seq), 0) FROM events")[0][0])


def reopened(ledger: Ledger, seq: int) -> list[tuple[str, dict[str, Any]]]:
    """List the leases that were reopened after this event, with what was seen."""
    rows = ledger.query("SELECT lease, data FROM events WHERE seq > ? AND kind = 'lease_reopened' ORDER BY seq", seq)
    return [(str(lease), json.loads(data)) for lease, data in rows]


def heard_since(ledger: Ledger, seq: int) -> bool:
    """Return whether a box answered after this event that was believed to be gone, or that a run had left."""
    wanted = "SELECT 1 FROM events WHERE seq > ? AND kind IN ('lease_reopened', 'superseded_stopped') LIMIT 1"
    return bool(ledger.query(wanted, seq))


def was_removed(ledger: Ledger, run: str) -> bool:
    """Return whether a person had the run's folder removed from its box, which needs its receipt first."""
    return any(True for _ in ledger.events(run=run, kind="run_removed"))


def receipt_of(record: RunRecord) -> Receipt | None:
    """Return the run's receipt as this home recorded it."""
    if not record.receipt_json:
        return None
    from leasehold.model.run.receipt import receipt_from_dict

    return receipt_from_dict(json.loads(record.receipt_json))


def record_intent(ledger: Ledger, lease: str, verb: str, approval: Approval) -> str:
    """Consume an approval by the intent to act; a second use of the same approval refuses."""
    from leasehold.kit.files.canonical_json import digest

    approval_id = digest(approval.request.as_dict())
    intent: dict[str, Any] = {
        "intent": approval_id[:16],
        "verb": verb,
        "approval": approval_id,
        "strength": approval.strength.value,
        "by": approval.by,
        "evidence": approval.request.evidence,
        "granted_unix": approval.granted_unix,
        "expires_unix": approval.request.expires_unix,
    }
    if approval.key is not None:
        intent["key"] = approval.key.as_dict()
    with ledger.transaction() as append:
        for event in ledger.events(lease=lease, kind="intent_recorded"):
            if event.data["approval"] == approval_id:
                raise Refusal("approval.used", "this approval was already used", hint="ask for a new one: lease down")
        append("intent_recorded", lease, "", intent)
    return approval_id[:16]


def pending_intent(ledger: Ledger, lease: str) -> dict[str, Any] | None:
    """Return the act that was approved and begun on this lease and has not ended, if any.

    granted_unix is the time of approval; an old ledger without it gives the time of the record. If a person is asked
    to click (verb_asked), asking is the act: it has ended, and the next `lease down` asks anew.
    """
    pending: dict[str, Any] | None = None
    for event in ledger.events(lease=lease):
        if event.kind == "intent_recorded":
            pending = {"granted_unix": event.t, **event.data}
        elif event.kind in _ENDS_INTENT:
            pending = None
    return pending
