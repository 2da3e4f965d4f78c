"""Verbs that end things: waive, harmless, down, park."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.kit.text.units import utc_minute
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home, person
from leasehold.lifecycle.records.orders import DownOrder
from leasehold.model.lease.box import LOCAL
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.placing import DEFAULT_ROOT
from leasehold.model.run.note import Note, Report

if TYPE_CHECKING:
    from leasehold.lifecycle.ending.parking import Standing
    from leasehold.lifecycle.ending.teardown import TeardownPlan
    from leasehold.platforms.contract import Landlord


_WAIVER = "a waiver is typed by a person on a terminal; there is no other way"


def waive(home: Home, word: str, cell: str, report: Report) -> Path:
    """Give up a cell's results by a person's decision, after salvage."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.ending.waive import waive as give_up

    def ask(question: str) -> str:
        return terminal_ask(question, _WAIVER)

    return give_up(home, books.find_run(home.ledger, word), cell, ask, report)


def waive_failed(home: Home, word: str, report: Report) -> list[dict[str, str]]:
    """Give up everything that failed on a box or lease, in one decision of a person, after salvage."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.ending.waive import waive_failed as give_up

    done = give_up(home, word, lambda question: terminal_ask(question, _WAIVER), report)
    return [{"run": run, "cell": cell, "quarantine": str(place)} for run, cell, place in done]


def take_back_waiver(home: Home, word: str, cell: str) -> str:
    """Cancel the waiver of a cell, so that its results are owed again; return its run."""
    from leasehold.lifecycle.ending.waive import take_back

    record = books.find_run(home.ledger, word)
    take_back(home, record, cell)
    return record.run


def harmless(home: Home, word: str, pid: int) -> dict[str, Any]:
    """Record a person's statement that a process in a run's folders is harmless."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.ending.harmless import call_harmless

    def ask(question: str) -> str:
        return terminal_ask(question, "this is typed by a person on a terminal; there is no other way")

    return call_harmless(home, books.find_run(home.ledger, word), pid, ask)


def down_plan(home: Home, word: str, verb: str = "", facts_checked: str = "") -> TeardownPlan:
    """Return what a teardown would do and whether the gate permits it; change nothing."""
    from leasehold.lifecycle.ending.teardown import Wanted, plan_teardown

    return plan_teardown(home, lease_named(home, word), Wanted(verb, facts_checked))


def down(home: Home, order: DownOrder, report: Report) -> str:
    """Pass the gate, get the typed yes, act; return the box's end state."""
    from leasehold.lifecycle.approval import approve as ways
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.ending.teardown import Wanted, tear_down
    from leasehold.model.run.receipt import Approval

    lease = lease_named(home, order.word)

    def approve(plan: TeardownPlan) -> Approval:
        order.show(plan)
        if order.approve not in ("typed", "rehearsal"):
            from leasehold.lifecycle.tell.signers import allowed_lines

            return ways.signed(Path(order.approve), home.signers, allowed_lines(home.ledger))
        request = ways.new_request(plan.readings)
        if order.approve == "rehearsal":
            return ways.rehearsed(request)
        return ways.typed(request, f"{plan.verb.name} {lease.id}", terminal_ask)

    landlord = _landlord(home, lease, order.verb, report)
    return tear_down(home, lease, Wanted(order.verb, order.facts_checked), landlord, approve, report).value


def park(home: Home, order: DownOrder, report: Report) -> str:
    """Park the box of a run or lease: `down` with the platform's reversible verb."""
    from leasehold.lifecycle.ending.parking import park_verb

    return down(home, replace(order, verb=park_verb(home, lease_named(home, order.word)).name), report)


def park_plan(home: Home, word: str, facts_checked: str = "") -> TeardownPlan:
    """Return what parking would do; change nothing."""
    from leasehold.lifecycle.ending.parking import park_verb

    return down_plan(home, word, park_verb(home, lease_named(home, word)).name, facts_checked)


