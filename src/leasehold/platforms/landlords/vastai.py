"""vast.ai, REST v0 and v1 (vast-ai/docs api-reference/openapi.yaml and vast-cli, both read 2026-08).

Quirks, with the date of their source:
- Every path ends with a slash; without it the answer is a redirect to another host (survey, 2026-09-13).
- A bad key is 404 with error=auth_error, a missing one 403 (survey, 2026-09-13): only `instances: null` or a 404 of
  another kind proves that an instance is gone.
- 429 comes without Retry-After: one call an interval, for each endpoint and identity (rate-limits page, 2026-08-07).
- The list has at most 25 a page (specification, 2026-08-07).
- `create.env` is an object and `ports` a Docker port map, whatever the specification says (vast-cli, 2026-08-06).
- A bid search still rents on demand unless a price is sent (vast-cli SKILL.md, 2026-08-06).
- exited, unknown and offline never become running (docs hello-world, 2026-08-07).
- While an image loads, storage is billed and the card is not (docs billing, 2026-08-07).
- Keys of the account reach new instances only, so ours is added by the start script (docs connect/ssh, 2026-08-07).
- The host sets the storage price of a stopped instance, often higher; no field of an offer tells it (2026-08-07).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from leasehold.errors import BadKey, LandlordDown, LandlordSaidNo, NoCapacity
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
    Why,
)
from leasehold.platforms.landlords.wishes import sorted_offers
from leasehold.transport.openssh import SshAddress

IMAGE = "vastai/pytorch:@vastai-automatic-tag"
_MOST_OFFERS = 2000
_PAGE = 25
_MOST_PAGES = 400
_HOURS_PER_MONTH = 730
_MB_PER_GB = 1024
_CARD_SLACK = Decimal("0.97")  # a 24 GB card has 24,564 MB
_STARTING = ("", "created", "loading", "rebooting")
_STOPPED = ("stopped", "exited")
_BROKEN = ("exited", "unknown", "offline")
_WANTED = {Act.PARK: "stopped", Act.RESUME: "running"}
_GONE = ("no_such_instance", "no_such_volume", "not_found", "no_such_contract")
_DIRECT_PORT = "22/tcp"


class VastAi:
    """vast.ai with one key."""

    name = "vastai"

    def __init__(self, door: Door, key_mark: str) -> None:
        self._door = door
        self._key_mark = key_mark

    def account(self) -> Account:
        """Read the user and the prepaid credit."""
        user = self._read("/api/v0/users/current/").answer
        money = user.number("credit" if user.has("credit") else "balance")
        return Account(
            user.text("id"),
            user.text("email", ""),
            self._door.clock(),
            Money.of(money, "USD"),
            self._door.ahead_s,
        )

    def offers(self, need: Need) -> tuple[Offer, ...]:
        """Search machines that are free; direct ports are demanded, for files do not fit through the relay."""
        body: dict[str, Any] = {
            "limit": _MOST_OFFERS,
            "type": "bid" if need.spot else "on-demand",
            "order": [["dph_total", "asc"]],
            "allocated_storage": max(1, need.disk_gb),
            "verified": {"eq": True},
            "rentable": {"eq": True},
            "rented": {"eq": False},
            "num_gpus": {"eq": need.count},
            "direct_port_count": {"gte": 1},
            "disk_space": {"gte": need.disk_gb},
            "reliability2": {"gte": need.reliability},
        }
        if need.card_gb:
            body["gpu_ram"] = {"gte": int(need.card_gb * _MB_PER_GB * _CARD_SLACK)}
        if need.cuda_at_least:
            body["cuda_max_good"] = {"gte": float(need.cuda_at_least)}
        found = self._sent(Ask("POST", "/api/v0/bundles/", body=body)).answer
        return sorted_offers(need, (self._offer(one, need.spot) for one in found.each("offers")))

    def rent(self, order: RentOrder) -> str:
        """Accept an offer; one that is gone meanwhile is cancelled by the landlord and not kept waiting."""
        body: dict[str, Any] = {
            "image": order.image or IMAGE,
            "disk": max(10, order.disk_gb),
            "label": order.label,
            "runtype": "ssh_direct",
            "target_state": "running",
            "cancel_unavail": True,
            "env": {},
            "onstart": _start_script(order.public_key),
        }
        if order.offer.spot:
            bid = order.bid or order.offer.least_bid
            body["price"] = float(bid.amount) if bid else None
        if order.volumes:
            volume = int(_split(order.volumes[0])[1])
            body["volume_info"] = {"create_new": False, "volume_id": volume, "mount_path": "/data"}
        path = f"/api/v0/asks/{int(order.offer.id)}/"
        reply = self._door.send(Ask("PUT", path, body=body, kind=Does.CREATE))
        if reply.ok and _succeeded(reply):
            return reply.made(lambda made: made.text("new_contract"))
        error = _error_of(reply)
        if error and error != "auth_error" and (reply.status in (404, 410) or error == "no_such_ask"):
            raise NoCapacity("landlord.no_capacity", f"vast.ai's offer {order.offer.id} is gone", seen=reply.text)
        raise self._refused(reply, path)

    def holdings(self) -> tuple[Holding, ...]:
        """Return instances of all pages, and volumes of both kinds."""
        volumes = self._read("/api/v0/volumes/", owner="me", type="all_volume").answer
        return (*self._instances(), *(self._volume(one) for one in volumes.each("volumes")))

    def holding(self, id: str) -> Holding | None:
        """Return one instance or volume."""
        kind, key = _split(id)
        if kind is not Kind.BOX:
            return next((one for one in self.holdings() if one.id == id), None)
        reply = self._door.send(Ask("GET", f"/api/v0/instances/{int(key)}/", {"owner": "me"}))
        if _is_gone(reply):
            return None
        self._accepted(reply, "instances")
        fields = reply.answer
        if isinstance(reply.value, dict) and "instances" in reply.value and reply.value["instances"] is None:
            return None
        return self._instance(fields.part("instances"))

    def act(self, id: str, verb: Act, price: HourlyPrice | None = None) -> bool:
        """Stop, start, destroy, raise the bid, or delete a volume."""
        kind, key = _split(id)
        if kind is Kind.VOLUME and verb is Act.DELETE_STORAGE:
            return self._ended(Ask("DELETE", "/api/v0/volumes/", {"id": key}, kind=Does.ACT))
        path = f"/api/v0/instances/{int(key)}/"
        if kind is Kind.BOX and verb is Act.RELEASE:
            return self._ended(Ask("DELETE", path, body={}, kind=Does.ACT))
        if kind is Kind.BOX and verb is Act.RAISE_BID and price is not None:
            body = {"client_id": "me", "price": float(price.amount)}
            self._sent(Ask("PUT", f"/api/v0/instances/bid_price/{int(key)}/", body=body, kind=Does.ACT))
            return True
        if kind is not Kind.BOX or verb not in _WANTED:
            raise LandlordSaidNo("landlord.no_such_act", f"vast.ai cannot {verb.value} a {kind.value}")
        self._sent(Ask("PUT", path, body={"state": _WANTED[verb]}, kind=Does.ACT))
        return True

    def billed(self, id: str, since_unix: float) -> Money | None:
        """Add up the charges of one contract."""
        kind, key = _split(id)
        source = f"{'instance' if kind is Kind.BOX else 'volume'}-{key}"
        now = self._door.clock() + self._door.ahead_s
        days = {"day": {"gte": int(since_unix + self._door.ahead_s) - 86400, "lte": int(now) + 86400}}
        rows = self._pages("/api/v0/charges/", "results", "total", select_filters=json.dumps(days), limit="500")
        mine = [row.number("amount") for row in rows if row.text("source", "") == source]
        return Money.of(sum(mine, Decimal(0)), "USD")

    # ------------------------------------------------------------ reading

    def _offer(self, one: Answer, spot: bool) -> Offer:
        month = one.number("storage_cost", Decimal(0))
        price = one.number("min_bid" if spot else "dph_base")
        duration = one.number("duration", Decimal(0))
        return Offer(
            market=self.name,
            id=one.text("id"),
            card=one.text("gpu_name"),
            count=one.whole("num_gpus"),
            card_gb=round(one.number("gpu_ram") / _MB_PER_GB),
            price=HourlyPrice(price, "USD"),
            read_unix=self._door.clock(),
            region=one.text("geolocation", ""),
            spot=spot,
            least_bid=HourlyPrice(price, "USD") if spot else None,
            disk_per_gb=HourlyPrice(month / _HOURS_PER_MONTH, "USD"),
            egress_per_gb=Money.of(one.number("inet_up_cost", Decimal(0)), "USD"),
            ingress_per_gb=Money.of(one.number("inet_down_cost", Decimal(0)), "USD"),
            can_park=True,
            reliability=float(one.number("reliability2", Decimal(0))),
            stock=1,
            cuda_at_most=one.text("cuda_max_good", ""),
            ends_unix=self._door.clock() + float(duration) if duration > 0 else None,
            host=one.text("machine_id", ""),
            note="a stopped instance often costs more storage than a running one; nobody tells how much",
        )

    def _instances(self) -> Iterator[Holding]:
        order = json.dumps([{"col": "id", "dir": "asc"}])
        for one in self._pages("/api/v1/instances/", "instances", "total_instances", limit=str(_PAGE), order_by=order):
            yield self._instance(one)

    def _pages(self, path: str, name: str, total: str, **query: str) -> list[Answer]:
        """Read every page; fewer rows than the landlord counts is an error, never a short list."""
        rows: list[Answer] = []
        token = ""
        for _ in range(_MOST_PAGES):
            page = self._read(path, **query, **({"after_token": token} if token else {})).answer
            rows += page.each(name)
            token = page.text("next_token", "")
            if not token:
                if len(rows) < page.whole(total, 0):
                    raise page.odd(f"{len(rows)} rows came of {page.whole(total)}")
                return rows
        raise LandlordDown("landlord.odd_answer", f"vast.ai's list {path} does not end", hint="repeat the command")

    def _instance(self, one: Answer) -> Holding:
        actual, intended = one.text("actual_status", ""), one.text("intended_status", "")
        state = _state(actual, intended)
        storage = one.number("storage_total_cost", Decimal(0))
        total = one.number("dph_total") if state in (State.RUNNING, State.PARKING, State.UNKNOWN) else storage
        started, ends = one.unix("start_date"), one.unix("end_date")
        ends_unix = None if ends is None else self._door.ours(ends)
        return Holding(
            id=one.text("id"),
            kind=Kind.BOX,
            label=one.text("label", ""),
            state=state,
            raw_state=actual or "null",
            rate=HourlyPrice(total, "USD"),
            address=_address(one) if state is State.RUNNING else None,
            made_unix=None if started is None else self._door.ours(started),
            why=self._why(one, state, intended, ends_unix),
            cards=one.whole("num_gpus"),
            card=one.text("gpu_name", ""),
            region=one.text("geolocation", ""),
            ends_unix=ends_unix,
            size_gb=float(one.number("disk_space", Decimal(0))) or None,
            rates={"compute": f"{total - storage:f}USD/h", "storage": f"{storage:f}USD/h"},
            note=one.text("status_msg", ""),
        )

    def _why(self, one: Answer, state: State, intended: str, ends_unix: float | None) -> Why | None:
        """Say why it stands still although it should run."""
        if state in (State.RUNNING, State.STARTING, State.PARKING, State.UNKNOWN):
            return None
        message = one.text("status_msg", "").lower()
        if ends_unix is not None and ends_unix <= self._door.clock():
            return Why.CONTRACT_END
        if "credit" in message or "balance" in message:
            return Why.BALANCE
        if intended != "running":
            return None
        return Why.OUTBID if one.yes("is_bid") else Why.LANDLORD

    def _volume(self, one: Answer) -> Holding:
        made = one.unix("start_date")
        return Holding(
            id=f"{Kind.VOLUME.value}/{one.text('id')}",
            kind=Kind.VOLUME,
            label=one.text("label", ""),
            state=State.RUNNING,
            raw_state=one.text("status", ""),
            rate=HourlyPrice(one.number("storage_total_cost"), "USD") if one.has("storage_total_cost") else None,
            made_unix=None if made is None else self._door.ours(made),
            region=one.text("machine_id", ""),
            size_gb=float(one.number("disk_space", Decimal(0))) or None,
        )

    # ------------------------------------------------------------ the wire

    def _read(self, path: str, **query: str) -> Reply:
        return self._sent(Ask("GET", path, query))

    def _sent(self, ask: Ask) -> Reply:
        reply = self._door.send(ask)
        self._accepted(reply, f"{ask.method} {ask.path}")
        return reply

    def _ended(self, ask: Ask) -> bool:
        reply = self._door.send(ask)
        if not _is_gone(reply):
            self._accepted(reply, f"{ask.method} {ask.path}")
        return True

    def _accepted(self, reply: Reply, what: str) -> None:
        if not reply.ok or not _succeeded(reply):
            raise self._refused(reply, what)

    def _refused(self, reply: Reply, what: str) -> Exception:
        error = _error_of(reply)
        if reply.status in (401, 403) or error == "auth_error":
            return BadKey(
                "landlord.bad_key",
                f"vast.ai refuses the key ({reply.status}, {what})",
                seen=reply.text,
                hint="lease landlord login vastai; the key needs instance_read and instance_write",
            )
        if "credit" in error or "balance" in error:
            return LandlordSaidNo("landlord.no_money", "vast.ai's account has no money", seen=reply.text, hint="top up")
        if reply.status == 404 and not error:
            return LandlordDown("landlord.odd_answer", f"vast.ai does not know {what}", seen=reply.text)
        return LandlordSaidNo("landlord.refused", f"vast.ai refused {what} ({reply.status})", seen=reply.text)


def _state(actual: str, intended: str) -> State:
    if actual in ("running", "rebooting") and intended == "stopped":
        return State.PARKING
    if actual == "running":
        return State.RUNNING
    if intended == "stopped" and actual in (*_STARTING, *_STOPPED):
        return State.PARKED
    if actual in _BROKEN:
        return State.FAILED
    if actual == "stopped":
        return State.PARKED
    return State.STARTING if actual in _STARTING else State.UNKNOWN


_WORDS = ("null", "created", "loading", "rebooting", "running", "stopped", "exited", "frozen", "unknown", "offline")
STATES = {  # by what is and what is wished for
    f"{actual}, intended {intended}": _state("" if actual == "null" else actual, intended)
    for actual in _WORDS
    for intended in ("running", "stopped")
}


def _address(one: Answer) -> SshAddress | None:
    """Prefer the direct port; the relay is one port further for Jupyter images."""
    mapped = next(one.part("ports").each(_DIRECT_PORT, absent=True), None)
    if mapped is not None and one.has("public_ipaddr"):
        return SshAddress(one.text("public_ipaddr").strip(), "root", mapped.whole("HostPort"))
    if not one.has("ssh_host") or not one.has("ssh_port"):
        return None
    beside = 1 if "jupyter" in one.text("image_runtype", "") else 0
    return SshAddress(one.text("ssh_host"), "root", one.whole("ssh_port") + beside)


def _start_script(public_key: str) -> str:
    """Add the key once; the script runs at each start."""
    if not public_key:
        return ""
    key = shlex.quote(public_key)
    return f"mkdir -p ~/.ssh; grep -qxF {key} ~/.ssh/authorized_keys || echo {key} >> ~/.ssh/authorized_keys\n"


def _split(id: str) -> tuple[Kind, str]:
    head, slash, tail = id.partition("/")
    return (Kind(head), tail) if slash else (Kind.BOX, id)


def _error_of(reply: Reply) -> str:
    return str(reply.value.get("error") or "") if isinstance(reply.value, dict) else ""


def _succeeded(reply: Reply) -> bool:
    return not (isinstance(reply.value, dict) and reply.value.get("success") is False)


def _is_gone(reply: Reply) -> bool:
    return reply.status in (404, 410) and _error_of(reply) in _GONE
