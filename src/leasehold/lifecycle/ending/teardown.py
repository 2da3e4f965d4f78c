"""Tear down: read everything again, pass the gate, get a person's approval, write the intent, act, poll."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from leasehold.errors import LeaseholdError, Refusal, UserError
from leasehold.gates.end.teardown import TeardownReadings, judge_approval, judge_teardown
from leasehold.kit.events.teardown_lines import not_home_lines, where_results_are
from leasehold.kit.text.units import utc_day
from leasehold.ledger import books, box_book, rentals
from leasehold.lifecycle.approval.intents import approved_words, asked_before, still_approved
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.machine.shared_meters import close_twins, twins_of
from leasehold.lifecycle.money.metering import cost_text
from leasehold.lifecycle.rentals.api_landlord import ApiLandlord
from leasehold.lifecycle.rentals.markets import by_api
from leasehold.lifecycle.states.given_up import GivenUp, given_up
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.placing import DEFAULT_ROOT, placed
from leasehold.model.platform.platform_wording import say_source
from leasehold.model.platform.profile import UNKNOWN, Profile, Verb
from leasehold.model.run.note import Note, Report
from leasehold.model.run.receipt import Approval
from leasehold.model.run.verdict import Verdict
from leasehold.platforms.contract import BoxState, Landlord
from leasehold.platforms.landlords.person import steps
from leasehold.transport.early_calls import EarlyCalls

from .not_home import all_promised_home, not_home
from .rented_end import leave_behind, say_bill
from .teardown_readings import Look, neighbours, read_all

_POLL_LIMIT_S = 120.0


@dataclass(frozen=True)
class TeardownPlan:
    """What a teardown would do, lose and cost, and whether the gate allows it."""

    lease: Lease
    profile: Profile
    verb: Verb
    readings: TeardownReadings
    verdict: Verdict
    left_behind: tuple[dict[str, Any], ...] = ()
    cost: str = ""
    exports: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()  # what this verb starts, with dates
    owed: tuple[GivenUp, ...] = ()  # runs with cells that have no receipt: what of them is home

    @property
    def deletes(self) -> bool:
        """Return whether what is only on the box is gone for good after the verb."""
        return bool(self.verb.deletes) or not self.verb.reversible

    def _tier(self, name: str) -> str:
        tier = next(tier for tier in self.profile.tiers if tier.name == name)
        unsure = name in self.verb.deletes and self.verb.ends != "nothing" and tier.survives(self.verb.ends) == UNKNOWN
        return f"{name} ({tier.place}{'; not known to survive' if unsure else ''})"

    def _folder(self) -> dict[str, str]:
        """Describe where our folder lies and what the verb does to it; what is not known to survive is not kept."""
        tier = self.profile.state_tier
        fate = "keeps" if tier.name in self.verb.keeps else "deletes"
        if fate == "deletes" and self.verb.ends != "nothing" and tier.survives(self.verb.ends) == UNKNOWN:
            fate = "may delete"
        return {"root": self.lease.root or DEFAULT_ROOT, "tier": tier.name, "place": tier.place, "fate": fate}

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {
            "lease": self.lease.id,
            "box": self.lease.box,
            "verb": self.verb.name,
            "reversible": self.verb.reversible,
            "deletes": [self._tier(name) for name in self.verb.deletes],
            "keeps": [self._tier(name) for name in self.verb.keeps],
            "folder": self._folder(),
            "steps": steps(self.lease, self.verb),
            "not_coming_home": list(self.left_behind),
            "exports": list(self.exports),
            "owed": [one.as_dict() for one in self.owed],
            "still_billed": list(self.verb.still_billed),
            "clocks": list(self.clocks),
            "facts": [f"{what}: {say_source(source, time.time())}" for what, source in self.profile.behind(self.verb)],
            "facts_from": list(self.profile.origin),
            "cost_so_far": self.cost,
            "gate": self.verdict.as_dict(),
            "evidence": self.readings.evidence,
        }


@dataclass(frozen=True)
class Wanted:
    """A person's request: the verb (empty: the one that stops the meter), and what they saw of doubtful facts."""

    verb: str = ""
    facts_checked: str = ""


def plan_teardown(home: Home, lease: Lease, wanted: Wanted, look: Look | None = None) -> TeardownPlan:
    """Read the box, the ledger and the home copies, and judge; nothing on the box is changed."""
    verb_name, facts_checked = wanted.verb, wanted.facts_checked
    records = books.runs(home.ledger, lease=lease.id)
    profile = platform_of(home, lease)
    verb = profile.verb(verb_name)
    if verb is None:
        known = ", ".join(item.name for item in profile.verbs)
        raise UserError("lease.unknown_verb", f"{profile.title} has no verb {verb_name!r}", hint=f"known: {known}")
    harmless = verb.kind == "park" and verb.reversible and not verb.deletes
    look = look or Look()
    readings, left = read_all(home, lease, verb, records, replace(look, in_full=look.in_full and not harmless))
    readings = replace(
        readings,
        other_leases=neighbours(home, lease, verb),
        harmless=harmless,
        doubts=(*profile.doubts(verb, time.time()), *readings.doubts),
        facts_checked=facts_checked,
    )
    return TeardownPlan(
        lease, profile, verb, readings, judge_teardown(readings), tuple(left), cost_text(home, lease, time.time()),
        tuple(record.home_since for record in records if record.home_since), tuple(clocks_after(profile, verb)),
        _owed(home, lease, readings),
    )  # fmt: skip