def park_standing(home: Home, word: str, how_long: str) -> Standing:
    """Record a person's typed yes to parking this box after receipts, for a limited time."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.ending.parking import grant
    from leasehold.model.values.units import parse_duration

    try:
        for_s = parse_duration(how_long)
    except ValueError as error:
        raise UserError("standing.bad_duration", str(error), hint="--standing 14d") from None
    return grant(home, lease_named(home, word), for_s, terminal_ask)


def park_revoke(home: Home, word: str) -> bool:
    """Withdraw the standing yes."""
    from leasehold.lifecycle.ending.parking import revoke

    return revoke(home, lease_named(home, word))


def down_request(home: Home, word: str, verb: str, path: Path, facts_checked: str = "") -> dict[str, Any]:
    """Write an approval request for signing, if the gate passes."""
    from leasehold.errors import Refusal
    from leasehold.lifecycle.approval.approve import new_request, write_request

    plan = down_plan(home, word, verb, facts_checked)
    if not plan.verdict.passed:
        seen, hint = plan.verdict.objections(f"lease down {word} --plan shows all it read")
        raise Refusal("teardown.refused", "there is nothing to approve yet: the gate refuses", seen=seen, hint=hint)
    request = new_request(plan.readings)
    write_request(request, path)
    return request.as_dict()


def down_stopped(home: Home, word: str, report: Report, verb: str = "") -> Lease:
    """Record a person's typed statement that the meter is stopped."""
    from leasehold.errors import Refusal
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.ending.stopped_by_hand import record_stopped, refuse_while_on
    from leasehold.lifecycle.ending.teardown import clocks_after, platform_of
    from leasehold.lifecycle.machine.shared_meters import twins_of

    lease = lease_named(home, word)
    if not lease.open:
        report(Note("already_down", f"{lease.id} is already closed"))
        return lease
    report(Note("seen", f"{lease.box}: {refuse_while_on(home, lease, _with_api(home, lease))}"))
    for held in (lease.id, *sorted(twins_of(home, lease))):
        for record in books.runs(home.ledger, lease=held):
            if books.receipt_of(record) is None:
                report(Note("warning", f"{record.run} has no receipt at home: if the box is gone, so are its results"))
    phrase = f"stopped {lease.id}"
    back_dated = f"{phrase} since then" if lease.off_unknown else ""
    question = f"if the console shows that {lease.box} no longer bills, type exactly:  {phrase}\n"
    if back_dated:
        moment = utc_minute(lease.since_unix)
        question += f"if it shows that it is off since {moment}, when it stopped answering:  {back_dated}\n"
    answer = terminal_ask(question + "> ").strip()
    if answer not in (phrase, back_dated) or not answer:
        raise Refusal("stop.not_confirmed", f"{answer!r} is not the phrase; {lease.id} keeps counting")
    parked = record_stopped(home, lease, person(), verb, lease.since_unix if answer == back_dated else 0.0, report)
    for line in clocks_after(platform_of(home, lease), parked) if parked else ():
        report(Note("danger", line))
    return books.find_lease(home.ledger, lease.id)


def _with_api(home: Home, lease: Lease) -> Landlord | None:
    """Return the platform's landlord where its API can be asked whether the box is held."""
    from leasehold.lifecycle.ending.teardown import platform_of
    from leasehold.lifecycle.rentals.markets import rented_landlord

    if (rented := rented_landlord(home, lease)) is not None:
        return rented
    profile = platform_of(home, lease)
    api = any(verb.by == "api" for verb in profile.verbs)
    if profile.landlord == "simulated" and lease.box != LOCAL or not (api or profile.landlord == "simulated"):
        return None
    from leasehold.lifecycle.ending.parking import landlord_of
    from leasehold.rehearsal.landlord import SimulatedLandlord

    asked = next((verb for verb in profile.verbs if verb.by == "api"), None)
    return landlord_of(home, lease, asked) if asked is not None else SimulatedLandlord()


def lease_named(home: Home, word: str) -> Lease:
    """Find a lease by its id, by its box, or by one of its runs."""
    every = books.leases(home.ledger)
    if named := [lease for lease in every if lease.id == word]:
        return named[0]
    on_box = [lease for lease in every if lease.box == word]
    held = [lease for lease in on_box if lease.open]
    if len(held) > 1:
        which = "; ".join(f"{lease.id} in {lease.root or DEFAULT_ROOT}" for lease in held)
        hint = f"name one: lease down {held[0].id}"
        raise UserError("lease.ambiguous", f"{len(held)} leases are open on {word}: {which}", hint=hint)
    if held:
        return held[0]
    try:
        return books.find_lease(home.ledger, books.find_run(home.ledger, word).lease)
    except UserError as error:
        if error.code == "run.unknown" and on_box:
            return on_box[0]  # closed: the caller reports that
        raise


def _landlord(home: Home, lease: Lease, verb_name: str, report: Report) -> Landlord:
    from leasehold.lifecycle.ending.parking import landlord_of
    from leasehold.lifecycle.ending.teardown import platform_of
    from leasehold.platforms.landlords.person import PersonLandlord

    profile = platform_of(home, lease)
    if profile.landlord == "simulated" and lease.box != LOCAL:  # from a book written before that was refused
        hint = f"lease box add {lease.box} --replace --platform ID corrects it (lease platforms lists them)"
        raise UserError(
            "box.platform_here", f"{lease.id} is booked as {profile.id}, where no such box can be", hint=hint
        )
    if profile.landlord == "simulated":
        from leasehold.rehearsal.landlord import SimulatedLandlord

        return SimulatedLandlord()
    verb = profile.verb(verb_name)
    return landlord_of(home, lease, verb, report) if verb is not None else PersonLandlord()
