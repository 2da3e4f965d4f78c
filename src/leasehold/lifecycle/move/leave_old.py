"""Leave the old box: fence the run there and stop its trainer with a last save; a silent box needs a person's word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, LinkError, Refusal
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.take_over import whoami
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.machine.superseded import ABSENT, CLOSED, FENCED, SAID, STOPPED
from leasehold.lifecycle.run.stop import stop_run
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.run.note import Note, Report
from leasehold.model.values.wording import ago

from .claims import Move

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine

_SETTLED = (STOPPED, SAID, CLOSED, ABSENT)


@dataclass
class Old:
    """The box that a run leaves, as far as it answers."""

    box: str
    engine: Engine | None = None  # open while the move goes on
    seen: Mapping[str, Any] | None = None
    why: str = ""  # it is silent

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self.engine is not None:
            self.engine.close()
        self.engine = None


def visit(home: Home, lease: Lease, run: str, report: Report) -> Old:
    """Ask the old box what it knows; one whose lease is closed is believed to be gone, and not called."""
    if not lease.open:
        return Old(lease.box, why=f"its lease {lease.id} is closed")
    try:
        engine = box_of(home, lease).connect()
    except (LinkError, BoxError) as error:
        report(Note("unknown", f"{lease.box} does not answer: {error.message}"))
        return Old(lease.box, why=error.message)
    try:
        return Old(lease.box, engine, engine.observe.look(run))
    except LinkError as error:
        engine.close()
        return Old(lease.box, why=error.message)


def fence(home: Home, old: Old, move: Move, wish: tuple[Ask, float], report: Report) -> Old:
    """See to it that the old box does not go on; return it with its final state. May be repeated."""
    ask, grace_s = wish
    lease = books.find_lease(home.ledger, move.lease)
    if old.engine is None or old.seen is None:
        _believe_gone(home, old, lease, move, ask)
        return old
    if old.seen["state"] == "absent":
        _record(home, move, ABSENT)
        return old
    claim = {"epoch": move.epoch, "nonce": move.nonce, "to": move.to, "who": whoami()}
    old.seen = old.engine.moves.fence(move.run, home.ledger.home_id, claim)
    report(Note("fenced", f"{old.box}: {move.run} is fenced there, epoch {move.epoch}", {"epoch": move.epoch}))
    if not old.seen["terminal"]:
        stop_run(home, books.find_run(home.ledger, move.run), grace_s, report, lease)
        old.seen = old.engine.observe.look(move.run)
    if not old.seen["terminal"]:
        raise BoxError(
            "move.not_stopped",
            f"{move.run} is fenced on {old.box} and still {old.seen['state']} there; nothing was started elsewhere",
            hint="the identical command tries again",
        )
    _record(home, move, STOPPED)
    return old


def _believe_gone(home: Home, old: Old, lease: Lease, move: Move, ask: Ask) -> None:
    """Require a person's word for a silent box, once a move; a closed lease is such a word."""
    if not lease.open:
        _record(home, move, CLOSED)
        return
    told = [event.data for event in home.ledger.events(run=move.run, kind=FENCED)]
    if any(data.get("nonce") == move.nonce and data.get("how") in _SETTLED for data in told):
        return
    question = (
        f"{old.box} does not answer ({old.why}); whether {move.run} still trains there is unknown.\n"
        f"If it does, it goes on until it sees the claim of the next epoch or this home reaches it; what it saves\n"
        "then does not count, and it bills until `lease down`. If the box is gone, or you accept that"
    )
    require_phrase(ask, question, f"{old.box} is gone", "nothing was moved")
    _record(home, move, SAID)


def _record(home: Home, move: Move, how: str) -> None:
    known = [event.data for event in home.ledger.events(run=move.run, kind=FENCED)]
    if not known or (known[-1].get("nonce"), known[-1].get("how")) != (move.nonce, how):
        home.ledger.append(
            FENCED, lease=move.lease, run=move.run, how=how, epoch=move.epoch, nonce=move.nonce, to=move.to
        )


def refuse_working(record: RunRecord, seen: Mapping[str, Any], to: str) -> Refusal:
    """Return the refusal of `lease run --on` for a run that works elsewhere: a move is asked for by its name."""
    age = seen.get("proof_age_s")
    sign = f"; its last sign of life was {ago(float(age))} ago" if isinstance(age, int | float) else ""
    return Refusal(
        "run.elsewhere",
        f"{record.run} is {seen['state']} on {record.box}{sign}",
        hint=f"lease move {record.run} --to {to} stops it there and goes on here; lease watch {record.run}",
    )
