"""Verbs of landlords with an API: keys, offers, what they bill, standing approvals, adoption, storage."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError, UserError
from leasehold.lifecycle.home.home import Home, person
from leasehold.model.run.note import Report

if TYPE_CHECKING:
    from leasehold.lifecycle.rent.allowance import RentAsk, Yes
    from leasehold.lifecycle.rentals.desk import Desk
    from leasehold.model.values.money import HourlyPrice

_SWEEP_S = 60.0
_BY_PERSON = "a person types it on a terminal; there is no other way"


def landlord_login(home: Home, name: str, value: str) -> dict[str, Any]:
    """Check a key with its landlord, then keep it; a key that does not work is not kept."""
    from leasehold.lifecycle.rentals.first_look import logins
    from leasehold.platforms.landlords.keys import Key, KeyStore, checked
    from leasehold.platforms.landlords.markets import open_market, vendor

    entry = vendor(name)
    key = checked(value.strip(), "what was typed")
    account = open_market(name, Key(key, "the terminal"), os.environ).account()
    where = KeyStore(home.path, os.environ).store(entry.name, key)
    logins(home).mkdir(parents=True, exist_ok=True)
    (logins(home) / name).touch()
    return {"landlord": name, "account": account.name or account.id, "kept_in": where, "balance": _balance(account)}


def landlord_key_page(name: str) -> str:
    """Return where a person finds the landlord's key."""
    from leasehold.platforms.landlords.markets import vendor

    return vendor(name).key_page


def landlord_list(home: Home) -> list[dict[str, Any]]:
    """List the landlords with an API, where their keys are, and what this home holds of each; ask nobody."""
    from leasehold.ledger import rentals
    from leasehold.model.lease.rental import RentalState
    from leasehold.platforms.landlords.keys import KeyStore
    from leasehold.platforms.landlords.markets import VENDORS

    keys = KeyStore(home.path, os.environ)
    held = rentals.rentals(home.ledger, RentalState.HELD, RentalState.INTENDED)
    rows = []
    for entry in VENDORS:
        key = keys.find(entry.name, entry.variables)
        mine = [one.box or one.label for one in held if one.market == entry.name]
        row = {"landlord": entry.name, "title": entry.title, "key": key.where if key else "", "held": mine}
        rows.append({**row, "variables": list(entry.variables), "key_page": entry.key_page})
    return rows


def landlord_check(home: Home, names: str) -> list[dict[str, Any]]:
    """Ask each landlord with a key who we are and what the account holds."""
    from leasehold.lifecycle.rentals.markets import asked_for

    desk, rows = _desk(home), []
    for name in asked_for(home, names):
        try:
            account = desk.open(name).account()
        except LeaseholdError as error:
            rows.append({"landlord": name, "ok": False, "error": error.as_dict()})
            continue
        said = {"landlord": name, "ok": True, "account": account.name or account.id, "balance": _balance(account)}
        rows.append({**said, "clock_ahead_s": round(account.vendor_ahead_s, 1)})
    return rows


def landlord_logout(home: Home, name: str) -> list[str]:
    """Forget a landlord's key; refuse while this home holds a box there, for nobody could give it back."""
    from leasehold.errors import Refusal
    from leasehold.ledger import rentals
    from leasehold.lifecycle.rentals.first_look import logins
    from leasehold.model.lease.rental import RentalState
    from leasehold.platforms.landlords.keys import KeyStore
    from leasehold.platforms.landlords.markets import vendor

    entry = vendor(name)
    held = [one for one in rentals.rentals(home.ledger, RentalState.HELD, RentalState.INTENDED) if one.market == name]
    if held:
        what = ", ".join(one.box or one.label for one in held)
        hint = f"lease down {held[0].box}" if held[0].box else "lease landlord sweep"
        raise Refusal("landlord.in_use", f"{name} holds {what} for this home; without the key it bills on", hint=hint)
    (logins(home) / name).unlink(missing_ok=True)
    return KeyStore(home.path, os.environ).remove(entry.name)


def landlord_sweep(home: Home, names: str, report: Report) -> dict[str, Any]:
    """Read everything that bills at each landlord and compare it with the ledger; a failed look is unknown."""
    from leasehold.lifecycle.rentals.first_look import forget_look
    from leasehold.lifecycle.rentals.look import ask_all, carry_in, prove_missing
    from leasehold.lifecycle.rentals.markets import asked_for, in_use

    desk = _desk(home, report)
    chosen = asked_for(home, names) if names else in_use(home) or asked_for(home, "")
    look = carry_in(desk, ask_all(desk, chosen, _SWEEP_S, accounts=True))
    prove_missing(desk, look)
    forget_look(home)
    return {
        "landlords": chosen,
        "holdings": [one.as_dict() for one in look.found],
        "unknown": [{"landlord": name, "why": error} for name, error in look.unknown],
        "balances": {name: _balance(account) for name, account in look.accounts},
    }


