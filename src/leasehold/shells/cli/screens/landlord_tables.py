"""Tables of offers, landlords and of what bills there."""

from __future__ import annotations

import time
from typing import Any

from leasehold.model.values.money import HourlyPrice
from leasehold.model.values.wording import ago, utc_minute

OFFER_HEAD = ["LANDLORD", "CARD", "MEMORY", "WHERE", "PRICE", "HOUR+DISK", "WHOLE JOB", "SURVIVES", "STOCK"]
HOLDING_HEAD = ["LANDLORD", "WHAT", "STATE", "BILLS", "SINCE", "HELD BY", "LABEL"]
_HELD = {
    "orphan": "NOBODY (asked for by this home)",
    "other home": "another home of Leasehold",
    "not ours": "not made by Leasehold",
}


def offer_rows(offers: list[dict[str, Any]]) -> list[list[str]]:
    """Format offers, cheapest whole job first; what the plan gate refuses is marked."""
    return [
        [
            one["landlord"] + (" (refused)" if not one["fits"] else ""),
            f"{one['count']} x {one['card']}" + (" spot" if one["spot"] else ""),
            f"{one['card_gb']} GB" if one["card_gb"] else "?",
            _short(one["region"], 28) or "?",
            one["price"] or "not told",
            _money(one["hour"]) if one["hour"] is not None else "?",
            _money(one["total"]) if one["total"] is not None else "?",
            one["survives"],
            str(one["stock"]) if one["stock"] not in (None, "") else "?",
        ]
        for one in offers
    ]


def offer_notes(found: dict[str, Any]) -> list[str]:
    """Format what belongs below the table: when prices were read, who did not answer, what the gate refuses."""
    offers = found["offers"]
    lines = [f"prices as read at {min(one['read_at'] for one in offers)}; nothing is converted"] if offers else []
    if any(one["total"] is None and one["hour"] is not None for one in offers):
        lines.append("the whole job has no price: the job file names no `expect`")
    lines += [f"no answer from {one['landlord']}: {one['why']}" for one in found["no_answer"]]
    refused = {(one["landlord"], why) for one in offers if not one["fits"] for why in one["against"]}
    lines += [f"refused at {name}: {why}" for name, why in sorted(refused)]
    first = next((one for one in offers if one["fits"]), None)
    if first is not None:
        lines.append(f"Next: lease run --on {first['landlord']}   (asks you before anything is rented)")
    return lines


def landlords(rows: list[dict[str, Any]]) -> tuple[list[list[str]], list[str]]:
    """Format the landlords with an API."""
    shown = [
        [row["landlord"], row["title"], row["key"] or "none", ", ".join(row["held"]) or "-", row["key_page"]]
        for row in rows
    ]
    return shown, ["NAME", "LANDLORD", "KEY IN", "HELD", "KEYS ARE MADE AT"]


def checked(row: dict[str, Any]) -> str:
    """Format what one landlord said of a key."""
    if not row["ok"]:
        return f"{row['landlord']}: {row['error']['message']}"
    balance = f"balance {row['balance']}" if row["balance"] else "its API tells no balance"
    ahead = f"; its clock is {row['clock_ahead_s']:+.0f} s from ours" if abs(row["clock_ahead_s"]) > 60 else ""
    return f"{row['landlord']}: {row['account']}, {balance}{ahead}"


def holding_rows(holdings: list[dict[str, Any]]) -> list[list[str]]:
    """Format what bills, dearest first."""
    shown = sorted(holdings, key=lambda one: -float(HourlyPrice.parse(one["rate"]).amount if one["rate"] else 1e9))
    return [
        [
            one["landlord"],
            f"{one['kind']} {one['id'].partition('/')[2] or one['id']}",
            one["state"],
            rate(one["rate"]),
            ago(time.time() - one["made_unix"]) if one["made_unix"] is not None else "?",
            one["lease"] or _HELD[one["whose"]],
            _short(one["label"], 32),
        ]
        for one in shown
    ]


def sweep_notes(found: dict[str, Any]) -> list[str]:
    """Format what belongs below the table: who did not answer, balances, and what to do about orphans."""
    lines = [f"what {one['landlord']} bills is UNKNOWN: {one['why']}" for one in found["unknown"]]
    silent = {one["landlord"] for one in found["unknown"]}
    empty = set(found["landlords"]) - silent - {one["landlord"] for one in found["holdings"]}
    lines += [f"{name}: its complete list is empty; nothing bills there" for name in sorted(empty)]
    lines += [f"balance at {name}: {amount}" for name, amount in sorted(found["balances"].items()) if amount]
    for one in found["holdings"]:
        if one["whose"] == "orphan":
            do = "adopt" if one["kind"] == "box" else "delete"
            lines.append(f"Next: lease landlord {do} {one['landlord']} {one['id']}")
    return lines


def allowance(row: dict[str, Any]) -> str:
    """Format one standing approval for rents."""
    where = ", ".join(row["markets"]) or "every landlord"
    until = utc_minute(float(row["until_unix"]))
    return (
        f"{row['left']} of {row['count']} boxes left, up to {row['most']}, until {until}, at {where} (by {row['by']})"
    )


def probed(found: dict[str, Any]) -> list[str]:
    """Format what a probe saw, and where it was written."""
    lines = []
    for tier, kept in found["survives_stop"].items():
        otherwise = "; THE PROFILE SAYS OTHERWISE" if tier in found["differs"] else ""
        lines.append(f"{tier}: {'survives' if kept else 'does NOT survive'} a stop{otherwise}")
    where = found["written"]
    return [
        *lines,
        f"written: {where}" if where else f"you have an overlay already; add this to it:\n{found['overlay']}",
    ]


def rate(text: str | None) -> str:
    """Format an hourly rate to a tenth of a cent."""
    if text is None:
        return "unknown"
    price = HourlyPrice.parse(text)
    return f"{price.amount:.3f} {price.currency}/h"


def _money(amounts: dict[str, str]) -> str:
    return " + ".join(f"{float(amount):.2f} {currency}" for currency, amount in amounts.items())


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
