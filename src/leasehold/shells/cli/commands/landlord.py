"""The offers command, those under `landlord`, and box resume: call the api, render its answer."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from leasehold.api import opening, renting
from leasehold.errors import LinkError
from leasehold.shells.cli import output
from leasehold.shells.cli.output import Screen
from leasehold.shells.cli.screens import landlord_tables


def offers(args: Namespace) -> int:
    """lease offers"""
    limits = {
        "spot": args.spot,
        "max_price": args.max_price,
        "regions": args.region,
        "reliability": args.reliability,
        "price": args.price,
    }
    found = renting.offers(opening.open_home(), Path(args.job), args.on, limits)
    if args.json:
        output.as_json(found)
        return 0
    rows = landlord_tables.offer_rows(found["offers"])
    if rows:
        output.table(rows, landlord_tables.OFFER_HEAD)
    else:
        output.say("no landlord offers a box that fits this job and these limits now")
    for line in landlord_tables.offer_notes(found):
        output.say(line)
    return 0 if rows else 3


def login(args: Namespace) -> int:
    """lease landlord login"""
    page = renting.landlord_key_page(args.name)
    if sys.stdin.isatty():
        import getpass

        value = getpass.getpass(f"API key of {args.name} ({page}): ")
    else:
        value = sys.stdin.readline()
    kept = renting.landlord_login(opening.open_home(), args.name, value)
    if args.json:
        output.as_json(kept)
        return 0
    balance = f", balance {kept['balance']}" if kept["balance"] else ""
    output.say(f"{args.name} knows this key: {kept['account']}{balance}; kept in {kept['kept_in']}")
    output.say("Next: lease offers, or lease run --on " + args.name)
    return 0


def list_(args: Namespace) -> int:
    """lease landlord list"""
    rows = renting.landlord_list(opening.open_home())
    if args.json:
        output.as_json({"landlords": rows})
        return 0
    output.table(*landlord_tables.landlords(rows))
    if not any(row["key"] for row in rows):
        output.say(f"no key yet: lease landlord login {rows[0]['landlord']}")
    return 0


def check(args: Namespace) -> int:
    """lease landlord check"""
    rows = renting.landlord_check(opening.open_home(), args.names)
    if args.json:
        output.as_json({"landlords": rows})
    else:
        output.lines(map(landlord_tables.checked, rows))
    return 0 if all(row["ok"] for row in rows) else max(row["error"]["exit_code"] for row in rows if not row["ok"])


def logout(args: Namespace) -> int:
    """lease landlord logout"""
    gone = renting.landlord_logout(opening.open_home(), args.name)
    if args.json:
        output.as_json({"landlord": args.name, "removed_from": gone})
    else:
        output.say(f"forgotten: {', '.join(gone)}" if gone else f"no key of {args.name} is kept here")
    return 0


def sweep(args: Namespace) -> int:
    """lease landlord sweep"""
    found = renting.landlord_sweep(opening.open_home(), args.names, Screen(args.json).report)
    if args.json:
        output.as_json(found)
    else:
        rows = landlord_tables.holding_rows(found["holdings"])
        if rows:
            output.table(rows, landlord_tables.HOLDING_HEAD)
        for line in landlord_tables.sweep_notes(found):
            output.say(line)
    return LinkError.exit_code if found["unknown"] else 0


def allow(args: Namespace) -> int:
    """lease landlord allow"""
    home = opening.open_home()
    if args.revoke:
        count = renting.landlord_revoke(home)
        output.as_json({"revoked": count}) if args.json else output.say(
            "withdrawn: nothing is rented without a question now" if count else "there was no standing approval"
        )
        return 0
    given: list[dict[str, Any]] = (
        [renting.landlord_allow(home, args.max_price, args.count, args.how_long, args.on)]
        if args.max_price
        else renting.landlord_allowed(home)
    )
    if args.json:
        output.as_json({"allowed": given})
        return 0
    output.lines(map(landlord_tables.allowance, given))
    if not given:
        output.say("no standing approval: every rent asks a person")
    return 0


def adopt(args: Namespace) -> int:
    """lease landlord adopt"""
    rental = renting.landlord_adopt(opening.open_home(), args.name, args.id, Screen(args.json).report)
    if args.json:
        output.as_json(rental)
    else:
        output.say(f"{rental['box']} is on your books as {rental['lease']}. Next: lease down {rental['box']} --plan")
    return 0


def delete(args: Namespace) -> int:
    """lease landlord delete"""
    renting.landlord_delete(opening.open_home(), args.name, args.id, Screen(args.json).report)
    if args.json:
        output.as_json({"landlord": args.name, "deleted": args.id})
    else:
        output.say(f"{args.name} no longer has {args.id}")
    return 0


def probe(args: Namespace) -> int:
    """lease landlord probe"""
    if not args.yes:
        output.say(
            f"this rents the cheapest box of {args.name}, stops it, starts it and looks; it costs its first minutes"
        )
        output.say(f"Next: lease landlord probe {args.name} --yes   (asks you for the price)")
        return 3
    found = renting.landlord_probe(opening.open_home(), args.name, Screen(args.json).report)
    if args.json:
        output.as_json(found)
        return 0
    output.lines(landlord_tables.probed(found))
    output.say(f"{found['box']} still bills. Next: lease down {found['box']}")
    return 0


def box_resume(args: Namespace) -> int:
    """lease box resume"""
    entry = renting.box_resume(opening.open_home(), args.box, args.bid, Screen(args.json).report)
    if args.json:
        output.as_json(entry)
    else:
        output.say(f"{entry['name']} answers. Next: the same lease run continues what it held")
    return 0
