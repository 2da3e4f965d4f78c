"""Lambda On-Demand Cloud, REST v1 (vendor specification 1.10.0, mirrored and read 2026-08-03).

Quirks, with the date of their source:
- There is no stop: every saving means terminating the box (specification and SkyPilot 0.14.1, 2026-08).
- Exactly one registered SSH key goes into a launch, so ours is registered first (specification, 2026-08-03).
- Errors are told apart by `error.code`; messages may change (specification, 2026-08-03).
- One request a second, one launch in 12 seconds (specification, 2026-08-03).
- The bill starts when health checks pass (docs billing, undated copy); an `unhealthy` instance goes on billing.
- `preempted` is among the states although nothing is sold as spot: the box counts as failed until it is gone.
- Instances have no creation time; filesystems bill until deleted, at a price shown when they are made.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from decimal import Decimal
from urllib.parse import quote

from leasehold.errors import AnswerLost, BadKey, LandlordDown, LandlordSaidNo, NoCapacity, UserError
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
    Why,
)
from leasehold.platforms.landlords.wishes import sorted_offers
from leasehold.transport.openssh import SshAddress

USER, PORT = "ubuntu", 22
TAG = "leasehold"
STATES = {
    "booting": State.STARTING,
    "active": State.RUNNING,
    "unhealthy": State.FAILED,
    "terminating": State.RELEASING,
    "terminated": State.GONE,
    "preempted": State.FAILED,
}
_BILLING = (State.RUNNING, State.FAILED, State.RELEASING, State.UNKNOWN)
_CAPACITY = "instance-operations/launch/insufficient-capacity"
_MISSING = "global/object-does-not-exist"
_GIB = 1 << 30
_CARD_GB = re.compile(r"\((\d+) GB")


class LambdaLabs:
    """Lambda with one key."""

    name = "lambda"

    def __init__(self, door: Door, key_mark: str) -> None:
        self._door = door
        self._key_mark = key_mark
        self._facts = profiles.load("lambda")

    def account(self) -> Account:
        """Prove that the key works; the API names nobody and tells no balance."""
        self._sent(Ask("GET", "/ssh-keys"))
        return Account(self._key_mark, "", self._door.clock(), vendor_ahead_s=self._door.ahead_s)

    def offers(self, need: Need) -> tuple[Offer, ...]:
        """Return each instance type in each region that has it now."""
        if need.spot:
            return ()
        data = self._sent(Ask("GET", "/instance-types")).answer.part("data")
        names = data.value if isinstance(data.value, dict) else {}
        return sorted_offers(need, [offer for name in names for offer in self._of_type(data.part(name))])

    def rent(self, order: RentOrder) -> str:
        """Launch one instance, named and tagged with the label."""
        kind, region = order.offer.id.split("|")
        body: dict[str, object] = {
            "region_name": region,
            "instance_type_name": kind,
            "ssh_key_names": [self._key_name(order.public_key)],
            "name": order.label,
            "hostname": order.label,
            "tags": [{"key": TAG, "value": order.label}],
        }
        if order.image:
            body["image"] = {"family": order.image}
        if order.volumes:
            body["file_system_mounts"] = [self._mount(one) for one in order.volumes]
        reply = self._door.send(Ask("POST", "/instance-operations/launch", body=body, kind=Does.CREATE))
        if _code(reply) == _CAPACITY:
            raise NoCapacity("landlord.no_capacity", f"Lambda has no {kind} free in {region}", seen=reply.text)
        if not reply.ok:
            raise self._refused(reply, "the launch")
        return reply.made(_only_one)

    def holdings(self) -> tuple[Holding, ...]:
        """Return instances and filesystems; the API has no pages."""
        boxes = [self._box(one) for one in self._sent(Ask("GET", "/instances")).answer.each("data")]
        volumes = self._sent(Ask("GET", "/file-systems")).answer
        return tuple(one for one in (*boxes, *map(self._volume, volumes.each("data"))) if one.state is not State.GONE)

    def holding(self, id: str) -> Holding | None:
        """Return one instance or filesystem."""
        kind, key = _split(id)
        if kind is not Kind.BOX:
            return next((one for one in self.holdings() if one.id == id), None)
        reply = self._door.send(Ask("GET", f"/instances/{quote(key, safe='')}"))
        if _code(reply) == _MISSING:
            return None
        if not reply.ok:
            raise self._refused(reply, f"instance {key}")
        held = self._box(reply.answer.part("data"))
        return None if held.state is State.GONE else held

    def act(self, id: str, verb: Act, price: HourlyPrice | None = None) -> bool:
        """Terminate an instance or delete a filesystem; there is nothing else."""
        kind, key = _split(id)
        if kind is Kind.BOX and verb is Act.RELEASE:
            ask = Ask("POST", "/instance-operations/terminate", body={"instance_ids": [key]}, kind=Does.ACT)
        elif kind is Kind.VOLUME and verb is Act.DELETE_STORAGE:
            ask = Ask("DELETE", f"/filesystems/{quote(key, safe='')}", kind=Does.ACT)
        else:
            raise LandlordSaidNo(
                "landlord.no_such_act",
                f"Lambda cannot {verb.value} a {kind.value}",
                hint="there is no stop: bring everything home and release the box" if verb is Act.PARK else "",
            )
        reply = self._door.send(ask)
        if not reply.ok and _code(reply) != _MISSING:
            raise self._refused(reply, f"{verb.value} {key}")
        return True

    def billed(self, id: str, since_unix: float) -> Money | None:
        """Return None: the API has no bill."""
        return None

    # ------------------------------------------------------------ reading

    def _of_type(self, item: Answer) -> Iterator[Offer]:
        kind = item.part("instance_type")
        specs, card = kind.part("specs"), kind.text("gpu_description")
        memory = _CARD_GB.search(card)
        for region in item.each("regions_with_capacity_available"):
            yield Offer(
                market=self.name,
                id=f"{kind.text('name')}|{region.text('name')}",
                card=card,
                count=specs.whole("gpus"),
                card_gb=int(memory[1]) if memory else 0,
                price=HourlyPrice(kind.number("price_cents_per_hour") / 100, "USD"),
                read_unix=self._door.clock(),
                region=region.text("name"),
                egress_per_gb=Money.of(0, "USD"),
                ingress_per_gb=Money.of(0, "USD"),
                disk_per_gb=HourlyPrice(Decimal(0), "USD"),
                note=f"{specs.whole('storage_gib')} GiB disk included; it cannot be stopped, only released",
            )

    def _box(self, one: Answer) -> Holding:
        raw = one.text("status")
        state = STATES.get(raw, State.UNKNOWN)
        kind = one.part("instance_type")
        hour = kind.number("price_cents_per_hour") / 100 if state in _BILLING else Decimal(0)
        tags = {tag.text("key"): tag.text("value") for tag in one.each("tags", absent=True)}
        return Holding(
            id=one.text("id"),
            kind=Kind.BOX,
            label=one.text("name", "") or tags.get(TAG, ""),
            state=state,
            raw_state=raw,
            rate=HourlyPrice(hour, "USD"),
            address=SshAddress(one.text("ip"), USER, PORT) if state is State.RUNNING and one.has("ip") else None,
            why=Why.PREEMPTED if raw == "preempted" else None,
            cards=kind.part("specs").whole("gpus"),
            card=kind.text("gpu_description", ""),
            region=one.part("region").text("name", ""),
            size_gb=float(kind.part("specs").number("storage_gib")),
        )

    def _volume(self, one: Answer) -> Holding:
        size = one.number("bytes_used", Decimal(0)) / _GIB
        money = self._facts.storage_per_hour({"filesystem": size}, stopped=False).amounts
        made = one.unix("created")
        return Holding(
            id=f"{Kind.VOLUME.value}/{one.text('id')}",
            kind=Kind.VOLUME,
            label=one.text("name"),
            state=State.RUNNING,
            raw_state="in use" if one.yes("is_in_use") else "",
            rate=HourlyPrice(money[0][1], money[0][0]) if money else None,
            made_unix=None if made is None else self._door.ours(made),
            region=one.part("region").text("name", ""),
            size_gb=float(size),
            note="its size is the landlord's estimate of what is used",
        )

    # ------------------------------------------------------------ the key and the wire

    def _key_name(self, public_key: str) -> str:
        """Return the name under which a public key is registered; register it if it is new."""
        if not public_key:
            raise UserError("landlord.no_public_key", "Lambda rents nothing without an SSH key", hint="ssh-keygen")
        body = public_key.split()[:2]
        for one in self._sent(Ask("GET", "/ssh-keys")).answer.each("data"):
            if one.text("public_key").split()[:2] == body:
                return one.text("name")
        name = "leasehold-" + hashlib.sha256(" ".join(body).encode("utf-8")).hexdigest()[:12]
        try:
            self._sent(Ask("POST", "/ssh-keys", body={"name": name, "public_key": public_key}, kind=Does.ACT))
        except AnswerLost as error:  # nothing was launched yet, so nothing is lost
            raise LandlordDown("landlord.down", error.message, seen=error.seen, hint="repeat the command") from None
        return name

    def _mount(self, id: str) -> dict[str, str]:
        held = self.holding(id)
        if held is None:
            raise LandlordSaidNo("landlord.no_volume", f"Lambda has no filesystem {id}")
        return {"file_system_id": _split(id)[1], "mount_point": f"/lambda/nfs/{held.label}"}

    def _sent(self, ask: Ask) -> Reply:
        reply = self._door.send(ask)
        if not reply.ok:
            raise self._refused(reply, f"{ask.method} {ask.path}")
        return reply

    def _refused(self, reply: Reply, what: str) -> Exception:
        code = _code(reply)
        if reply.status == 401 or code in ("global/invalid-api-key", "global/forbidden"):
            return BadKey(
                "landlord.bad_key",
                f"Lambda refuses the key ({code or reply.status}, {what})",
                seen=reply.text,
                hint="lease landlord login lambda",
            )
        if code.startswith("provider/"):
            return LandlordDown("landlord.down", f"Lambda's provider failed: {code}", seen=reply.text)
        return LandlordSaidNo("landlord.refused", f"Lambda refused {what}: {code or reply.status}", seen=reply.text)


def _only_one(answer: Answer) -> str:
    made = answer.part("data").texts("instance_ids")
    if len(made) != 1:
        raise answer.odd(f"{len(made)} instances, not one")
    return made[0]


def _split(id: str) -> tuple[Kind, str]:
    head, slash, tail = id.partition("/")
    return (Kind(head), tail) if slash else (Kind.BOX, id)


def _code(reply: Reply) -> str:
    error = reply.value.get("error") if isinstance(reply.value, dict) else None
    return str(error.get("code") or "") if isinstance(error, dict) and not reply.ok else ""