def _owed(home: Home, lease: Lease, readings: TeardownReadings) -> tuple[GivenUp, ...]:
    """Read what is home of each run with cells that have no receipt, after the box's own report was recorded."""
    there = {run.run: run.present for run in readings.runs if run.state != "absent"} if readings.reachable else {}
    records = books.runs(home.ledger, lease=lease.id)
    found = [given_up(home, lease, record, there.get(record.run)) for record in records]
    return tuple(one for one in found if one is not None)


def clocks_after(profile: Profile, verb: Verb) -> list[str]:
    """List the clocks that the verb starts, each with the date on which it fires."""
    starts = {"stop": "stopped", "destroy": "released"}.get(verb.ends)
    said = []
    for clock in profile.clocks:
        due = clock.due_unix(time.time())
        if clock.starts == starts and due is not None:
            day = utc_day(due)
            said.append(f"on {day} ({clock.after}): {clock.effect}" + (f"; {clock.do}" if clock.do else ""))
    return said


def platform_of(home: Home, lease: Lease) -> Profile:
    """Load the facts of a lease's platform as they hold for its folder, with the project's overlays there."""
    projects = [Path(record.project) for record in books.runs(home.ledger, lease=lease.id) if record.project]
    profile = home.shelf(projects[0] if projects else None).load(lease.platform)
    entry = box_book.find(home.ledger, lease.box)
    rental = rentals.rental_of_lease(home.ledger, lease.id)
    if rental is not None:
        profile = by_api(profile, rental.market)
    return placed(profile, lease.root or DEFAULT_ROOT, entry.durable if entry else "")


Approve = Callable[[TeardownPlan], Approval]


def tear_down(
    home: Home, lease: Lease, wanted: Wanted, landlord: Landlord, approve: Approve, report: Report
) -> BoxState:
    """Carry out the verb if the gate passes both before AND after the person's approval."""
    if not lease.open:
        report(Note("already_down", f"{lease.id} is already closed"))
        return BoxState.GONE
    begun = books.pending_intent(home.ledger, lease.id)
    if begun and landlord.poll(lease) is BoxState.GONE:  # approved, carried out, and killed before that was recorded
        report(Note("intent_resumed", f"{approved_words(begun, lease.id)}, and the platform reports {lease.box} gone"))
        _end(home, lease, begun["verb"], landlord if isinstance(landlord, ApiLandlord) else None, report)
        return BoxState.GONE
    if said := asked_before(home, lease):
        report(Note("by_hand", said))
    plan = plan_teardown(home, lease, wanted, Look(report=report))
    for one in plan.owed if not plan.verdict.passed else ():
        report(Note("owed", "\n".join(one.words(time.time())), one.as_dict()))
    _require(plan.verdict, "teardown.refused", f"`{plan.verb.name}` on {lease.id} was refused; nothing was done")
    if begun and (begun["verb"], begun["evidence"]) == (plan.verb.name, plan.readings.evidence):
        if still_approved(begun, time.time()):
            text = f"`{plan.verb.name}` was approved earlier and not finished; going on with it"
            report(Note("intent_resumed", text))
            plan = _look_again(home, lease, wanted, report)
            if plan.readings.evidence != begun["evidence"]:
                raise Refusal("teardown.refused", "the receipts or waivers changed meanwhile; nothing was done")
            return _act(home, lease, plan, landlord, report)
        text = f"{approved_words(begun, lease.id)} and was not finished; that approval is no longer valid"
        report(Note("intent_expired", text))
    approval = approve(plan)
    approved_unix = time.time()  # what follows may outlast the approval, which was given in time
    covers = partial(judge_approval, simulated=landlord.simulated, irreversible=not plan.verb.reversible)
    uncovered = "the approval does not cover this; nothing was done"
    _require(covers(plan.readings, approval, approved_unix), "approval.refused", uncovered)
    plan = _look_again(home, lease, wanted, report)
    _require(covers(plan.readings, approval, approved_unix), "approval.refused", uncovered)
    if plan.readings.doubts:
        home.ledger.append(
            "facts_checked", lease=lease.id, said=wanted.facts_checked, doubts=list(plan.readings.doubts)
        )
    books.record_intent(home.ledger, lease.id, plan.verb.name, approval)
    if approval.key is not None:
        report(Note("approved", f"approved by {approval.by}, signed with the {approval.key.words}"))
    return _act(home, lease, plan, landlord, report)


def _look_again(home: Home, lease: Lease, wanted: Wanted, report: Report) -> TeardownPlan:
    """Read everything once more right before the act; the box reads in full all home files that the act deletes.

    A person may have thought for minutes, and times prove nothing about what was written meanwhile.
    """
    plan = plan_teardown(home, lease, wanted, Look(in_full=True, report=report))
    _require(plan.verdict, "teardown.refused", "something changed while the approval was given; nothing was done")
    return plan


