"""Paperspace Core machines, REST v1 (https://docs.digitalocean.com/reference/paperspace/api-reference/, 2026-08-13).

Quirks, with the date of their source:
- There is no price list: a machine tells its own rate once it is made, and no unit for `storageRate` (Paperspace/cli
  openapi.ts, 2026-02-08). A storage rate far above the disk's list price is therefore read as one for a month.
- A machine can be deleted only when it is off (docs deactivate, 2026-08).
- Off, the disk, a static address, snapshots and add-ons go on billing; snapshots go with the machine (2026-08).
- A dynamic address changes at every start and can be asked for at creation only (docs public IPs, 2026-08).
- The key is added by a startup script; `autoShutdownTimeout` (hours, one week at most) is set at creation.
- 401 has the same words for a missing and a wrong key (survey, 2026-09-13).
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from leasehold.errors import AnswerLost, BadKey, LandlordDown, LandlordError, LandlordSaidNo, NoCapacity
from leasehold.facts import profiles
from leasehold.model.values.money import HourlyPrice, Money
from leasehold.platforms.landlords.answer import Answer
from leasehold.platforms.landlords.http import Ask, Door, Reply
from leasehold.platforms.landlords.http import Kind as Does
from leasehold.platforms.landlords.market import (
    Account,
    Act,
    Holding,
    Kind,
    Need,
    Offer,
    RentOrder,
    State,
)
from leasehold.platforms.landlords.wishes import fits_card, sorted_offers
from leasehold.transport.openssh import SshAddress

USER, PORT, TEMPLATE = "paperspace", 22, "ML-in-a-Box"
REGIONS = ("East Coast (NY2)", "West Coast (CA1)", "Europe (AMS1)")
CARD_GB = {  # machine types and their memory (docs machine types, 2026-08); a name may end in xN
    "P4000": 8, "P5000": 16, "P6000": 24, "RTX4000": 8, "RTX5000": 16, "A4000": 16, "A5000": 24, "A6000": 48,
    "V100": 16, "V100-32G": 32, "A100": 40, "A100-80G": 80, "H100": 80,
}  # fmt: skip
STATIC_IP = Decimal("0.0045")  # USD an hour (docs manage-public-ips, 2026-08)
_DISKS_GB = (50, 100, 250, 500, 1000, 2000)
_MOST_SHUTDOWN_H = 7 * 24
_MONTHLY_FROM = 50  # a storage rate this many times the list price is one for a month
_HOURS_PER_MONTH = 730
_PAGE, _MOST_PAGES = 50, 200
_TYPE = re.compile(r"(?P<card>.+?)(?:x(?P<count>\d+))?\Z")
_NO_CAPACITY = re.compile(r"capacity|out of stock|not available|unavailable|no .{,30}available", re.I)
STATES = {
    "off": State.PARKED,
    "starting": State.STARTING,
    "restarting": State.STARTING,
    "provisioning": State.STARTING,
    "upgrading": State.STARTING,
    "serviceready": State.STARTING,
    "ready": State.RUNNING,
    "stopping": State.PARKING,
}
_FOLDERS = {Kind.VOLUME: "/shared-drives", Kind.SNAPSHOT: "/snapshots", Kind.ADDRESS: "/public-ips"}
_DONE = {Act.PARK: (State.PARKED, State.PARKING), Act.RESUME: (State.STARTING, State.RUNNING)}


class Paperspace:
    """Paperspace with one team's key."""

    name = "paperspace"

    def __init__(self, door: Door, key_mark: str) -> None:
        self._door = door
        self._key_mark = key_mark
        self._facts = profiles.load("paperspace")

    def account(self) -> Account:
        """Read the team and the user; a card pays, so there is no balance."""
        reply = self._sent(Ask("GET", "/auth/session"))
        if reply.value is None:  # "if a user is not logged in, this will be null" (Paperspace/cli, 2026-02-08)
            raise BadKey(
                "landlord.bad_key", "Paperspace knows nobody by this key", hint="lease landlord login paperspace"
            )
        session = reply.answer
        team, user = session.part("team"), session.part("user")
        return Account(team.text("id"), user.text("email", ""), self._door.clock(), vendor_ahead_s=self._door.ahead_s)

    def offers(self, need: Need) -> tuple[Offer, ...]:
        """Ask for the stock of each machine type that fits, in each region; no price is told before renting."""
        template = None if need.spot else self._template()
        if template is None or need.disk_gb > _DISKS_GB[-1]:
            return ()
        types = [
            one.text("machineTypeLabel")
            for one in template.each("availableMachineTypes")
            if one.yes("isAvailable") and _fits(need, one.text("machineTypeLabel"))
        ]
        wanted = [one for one in REGIONS if not need.regions or any(word in one for word in need.regions)]
        found = [self._offer(kind, region, template.text("id")) for kind in types for region in wanted]
        return sorted_offers(need, (one for one in found if one is not None))

    def rent(self, order: RentOrder) -> str:
        """Create a machine with a dynamic address, and with its own shutdown timer if an end is given."""
        kind, region, template = order.offer.id.split("|")
        body: dict[str, Any] = {
            "name": order.label,
            "machineType": kind,
            "templateId": order.image or template,
            "diskSize": next(size for size in _DISKS_GB if size >= min(order.disk_gb, _DISKS_GB[-1])),
            "region": region,
            "publicIpType": "dynamic",
            "startOnCreate": True,
            "emailPassword": False,
            "autoSnapshotEnabled": False,
        }
        if order.public_key:
            body["startupScriptId"] = self._script(order.public_key)
        if order.ends_unix is not None:
            hours = max(1, min(_MOST_SHUTDOWN_H, int((order.ends_unix - self._door.clock()) // 3600)))
            body |= {"autoShutdownEnabled": True, "autoShutdownTimeout": hours, "autoShutdownForce": True}
        reply = self._door.send(Ask("POST", "/machines", body=body, kind=Does.CREATE))
        if reply.ok:
            return reply.made(lambda made: made.part("data").text("id"))
        judged = reply.status not in (401, 403)
        if judged and (_NO_CAPACITY.search(reply.text) or not self._has(kind, region)):
            raise NoCapacity("landlord.no_capacity", f"Paperspace has no {kind} free in {region}", seen=reply.text)
        raise self._refused(reply, "POST /machines")

    def holdings(self) -> tuple[Holding, ...]:
        """Return machines, shared drives, snapshots and addresses, all pages of each."""
        held = [self._box(one) for one in self._pages("/machines")]
        held += [self._drive(one) for one in self._pages("/shared-drives")]
        held += [self._snapshot(one) for one in self._pages("/snapshots")]
        held += [self._ip(one) for one in self._pages("/public-ips")]
        return tuple(one for one in held if one.state is not State.GONE)

    def holding(self, id: str) -> Holding | None:
        """Return one holding."""
        kind, key = _split(id)
        if kind is not Kind.BOX:
            return next((one for one in self.holdings() if one.id == id), None)
        reply = self._door.send(Ask("GET", _path("/machines", key)))
        if _is_gone(reply):
            return None
        if not reply.ok:
            raise self._refused(reply, f"machine {key}")
        held = self._box(reply.answer)
        return None if held.state is State.GONE else held

    def act(self, id: str, verb: Act, price: HourlyPrice | None = None) -> bool:
        """Stop, start or delete; a machine that is on is stopped before it is deleted."""
        kind, key = _split(id)
        if kind is not Kind.BOX and verb is Act.DELETE_STORAGE:
            return self._ended(Ask("DELETE", _path(_FOLDERS[kind], key), kind=Does.ACT))
        if kind is not Kind.BOX or verb not in (Act.PARK, Act.RESUME, Act.RELEASE):
            raise LandlordSaidNo("landlord.no_such_act", f"Paperspace cannot {verb.value} a {kind.value}")
        held = self.holding(id)
        if held is None:
            if verb is Act.RELEASE:
                return True
            raise LandlordSaidNo("landlord.gone", f"Paperspace has no machine {key}")
        if verb is Act.RELEASE:
            return self._release(key, held.state)
        if held.state in _DONE[verb]:
            return held.state is not State.PARKING or verb is Act.PARK
        word = "stop" if verb is Act.PARK else "start"
        reply = self._door.send(Ask("PATCH", f"{_path('/machines', key)}/{word}", kind=Does.ACT))
        if not reply.ok and verb is Act.RESUME and _NO_CAPACITY.search(reply.text):
            raise NoCapacity("landlord.no_capacity", f"Paperspace has no card free for {key}", seen=reply.text)
        if not reply.ok:
            raise self._refused(reply, f"{word} {key}")
        return True

    def billed(self, id: str, since_unix: float) -> Money | None:
        """Return None: the API has no bill of one machine."""
        return None

    # ------------------------------------------------------------ reading

    def _template(self) -> Answer | None:
        """Find the newest template for machine learning."""
        found = [one for one in self._pages("/os-templates") if one.text("name").startswith(TEMPLATE)]
        return max(found, key=lambda one: one.text("name"), default=None)

    def _has(self, kind: str, region: str) -> bool:
        query = {"machineType": kind, "region": region}
        try:
            return self._sent(Ask("GET", "/machine-availability", query)).answer.yes("available")
        except LandlordError:
            return True

    def _offer(self, kind: str, region: str, template: str) -> Offer | None:
        query = {"machineType": kind, "region": region}
        if not self._sent(Ask("GET", "/machine-availability", query)).answer.yes("available"):
            return None
        card, count = _split_type(kind)
        disk = HourlyPrice(self._disk_rate(Decimal(1)), "USD")
        return Offer(
            market=self.name,
            id=f"{kind}|{region}|{template}",
            card=card,
            count=count,
            card_gb=CARD_GB.get(card, 0),
            price=None,
            read_unix=self._door.clock(),
            region=region,
            disk_per_gb=disk,
            disk_per_gb_parked=disk,
            egress_per_gb=Money.of(0, "USD"),
            ingress_per_gb=Money.of(0, "USD"),
            can_park=True,
            note="the API tells the price only for a machine that is rented",
        )

    def _box(self, one: Answer) -> Holding:
        raw = one.text("state")
        state = State.GONE if one.has("dtDeleted") else STATES.get(raw, State.UNKNOWN)
        size = one.number("storageTotal", Decimal(0)) / (1 << 30)
        storage = self._hourly(one.number("storageRate", Decimal(0)), size)
        usage = Decimal(0) if state in (State.PARKED, State.GONE) else one.number("usageRate", Decimal(0))
        cards = [int(card.whole("count")) for card in one.each("accelerators", absent=True)]
        made = one.unix("dtCreated")
        return Holding(
            id=one.text("id"),
            kind=Kind.BOX,
            label=one.text("name", ""),
            state=state,
            raw_state=raw,
            rate=HourlyPrice(usage + storage, "USD"),
            address=SshAddress(one.text("publicIp"), USER, PORT)
            if state is State.RUNNING and one.has("publicIp")
            else None,
            made_unix=None if made is None else self._door.ours(made),
            cards=sum(cards) if one.has("accelerators") else None,
            card=_split_type(one.text("machineType", ""))[0],
            region=one.text("region", ""),
            size_gb=float(size) or None,
            rates={"compute": f"{usage:f}USD/h", "disk": f"{storage:f}USD/h"},
        )

    def _hourly(self, rate: Decimal, size_gb: Decimal) -> Decimal:
        listed = self._disk_rate(size_gb)
        return rate / _HOURS_PER_MONTH if listed and rate > listed * _MONTHLY_FROM else rate

    def _disk_rate(self, size_gb: Decimal) -> Decimal:
        return self._facts.storage_per_hour({"machine disk": size_gb}, stopped=True).amounts[0][1]

    def _drive(self, one: Answer) -> Holding:
        return _store(one, Kind.VOLUME, one.text("id"), None, "it bills; the API tells no price of a shared drive")

    def _snapshot(self, one: Answer) -> Holding:
        return _store(one, Kind.SNAPSHOT, one.text("id"), None, "0.29 USD/GB/month; the API tells no size")

    def _ip(self, one: Answer) -> Holding:
        return _store(one, Kind.ADDRESS, one.text("ip"), HourlyPrice(STATIC_IP, "USD"), "3 USD a month at most")

    # ------------------------------------------------------------ the wire

    def _pages(self, path: str) -> Iterator[Answer]:
        after = ""
        for _ in range(_MOST_PAGES):
            query = {"limit": str(_PAGE)} | ({"after": after} if after else {})
            page = self._sent(Ask("GET", path, query)).answer
            yield from page.each("items")
            if not page.yes("hasMore"):
                return
            after = page.text("nextPage")
        raise LandlordDown("landlord.odd_answer", f"Paperspace's list {path} does not end", hint="repeat the command")

    def _script(self, public_key: str) -> str:
        """Return the startup script that adds this key; make it if there is none."""
        name = "leasehold-" + hashlib.sha256(public_key.encode("utf-8")).hexdigest()[:12]
        for one in self._pages("/startup-scripts"):
            if one.text("name", "") == name:
                return one.text("id")
        body = {"name": name, "script": _script_text(public_key), "isRunOnce": False}
        try:
            return self._sent(Ask("POST", "/startup-scripts", body=body, kind=Does.ACT)).answer.text("id")
        except AnswerLost as error:  # no machine was asked for yet, so nothing is lost
            raise LandlordDown("landlord.down", error.message, seen=error.seen, hint="repeat the command") from None

    def _release(self, key: str, state: State) -> bool:
        if state is State.PARKED:
            return self._ended(Ask("DELETE", _path("/machines", key), kind=Does.ACT))
        if state is not State.PARKING:
            self._sent(Ask("PATCH", f"{_path('/machines', key)}/stop", kind=Does.ACT))
        return False

    def _ended(self, ask: Ask) -> bool:
        reply = self._door.send(ask)
        if not reply.ok and not _is_gone(reply):
            raise self._refused(reply, f"{ask.method} {ask.path}")
        return True

    def _sent(self, ask: Ask) -> Reply:
        reply = self._door.send(ask)
        if not reply.ok:
            raise self._refused(reply, f"{ask.method} {ask.path}")
        return reply

    def _refused(self, reply: Reply, what: str) -> Exception:
        if reply.status in (401, 403):
            return BadKey(
                "landlord.bad_key",
                f"Paperspace refuses the key ({reply.status}, {what})",
                seen=reply.text,
                hint="lease landlord login paperspace; a key belongs to one team",
            )
        return LandlordSaidNo("landlord.refused", f"Paperspace refused {what} ({reply.status})", seen=reply.text)


def _store(one: Answer, kind: Kind, key: str, rate: HourlyPrice | None, note: str) -> Holding:
    return Holding(
        id=f"{kind.value}/{key}",
        kind=kind,
        label=one.text("name", ""),
        state=State.GONE if one.has("dtDeleted") else State.RUNNING,
        raw_state="",
        rate=rate,
        region=one.text("region", ""),
        size_gb=float(one.number("size") / (1 << 30)) if one.has("size") else None,
        of=one.text("machineId" if kind is Kind.SNAPSHOT else "assignedMachineId", ""),
        note=note,
    )


def _fits(need: Need, kind: str) -> bool:
    card, count = _split_type(kind)
    return card in CARD_GB and count == need.count and CARD_GB[card] >= need.card_gb and fits_card(need.cards, card)


def _split_type(kind: str) -> tuple[str, int]:
    found = _TYPE.match(kind)
    return (found["card"], int(found["count"] or 1)) if found else (kind, 1)


def _script_text(public_key: str) -> str:
    key, file = shlex.quote(public_key), f"/home/{USER}/.ssh/authorized_keys"
    return (
        f"#!/bin/sh\nmkdir -p /home/{USER}/.ssh\ngrep -qxF {key} {file} || echo {key} >> {file}\n"
        f"chown -R {USER}:{USER} /home/{USER}/.ssh\nchmod 700 /home/{USER}/.ssh\nchmod 600 {file}\n"
    )


def _split(id: str) -> tuple[Kind, str]:
    head, slash, tail = id.partition("/")
    return (Kind(head), tail) if slash else (Kind.BOX, id)


def _path(folder: str, key: str) -> str:
    return f"{folder}/{quote(key, safe='')}"


def _is_gone(reply: Reply) -> bool:
    """Only the API's own 404 counts: a page of a proxy in between has no code."""
    return reply.status == 404 and isinstance(reply.value, dict) and "code" in reply.value
