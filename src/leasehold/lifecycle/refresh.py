"""Refresh: ask every box's boot line once, side by side; silence is unknown, never success."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from leasehold.errors import LeaseholdError
from leasehold.ledger import books
from leasehold.model.lease import RunRecord
from leasehold.model.work import checked_work

from .boxes import box_of
from .health import trouble
from .home import Home
from .lease_notes import note_reached

_AT_ONCE = 16
_STALE_BEAT_S = 30
_SHUTDOWN_S = 120  # so long a box that was just parked may still answer


def refresh(home: Home, records: list[RunRecord]) -> None:
    """Record what each run's box says now."""
    held = {lease.id: lease for lease in books.leases(home.ledger) if lease.open}
    wanted = sorted({record.lease for record in records} & held.keys())
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(wanted, pool.map(lambda name: _ask(home, held[name]), wanted), strict=True))
    for name, answer in answers.items():
        if isinstance(answer, dict) and time.time() - held[name].since_unix > _SHUTDOWN_S:
            note_reached(home.ledger, held[name])  # a parked box that answers is on again
    for record in records:
        if record.lease in answers:
            _record(home, record, answers[record.lease])


def _ask(home: Home, lease: object) -> dict[str, dict[str, object]] | str:
    try:
        lines = box_of(home, lease).status_lines()  # type: ignore[arg-type]
    except LeaseholdError as error:
        return error.message
    found = {}
    for age_s, text in lines:
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            found[str(value.get("run"))] = {**value, "age_s": age_s}
    return found


def _record(home: Home, record: RunRecord, answer: dict[str, dict[str, object]] | str) -> None:
    if isinstance(answer, str):
        home.ledger.append("run_unreachable", lease=record.lease, run=record.run, why=answer)
        if record.state in ("running", "stopping", "opened", "planned", "unknown"):
            _seen(home, record, "unknown", f"last known {record.state}; {answer}")
        return
    value = answer.get(record.run)
    if value is None:
        return
    state, age = str(value.get("state")), int(str(value.get("age_s", 0)))
    if state == "running" and age > _STALE_BEAT_S:
        _seen(home, record, "unknown", f"last known running; no heartbeat on the box for {age} s")
    else:
        changed = float(str(value.get("changed_unix") or 0))
        seq, work = int(str(value.get("seq", 0))), checked_work(value.get("work"))
        reason = str(value.get("reason", "")) or trouble(value)
        _seen(home, record, state, reason, seq=seq, changed_unix=changed, work=work)


def _seen(home: Home, record: RunRecord, state: str, reason: str, **more: Any) -> None:
    facts = {"changed_unix": 0.0, **more, "seq": more.get("seq") or record.seq}
    home.ledger.append("run_seen", lease=record.lease, run=record.run, state=state, reason=reason, **facts)
