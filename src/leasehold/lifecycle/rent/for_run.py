"""Rent a box for a run: what it would cost, a yes, the rent, and the wait until the box answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leasehold.errors import LandlordError, LeaseholdError, Refusal, UserError
from leasehold.kit.text.units import ago
from leasehold.ledger import box_book
from leasehold.lifecycle.approval.approve import write_request
from leasehold.lifecycle.approval.phrase import terminal_ask
from leasehold.lifecycle.box.dangers import say_dangers
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.records.orders import RentOptions
from leasehold.lifecycle.rentals.balances import note_balance
from leasehold.lifecycle.rentals.desk import Desk
from leasehold.lifecycle.rentals.markets import opener
from leasehold.lifecycle.rentals.settle import settle_all
from leasehold.lifecycle.tell.signers import allowed_lines
from leasehold.model.job.job import Job
from leasehold.model.lease.box import BoxEntry
from leasehold.model.lease.rental import Rental
from leasehold.model.run.note import Note, Report
from leasehold.model.values.money import HourlyPrice

from .allowance import Approve, RentAsk, Yes, by_signature, request_for, standing_yes, typed
from .key import public_key
from .offers import Offers, OfferWish, Priced, fitting, offers_for
from .rent_box import RentWish, rent_one, rented_for, words
from .wait_ready import wait_ready

_ASK_AGAIN_S = 60.0
_SHOWN = 3
_NO_TERMINAL = (
    "a person types it; from a script: lease run … --rent-request FILE --max-price 2USD/h, have it signed, then "
    "--rent-approval FILE; or once for several: lease landlord allow --max-price 1USD/h --count 3 --for 7d"
)


def box_for_run(
    home: Home, job: Job, run: str, markets: Sequence[str], options: RentOptions, report: Report
) -> BoxEntry:
    """Return the box that is rented for a run, met and pinned: the one it has, one of a lost answer, or a new one."""
    desk = Desk(home, opener(home), report)
    markets = _with_keys(desk, markets)
    settle_all(desk)
    rental = rented_for(desk, run)
    if rental is None:
        rental = _rent(desk, job, run, tuple(markets), options)
    else:
        report(Note("rent", f"{rental.box} is rented for {run} already; going on with it"))
    return wait_ready(desk, rental)


def _with_keys(desk: Desk, markets: Sequence[str]) -> list[str]:
    """Return the landlords that can be asked at all; raise if there is none."""
    usable, problems = [], list[LeaseholdError]()
    for name in markets:
        try:
            desk.open(name)
            usable.append(name)
        except LeaseholdError as error:
            problems.append(error)
    if not usable:
        raise problems[0]
    for problem in problems:
        desk.report(Note("warning", f"{problem.message}; {problem.hint}"))
    return usable


def _rent(desk: Desk, job: Job, run: str, markets: tuple[str, ...], options: RentOptions) -> Rental:
    most = HourlyPrice.parse(options.max_price) if options.max_price else None
    if options.wait_s and most is None:
        raise UserError("rent.no_ceiling", "--wait needs a price ceiling", hint="--wait 6h --max-price 2USD/h")
    wish = RentWish(run, markets, public_key(desk.home), most, options.ends_after_s)
    stated = HourlyPrice.parse(options.price) if options.price else None
    told = OfferWish(options.spot, most, options.regions, stated=stated)
    approve = _remembered(lambda ask: _approve(desk, ask, options))
    if options.request:
        _write_request(RentAsk(run, markets, _ceiling(most)), Path(options.request))
    if options.wait_s:  # a person is asked now, not when a card turns up at night
        asked = RentAsk(run, markets, _ceiling(most))
        if standing_yes(desk.home, asked, desk.clock()) is None:
            approve(asked)
    deadline = desk.clock() + options.wait_s
    while True:
        offers = _allowed(desk, job, markets, told)
        _say_offers(desk, offers)
        try:
            rental = rent_one(desk, replace(wish, passed_over=_whys(offers)), offers.found, approve)
            break
        except Refusal as error:
            left_s = deadline - desk.clock()
            if error.code != "rent.no_offer" or left_s <= 0:
                raise
            text = f"none fits now; asking again for {ago(left_s)} ({', '.join(markets)} up to {most})"
            desk.report(Note("rent_wait", text))
            desk.sleep(min(_ASK_AGAIN_S, left_s))
        except LandlordError as error:
            if desk.clock() >= deadline:
                raise
            desk.report(Note("warning", f"{error.message}; asking again"))
            desk.sleep(_ASK_AGAIN_S)
    for market, balance in offers.balances:
        if market == rental.market:
            note_balance(desk, rental, balance)
    return rental


def _allowed(desk: Desk, job: Job, markets: tuple[str, ...], told: OfferWish) -> Offers:
    """Return the offers that the plan gate allows; report who did not answer."""
    offers = offers_for(desk, job, markets, told)
    for name, silent in offers.silent:
        desk.report(Note("warning", f"{name} did not answer: {silent}"))
    refused = next((one for one in offers.found if not one.fits), None)
    allowed = fitting(offers)
    if refused is not None and not allowed.found:
        seen, hint = refused.planned.verdict.objections("lease offers shows each")
        raise Refusal("rent.gate", f"the plan gate refuses every offer of {', '.join(markets)}", seen=seen, hint=hint)
    return allowed


def _say_offers(desk: Desk, offers: Offers) -> None:
    """Show the first offers with the price of the whole job; once, what the first one's platform does to data."""
    for priced in offers.found[:_SHOWN]:
        desk.report(Note("offer", offer_line(priced), priced.as_dict()))
    first = offers.found[0].profile if offers.found else None
    if first is not None and not box_book.introduced(desk.ledger, first.landlord, first.id):
        say_dangers(first, desk.report, desk.clock())
        box_book.introduce(desk.ledger, first.landlord, first.id)