def _hush(home: Home, lease: Lease, plan: TeardownPlan) -> None:
    """Silence the box's reminders: the person is here. Best effort, since the box may already be going."""
    with contextlib.suppress(LeaseholdError), box_of(home, lease).connect() as engine:
        for run in plan.readings.runs:
            if run.state != "absent":
                engine.hold.hush(run.run, home.ledger.home_id)


def _act(home: Home, lease: Lease, plan: TeardownPlan, landlord: Landlord, report: Report) -> BoxState:
    if not landlord.simulated:
        _hush(home, lease, plan)
    state = landlord.act(lease, plan.verb)
    deadline = time.monotonic() + _POLL_LIMIT_S
    rented = landlord if isinstance(landlord, ApiLandlord) else None  # which has polled to the end itself
    while state is BoxState.HELD and rented is None and time.monotonic() < deadline:
        time.sleep(1)
        state = landlord.poll(lease)
    if state is BoxState.GONE:
        for line in not_home_lines(not_home(plan.readings, plan.left_behind), plan.deletes):
            report(Note("given_up", line))
        _end(home, lease, plan.verb.name, rented, report)
    elif state is BoxState.PARKED:
        _park(home, lease, plan, report)
    elif state is BoxState.ASKED:
        home.ledger.append("verb_asked", lease=lease.id, verb=plan.verb.name)
        lines = "\n".join(f"  {n}. {step}" for n, step in enumerate(steps(lease, plan.verb), 1))
        lost = not_home(plan.readings, plan.left_behind)
        where = where_results_are(all_promised_home(plan.readings), lost, plan.deletes)
        report(Note("by_hand", f"{where}. Now stop the meter by hand:\n{lines}\nuntil then it keeps counting"))
    else:
        _record_unknown(home, lease, plan, state, report)
    if rented is not None and state in (BoxState.GONE, BoxState.PARKED):
        say_bill(home, lease, rented, report)
    return state


def _end(home: Home, lease: Lease, verb: str, rented: ApiLandlord | None, report: Report) -> None:
    """Close the lease of a box that is gone, unless its landlord shows that something of it goes on billing."""
    if rented is None or not leave_behind(home, lease, rented, report):
        _close(home, lease, verb, report)


def _record_unknown(home: Home, lease: Lease, plan: TeardownPlan, state: BoxState, report: Report) -> None:
    """Record that the verb's effect is unknown: the lease goes on billing, and clocks that it may have started run."""
    EarlyCalls(home.path).forget()
    rate = f" at {lease.price}" if lease.price else ""
    home.ledger.append("verb_unknown", lease=lease.id, verb=plan.verb.name, state=state.value)
    asked = f"`{plan.verb.name}` was asked for and {lease.box}"
    if state is not BoxState.UNKNOWN:
        last = "Stop it in the console" if plan.verb.by != "api" else f"lease down {lease.id} goes on with it"
        report(Note("unknown", f"{asked} is still there ({state.value}): it bills{rate}. {last}"))
        return
    report(Note("unknown", f"{asked} no longer answers. Whether it is off is unknown: only the console shows that"))
    for line in (*plan.clocks, *(f"still billed: {item}" for item in plan.verb.still_billed)):
        report(Note("danger", f"  if it is off: {line}"))
    look = f"Once the console shows it off: lease down {lease.id} --stopped"
    report(Note("by_hand", f"  until you have looked it counts as billing{rate}. {look}"))


def _park(home: Home, lease: Lease, plan: TeardownPlan, report: Report) -> None:
    EarlyCalls(home.path).forget()
    with home.ledger.transaction() as append:
        append("verb_done", lease.id, "", {"verb": plan.verb.name})
        append("lease_parked", lease.id, "", {"verb": plan.verb.name, "said": "the platform reports it stopped"})
    cost = cost_text(home, lease, time.time())
    report(Note("closed", f"{lease.id} is parked by `{plan.verb.name}`" + (f"; so far it cost {cost}" if cost else "")))
    for line in (*plan.clocks, *(f"still billed: {item}" for item in plan.verb.still_billed)):
        report(Note("danger", f"  {line}"))


def _close(home: Home, lease: Lease, verb: str, report: Report) -> None:
    EarlyCalls(home.path).forget()
    twins, rental = twins_of(home, lease), rentals.rental_of_lease(home.ledger, lease.id)
    with home.ledger.transaction() as append:
        append("verb_done", lease.id, "", {"verb": verb})
        append("lease_closed", lease.id, "", {"verb": verb})
        if rental is not None:
            append("rent_ended", lease.id, "", {"label": rental.label, "how": verb})
    close_twins(home, twins, verb, report)
    cost = cost_text(home, lease, time.time())
    report(Note("closed", f"{lease.id} is closed by `{verb}`" + (f"; it cost {cost}" if cost else "")))


def _require(verdict: Verdict, code: str, message: str) -> None:
    if verdict.passed:
        return
    seen, hint = verdict.objections("lease down … --plan shows all it read")
    raise Refusal(code, message, seen=seen, hint=hint)
