"""One home shares a sweep out: it holds the run on every reachable box before it gives any of them a cell.

Boxes are claimed in the order of their own names, so that of two homes that begin at once one finds the other's claim
at the first box they both reach. That one only follows: it brings results home and gives no cells to any box.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.errors import LeaseholdError, LinkError
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.take_over import holder_words, whoami
from leasehold.lifecycle.tell import notify
from leasehold.model.job.job import Job
from leasehold.model.run.note import Note, Report

from .member import Member, claim


def claim_all(home: Home, members: Sequence[Member]) -> dict[str, Any]:
    """Hold the run on every box; return another home's holder, if any, after releasing what has not begun.

    A box whose connection breaks is left out, with its problem noted.
    """
    mine: list[Member] = []
    for member in sorted(members, key=lambda one: one.suffix):
        try:
            seen = claim(member, home, whoami())
        except LinkError as error:
            member.lost(error.message)
            continue
        if not seen["mine"]:
            _let_go(home, mine)
            return dict(seen.get("holder") or {})
        mine.append(member)
    return {}


def take_over_all(home: Home, members: Sequence[Member], job: Job, held: tuple[str, Ask], report: Report) -> None:
    """Ask a person once, typed, that this home shares the sweep out from now on, and record it on every box."""
    sweep, ask = held
    holders = {member.suffix: _holder(member) for member in members}
    others = [one for one in members if holders[one.suffix].get("home") not in ("", None, home.ledger.home_id)]
    if not others:
        return
    who = ", ".join(sorted({holder_words(holders[member.suffix]) for member in others})[:3])
    _require_yes(sweep, who, ask)
    for member in others:
        lease = books.open_lease(home.ledger, member.box.name, member.box.platform, member.box.root, "")
        private = {"who": whoami(), "notify": notify.wishes(home, lease, job)}
        epoch = int(holders[member.suffix].get("epoch", 0))
        with member.wire() as engine:
            seen = engine.hold.take_over(member.run, epoch, home.ledger.home_id, private)
        home.ledger.append("run_taken_over", lease=lease.id, run=member.run, epoch=seen["holder"]["epoch"], before=who)
    report(Note("taken_over", f"this home shares {sweep} out now; before: {who}", {"sweep": sweep}))


def say_onlooker(holder: dict[str, Any], unheld: int) -> str:
    """Report why this home gives no cells, and what would change that."""
    who = holder_words(holder) if holder else "another home"
    more = f"; {unheld} cells are on no box that answers" if unheld else ""
    return (
        f"{who} shares this sweep out: this home follows and brings home, and gives or moves no cell{more}. "
        "If nobody works there any more: the same lease run with --take-over"
    )


def _holder(member: Member) -> dict[str, Any]:
    with member.wire() as engine:
        return dict(engine.observe.look(member.run).get("holder") or {})


def _let_go(home: Home, mine: Sequence[Member]) -> None:
    for member in mine:
        try:
            with member.wire() as engine:
                engine.hold.unclaim(member.run, home.ledger.home_id)
        except LeaseholdError:
            continue  # a claim with nothing begun expires by itself


def _require_yes(sweep: str, held: str, ask: Ask) -> None:
    question = (
        f"{sweep} is shared out by {held}. After this, that home can still look and pull, but gives\n"
        "and moves no cell, and its `lease stop`, `park`, `down` and resume are refused there.\n"
        "Make sure that nobody works there. To take it over"
    )
    require_phrase(ask, question, f"take over {sweep}", "nothing was changed")