def offer_line(priced: Priced) -> str:
    """Describe an offer, its hour with storage, and the whole job."""
    unknown = "the job names no `expect`" if priced.hour is not None else "the whole job cannot be priced"
    whole = f"the whole job {priced.total.spelled}" if priced.total is not None else unknown
    lasts = priced.planned.sheet.balance_lasts_s
    balance = f"; the balance lasts {ago(lasts)}" if lasts is not None else ""
    hour = f"{priced.hour.spelled} an hour" if priced.hour is not None else "no price for an hour"
    head = f"{words(priced)}, {priced.disk_gb} GB disk, {hour}"
    return f"{head}, {whole}{balance}; survives {priced.survives}"


def _whys(offers: Offers) -> list[str]:
    return [f"{name}: {silent}" for name, silent in offers.silent]


def _remembered(approve: Approve) -> Approve:
    """Ask a person once for each question, however often the landlords are asked."""
    given: dict[str, Yes] = {}

    def ask_once(ask: RentAsk) -> Yes:
        if ask.evidence not in given:
            given[ask.evidence] = approve(ask)
        return given[ask.evidence]

    return ask_once


def _approve(desk: Desk, ask: RentAsk, options: RentOptions) -> Yes:
    if options.approval:
        path = Path(options.approval)
        return by_signature(desk.home, ask, path, allowed_lines(desk.ledger), time.time())
    return typed(ask, lambda question: terminal_ask(question, _NO_TERMINAL), time.time())


def _ceiling(most: HourlyPrice | None) -> HourlyPrice:
    if most is None:
        raise UserError("rent.no_ceiling", "a request for signing needs a price ceiling", hint="--max-price 2USD/h")
    return most


def _write_request(ask: RentAsk, path: Path) -> None:
    """Write the request and stop: the person who signs is elsewhere."""
    write_request(request_for(ask, time.time()), path)
    raise Refusal(
        "rent.to_be_signed",
        f"nothing was rented yet: {path} asks for one box from {', '.join(ask.markets)}, {ask.phrase}",
        hint=f"sign it within 15 minutes: ssh-keygen -Y sign -n leasehold-approval -f KEY {path}\n"
        f"then the same command with --rent-approval {path} in place of --rent-request",
    )