def offers(home: Home, job_file: Path, names: str, limits: dict[str, Any]) -> dict[str, Any]:
    """List what could be rented now for a job, cheapest whole job first, and who did not answer."""
    from leasehold.lifecycle.project.job_yaml import read_job
    from leasehold.lifecycle.rent.offers import OfferWish, offers_for
    from leasehold.lifecycle.rentals.markets import asked_for

    job = read_job(job_file)
    desk, markets = _desk(home), asked_for(home, names)
    wish = OfferWish(
        limits.get("spot", False), _price(limits.get("max_price", "")), tuple(limits.get("regions", ())),
        limits.get("reliability", 0.0), stated=_price(limits.get("price", "")),
    )  # fmt: skip
    found = offers_for(desk, job, markets, wish)
    silent = [{"landlord": name, "why": error} for name, error in found.silent]
    offered = [one.as_dict() for one in found.found]
    return {"job": job.name, "offers": offered, "no_answer": silent, "balances": dict(found.balances)}


def landlord_allow(home: Home, price: str, count: int, how_long: str, names: str) -> dict[str, Any]:
    """Record a person's typed standing yes to rents: up to a price, a count and a date."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.rent.allowance import Allowance, grant
    from leasehold.model.values.money import HourlyPrice
    from leasehold.model.values.units import parse_duration
    from leasehold.platforms.landlords.markets import vendor

    try:
        until = time.time() + parse_duration(how_long)
    except ValueError as error:
        raise UserError("rent.allow_bad_duration", str(error), hint="--for 7d") from None
    markets = tuple(vendor(name).name for name in names.split(",") if name)
    wanted = Allowance(secrets.token_hex(8), HourlyPrice.parse(price), count, until, person(), 0, markets)
    return grant(home, wanted, lambda text: terminal_ask(text, _BY_PERSON), time.time()).as_dict()


def landlord_allowed(home: Home) -> list[dict[str, Any]]:
    """List the standing approvals for rents that hold now."""
    from leasehold.lifecycle.rent.allowance import allowances

    return [one.as_dict() for one in allowances(home, time.time())]


def landlord_revoke(home: Home) -> int:
    """Withdraw every standing approval for rents."""
    from leasehold.lifecycle.rent.allowance import revoke

    return revoke(home)


def landlord_adopt(home: Home, name: str, id: str, report: Report) -> dict[str, Any]:
    """Put a box that Leasehold asked for on this home's books."""
    from leasehold.lifecycle.rent.by_hand import adopt_box
    from leasehold.lifecycle.rentals.first_look import forget_look

    rental = adopt_box(_desk(home, report), name, id)
    forget_look(home)
    return rental.as_dict()


def landlord_delete(home: Home, name: str, id: str, report: Report) -> None:
    """Delete storage that a released box of this home left."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.rent.by_hand import delete_storage

    delete_storage(_desk(home, report), name, id, lambda text: terminal_ask(text, _BY_PERSON))


def landlord_probe(home: Home, name: str, report: Report) -> dict[str, Any]:
    """Rent the cheapest box after a typed yes, and find out what its disks survive; `lease down` then ends it."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.rent.allowance import typed
    from leasehold.lifecycle.rent.probe import probe, ssh_shell
    from leasehold.platforms.landlords.markets import vendor

    def approve(ask: RentAsk) -> Yes:
        return typed(ask, lambda text: terminal_ask(text, _BY_PERSON), time.time())

    return probe(_desk(home, report), vendor(name).name, approve, ssh_shell(home)).as_dict()


def box_resume(home: Home, word: str, bid: str, report: Report) -> dict[str, Any]:
    """Start a parked rented box again, and wait until it answers."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.rent.by_hand import resume_box
    from leasehold.lifecycle.rent.wait_ready import wait_ready

    from .ending import lease_named

    desk = _desk(home, report)
    rental = resume_box(desk, lease_named(home, word), lambda text: terminal_ask(text, _BY_PERSON), _price(bid))
    return wait_ready(desk, rental).as_dict()


def _desk(home: Home, report: Report | None = None) -> Desk:
    from leasehold.lifecycle.rentals.desk import Desk
    from leasehold.lifecycle.rentals.markets import opener
    from leasehold.model.run.note import silent

    return Desk(home, opener(home), report or silent)


def _price(text: str) -> HourlyPrice | None:
    from leasehold.model.values.money import HourlyPrice

    return HourlyPrice.parse(text) if text else None


def _balance(account: Any) -> str:
    from leasehold.lifecycle.rentals.balances import balance_text

    return balance_text(account)
