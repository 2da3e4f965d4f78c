"""Choose the box for a job when the person names none: try its candidates in order and report a reason for each.

A box that this home may already have started the run on is never skipped for being silent: unknown is not absent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from leasehold.errors import BoxError, LeaseholdError, LinkError, Refusal
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books, box_book, rentals
from leasehold.lifecycle.box.platform_choice import of_address, readings, unnamed
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.launch.launch import Met, refuse_company
from leasehold.lifecycle.launch.open_box import connect
from leasehold.lifecycle.launch.run_records import generation
from leasehold.lifecycle.machine.box import Box, closed_on_failure, find_box, only_plans
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.preflight import gatekeeper
from leasehold.lifecycle.preflight.plan_inputs import judge_on_box, profile_on
from leasehold.lifecycle.project.code_tree import CodeTree
from leasehold.lifecycle.project.resolve import resolve
from leasehold.lifecycle.records.orders import RunOrder
from leasehold.lifecycle.rentals.markets import is_landlord
from leasehold.model.job.job import Job
from leasehold.model.lease.box import LOCAL, SSH, BoxEntry
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.rental import RentalState
from leasehold.model.platform.plan_sheet import Wishes
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import Plan
from leasehold.model.run.verdict import Outcome


@dataclass(frozen=True)
class Chosen:
    """The chosen box, already connected; and the lease on which the run was begun but is not, if any."""

    box: Box
    met: Met | None = None
    absent_on: str = ""


def choose(home: Home, order: RunOrder, job_tree: tuple[Job, CodeTree], report: Report) -> Chosen:
    """Return the box where the run is, or else the first candidate that answers and passes the audit."""
    job, tree = job_tree
    order = replace(order, prepared=job_tree)
    plan = resolve(
        job,
        tree.sha256,
        home.shelf(tree.folder).load(LOCAL),
        generation(home, job, tree, again=order.again),
        identity=tree.identity,
    )
    words = (order.on,) if order.on else job.candidates
    boxes = list(candidate_boxes(home, words, order.root))
    begun = _begun_on(home, plan.run)
    if begun is not None:
        there = _where_it_began(home, begun, plan, [box.name for _, box in boxes if isinstance(box, Box)], report)
        if there is not None:
            return there
    passed_over: list[str] = []
    for word, box in boxes:
        met = _try(home, box, plan, order, report) if isinstance(box, Box) else box
        if isinstance(met, Met) and isinstance(box, Box):
            report(Note("candidate", f"candidate {word}: taken", {"candidate": word}))
            return Chosen(box, met, begun.id if begun else "")
        passed_over.append(f"{word}: {met}")
        home.ledger.append("candidate_passed_over", run=plan.run, candidate=word, why=str(met))
        report(Note("candidate", f"candidate {word} is passed over: {met}", {"candidate": word, "why": str(met)}))
    if landlords := [word for word in words if is_landlord(word)]:
        return _rented(home, landlords, plan, order, report)
    raise Refusal(
        "candidates.none",
        f"none of the job's candidates can take {job.name}; nothing was launched",
        seen="\n".join(passed_over),
        hint="lease run --on BOX takes one of your choice; lease box list shows those you have",
    )


def _rented(home: Home, landlords: list[str], plan: Plan, order: RunOrder, report: Report) -> Chosen:
    """Rent a box for the run; one that then does not take the job bills, and the refusal says so."""
    from leasehold.lifecycle.rent.for_run import box_for_run  # few runs rent

    options = replace(order.rent, spot=order.rent.spot or order.spot)
    entry = box_for_run(home, plan.job, plan.run, landlords, options, report)
    box = find_box(home, entry.name, root=order.root)
    met = _try(home, box, plan, replace(order, spot=False), report)
    if isinstance(met, Met):
        return Chosen(box, met)
    raise Refusal(
        "rent.unfit",
        f"{box.name} was rented for {plan.run} and does not take it; it bills {box.price}",
        seen=met,
        hint=f"lease down {box.name} gives it back; the same command then takes another offer",
    )


def candidate_boxes(home: Home, words: tuple[str, ...], root: str) -> Iterator[tuple[str, Box | str]]:
    """Expand the candidates: a platform stands for its boxes in the book; a word that matches none is reported."""
    seen: set[str] = set()
    for word in words:
        names, shown = [word], one_line(word)
        if word != LOCAL and (is_landlord(word) or word in home.shelf().names()):
            names = [entry.name for entry in box_book.entries(home.ledger) if _is_there(home, entry, word)]
            if not names and is_landlord(word):
                continue  # one is rented if none of the others takes the job
            if not names and not home.shelf().load(word).runnable:
                yield shown, f"this version cannot start work there ({only_plans(word)})"
            elif not names:
                yield shown, f"no box of this platform is in the book (lease box add NAME … --platform {word})"
        for name in names:
            try:
                box = find_box(home, name, root=root)
                _refuse_unnamed(home, box)
            except LeaseholdError as error:
                yield shown, _why(error)
                continue
            if box.name not in seen:
                yield (shown if name == word else f"{name} ({shown})"), box
            seen.add(box.name)


def _is_there(home: Home, entry: BoxEntry, platform: str) -> bool:
    """Return whether a box of the book is of this platform, and still held if its landlord rented it to us."""
    if not entry.landlord:
        return entry.platform == platform
    rental = rentals.rental_of_box(home.ledger, entry.name)
    return platform in (entry.platform, entry.landlord) and rental is not None and rental.state is RentalState.HELD


def _refuse_unnamed(home: Home, box: Box) -> None:
    """Refuse an ssh: address of a known platform as a candidate until a person says which platform it is."""
    if not box.name.startswith(SSH) or box.chosen:
        return
    if any(lease.box == box.name for lease in books.leases(home.ledger, only_open=True)):
        return
    if matches := of_address(home, box.transport):
        raise unnamed(matches, box.name)


def _begun_on(home: Home, run: str) -> Lease | None:
    """Return the open lease on which this home began the run, or meant to."""
    for record in books.runs(home.ledger):
        if record.run == run:
            lease = books.find_lease(home.ledger, record.lease)
            return lease if lease.open else None
    return None


def _where_it_began(home: Home, lease: Lease, plan: Plan, known: list[str], report: Report) -> Chosen | None:
    """Go back to the run's box; other candidates are tried only if it answers that it does not know the run."""
    if lease.box not in known:
        raise Refusal(
            "run.elsewhere",
            f"{plan.run} was started on {lease.box}, which is none of the job's candidates",
            hint=f"lease run --on {lease.box} continues it; lease run --again starts another on a candidate",
        )
    box = box_of(home, lease)
    try:
        engine = connect(home, box, report)
        with closed_on_failure(engine):
            absent = engine.observe.look(plan.run)["state"] == "absent"
    except (LinkError, BoxError) as error:
        raise Refusal(
            "candidates.unknown",
            f"{plan.run} was begun on {box.name}, which cannot be asked now: it may be running there",
            seen=_why(error),
            hint=f"try again when {box.name} answers\n"
            f"if {box.name} is gone for good: lease down {lease.id} --stopped, then this command again\n"
            "a second trainer beside it: lease run --on BOX --again",
        ) from None
    if absent:
        engine.close()
        return None
    report(Note("candidate", f"{plan.run} is on {box.name}; going on there", {"candidate": box.name}))
    return Chosen(box, Met(engine))


