"""A box that a run has left answers again: what still trains there is fenced and stopped, and that is reported.

A run may leave a silent box on a person's word. Any command that reaches that box afterwards settles it: the run goes
on elsewhere with a later epoch, so nothing that this box still makes of it counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import Lease

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine

FENCED, STOPPED_THERE = "move_fenced", "superseded_stopped"
SAID, CLOSED, STOPPED, ABSENT = "said", "closed", "stopped", "absent"  # how a run left its box
_UNPROVEN = (SAID, CLOSED)
_GRACE_S = 5.0


def unproven(home: Home, lease: str) -> list[Mapping[str, Any]]:
    """List the runs that left this lease while its box was silent, each with the claim that outranks it there."""
    newest: dict[str, Mapping[str, Any]] = {}
    for event in home.ledger.events(lease=lease, kind=FENCED):
        newest[event.run] = {**event.data, "run": event.run}
    return [data for data in newest.values() if data.get("how") in _UNPROVEN]


def left_behind(home: Home) -> set[str]:
    """Return the leases whose boxes may still train a run that went on elsewhere."""
    leases = {event.lease for event in home.ledger.events(kind=FENCED)}
    return {lease for lease in leases if unproven(home, lease)}


def stop_superseded(home: Home, lease: Lease, engine: Engine) -> None:
    """Fence and stop what left this box while it was silent; one that another home holds there stays as it is."""
    for claim in unproven(home, lease.id):
        with suppress(LeaseholdError):  # the next contact tries again
            _stop(home, lease, engine, claim)


def _stop(home: Home, lease: Lease, engine: Engine, claim: Mapping[str, Any]) -> None:
    run = str(claim["run"])
    seen = engine.observe.look(run)
    if seen["state"] == "absent":
        home.ledger.append(FENCED, lease=lease.id, run=run, **{**_facts(claim), "how": ABSENT})
        return
    engine.moves.fence(run, home.ledger.home_id, {key: claim.get(key) for key in ("epoch", "nonce", "to")})
    told = bool((seen.get("fence") or {}).get("epoch"))
    if seen["terminal"]:
        home.ledger.append(FENCED, lease=lease.id, run=run, **{**_facts(claim), "how": STOPPED})
        return
    me = home.ledger.home_id
    engine.work.stop(run, {"id": os.urandom(6).hex(), "by": me, "home": me, "grace_s": _GRACE_S})
    if not told:
        home.ledger.append(STOPPED_THERE, lease=lease.id, run=run, box=lease.box, to=claim.get("to"))


def _facts(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {key: claim.get(key) for key in ("epoch", "nonce", "to")}


def stopped_since(home: Home, seq: int) -> list[str]:
    """Describe what was stopped on boxes that answered again after this event of the ledger."""
    rows = home.ledger.query(
        "SELECT lease, run, data FROM events WHERE seq > ? AND kind = ? ORDER BY seq", seq, STOPPED_THERE
    )
    return [_say(home, str(lease), str(run), json.loads(data)) for lease, run, data in rows]


def _say(home: Home, lease: str, run: str, data: Mapping[str, Any]) -> str:
    bills = "" if not books.find_lease(home.ledger, lease).open else f"; {lease} still bills: lease down {lease}"
    return (
        f"{data.get('box')} answers, and {run} still trained there although it goes on on {data.get('to')}: it was "
        f"fenced and told to stop, and what it made there does not count{bills}"
    )