def _try(home: Home, box: Box, plan: Plan, order: RunOrder, report: Report) -> Met | str:
    """Plan on the box, connect to it and audit it; return a reason if it does not take the job."""
    project = order.job_file.absolute().parent
    shelf, profile = home.shelf(project), profile_on(home, box, project)
    asked = Wishes(order.price, order.balance, spot=order.spot)
    planned = judge_on_box(home, box, plan.job, asked, time.time(), project).verdict
    if planned.outcome is Outcome.REFUSED or not profile.runnable:
        return "; ".join(finding.what for finding in planned.against())
    try:
        engine = connect(home, box, report)
    except (LinkError, BoxError) as error:
        return _why(error)
    try:
        with closed_on_failure(engine):
            refuse_company(engine, plan, alongside=order.alongside)
            if engine.observe.look(plan.run)["state"] != "absent":  # another home began it
                return Met(engine)
            disks: list[dict[str, Any]] = []
            code_inodes = order.prepared[1].inodes if order.prepared else 0
            signs = readings(shelf, box, bool(order.price or box.price))
            wish = gatekeeper.AuditWish(False, None, disks.extend, code_inodes, signs)
            verdict, hogs = gatekeeper.audit(engine, plan.job, profile, wish)
            if verdict.outcome is not Outcome.REFUSED or "audit" in order.skip_gates:
                return Met(engine, verdict, tuple(hogs), tuple(disks))
    except (LinkError, BoxError) as error:
        return _why(error)
    engine.close()
    return "; ".join(finding.what for finding in verdict.against())


def _why(error: LeaseholdError) -> str:
    return f"{one_line(error.message)}" + (f" ({one_line(error.seen)})" if error.seen else "")
