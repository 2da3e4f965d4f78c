"""RunPod, REST v2 (https://api.runpod.io/v2/openapi.json, read 2026-08-20; v1 was retired on 2026-11-15).

Quirks, with the date of their source:
- No idempotency key, and no filter by name: a lost answer is found in the list by `name` (specification, 2026-08-20).
- The list leaves out pods of clusters, which bill, unless includeClusterPods is sent (specification, 2026-08-20).
- 400 means a broken rule or no capacity, and only the English text tells which (api reference, 2026-08-20).
- A start after a stop may give no card, or move the pod: another id and address (pods/troubleshooting, 2026-08-20).
- `cost` is 0 for a stopped pod although its volume disk bills at twice the price (specification, 2026-08-20).
- The relay ssh.runpod.io gives a shell only: `ssh.direct` is the one address that we use (specification, 2026-08-20).
- There is no who-am-I and no balance: the account is named after its key.
- A bad key was answered 401 with an empty body by v1 (survey, 2026-09-13).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from decimal import Decimal
from urllib.parse import quote

from leasehold.errors import BadKey, LandlordError, LandlordSaidNo, NoCapacity
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

IMAGE = "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404"
MOUNT = "/workspace"
CONTAINER_GB = 20
_LEAST_VOLUME_GB = 10  # the specification's minimum for mounts.persistent
_NO_CAPACITY = re.compile(
    r"capacity|no (longer )?(any )?instances?|not enough|no .{0,40}available|could not find", re.I
)
STATES = {
    "PROVISIONING": State.STARTING,
    "STARTING": State.STARTING,
    "RUNNING": State.RUNNING,
    "EXITED": State.PARKED,
    "ERROR": State.FAILED,
    "TERMINATED": State.GONE,
}
_ACTIONS = {Act.PARK: "stop", Act.RESUME: "start"}
_DONE = {Act.PARK: (State.PARKED,), Act.RESUME: (State.STARTING, State.RUNNING)}
# Network volumes, USD/GB/month (https://docs.runpod.io/pods/storage/types, 2026-08-20): STANDARD costs less above 1 TB.
_VOLUME_RATE, _VOLUME_RATE_ABOVE, _VOLUME_STEP_GB, _FAST_VOLUME_RATE = (
    Decimal("0.07"),
    Decimal("0.05"),
    1000,
    Decimal("0.14"),
)


class RunPod:
    """RunPod with one key."""

    name = "runpod"

    def __init__(self, door: Door, key_mark: str) -> None:
        self._door = door
        self._key_mark = key_mark
        self._facts = profiles.load("runpod")

    def account(self) -> Account:
        """Prove that the key works; the API names nobody and tells no balance."""
        self._read("/v2/account/ssh-keys")
        return Account(self._key_mark, "", self._door.clock(), vendor_ahead_s=self._door.ahead_s)

    def offers(self, need: Need) -> tuple[Offer, ...]:
        """Ask the catalogue once for each cloud, since the stock is each cloud's own. There is no spot any more."""
        found = (
            [] if need.spot else [offer for cloud in ("SECURE", "COMMUNITY") for offer in self._catalogue(need, cloud)]
        )
        return sorted_offers(need, found)

    def rent(self, order: RentOrder) -> str:
        """Create a pod; the public key goes into its environment, so the account's own keys stay as they are."""
        cloud, card, places, cuda = order.offer.id.split("|")
        gpu = {"id": card, "count": order.offer.count} | ({"minCudaVersion": cuda} if cuda else {})
        body = {
            "name": order.label,
            "image": order.image or IMAGE,
            "gpu": gpu,
            "cloud": cloud,
            "dataCenterIds": [place for place in places.split(",") if place],
            "disk": CONTAINER_GB,
            "ports": ["22/tcp"],
            "env": {"PUBLIC_KEY": order.public_key} if order.public_key else {},
            "startSsh": True,
            "mounts": _mounts(order),
        }
        reply = self._door.send(Ask("POST", "/v2/pods", body=body, kind=Does.CREATE))
        if reply.ok:
            return reply.made(lambda pod: pod.text("id"))
        if reply.status == 400 and (_NO_CAPACITY.search(reply.text) or not self._is_offered(order.offer)):
            raise NoCapacity(
                "landlord.no_capacity", f"RunPod has no {order.offer.count} × {card} free", seen=reply.text
            )
        raise self._refused(reply, "POST /v2/pods")

    def holdings(self) -> tuple[Holding, ...]:
        """Return pods, those of clusters too, and network volumes."""
        pods = self._read("/v2/pods", includeClusterPods="true").answer
        volumes = self._read("/v2/network-volumes").answer
        held = [self._pod(pod) for pod in pods.each("pods")]
        held += [self._volume(volume) for volume in volumes.each("networkVolumes")]
        return tuple(one for one in held if one.state is not State.GONE)

    def holding(self, id: str) -> Holding | None:
        """Return one pod or volume; 404 proves that this account has none of this id."""
        kind, key = _split(id)
        path = _path("/v2/pods" if kind is Kind.BOX else "/v2/network-volumes", key)
        reply = self._door.send(Ask("GET", path))
        if reply.status == 404:
            return None
        if not reply.ok:
            raise self._refused(reply, path)
        held = self._pod(reply.answer) if kind is Kind.BOX else self._volume(reply.answer)
        return None if held.state is State.GONE else held

    def act(self, id: str, verb: Act, price: HourlyPrice | None = None) -> bool:
        """Stop, start or delete; a refusal for the state that was wished for is no refusal."""
        kind, key = _split(id)
        if kind is Kind.VOLUME and verb is Act.DELETE_STORAGE:
            return self._delete(_path("/v2/network-volumes", key))
        if kind is Kind.BOX and verb is Act.RELEASE:
            return self._delete(_path("/v2/pods", key))
        if kind is not Kind.BOX or verb not in _ACTIONS:
            raise LandlordSaidNo("landlord.no_such_act", f"RunPod cannot {verb.value} a {kind.value}")
        path = _path("/v2/pods", key) + "/action"
        reply = self._door.send(Ask("POST", path, body={"action": _ACTIONS[verb]}, kind=Does.ACT))
        if reply.ok:
            return True
        held = self.holding(id) if reply.status == 409 else None
        if held and held.state in _DONE[verb]:
            return True
        if verb is Act.RESUME and reply.status in (400, 409) and _NO_CAPACITY.search(reply.text):
            raise NoCapacity("landlord.no_capacity", f"RunPod has no card free for {key}", seen=reply.text)
        raise self._refused(reply, path)

    def billed(self, id: str, since_unix: float) -> Money | None:
        """Add up the bill by hours."""
        kind, key = _split(id)
        path, name = ("pods", "podId") if kind is Kind.BOX else ("network-volumes", "networkVolumeId")
        start = datetime.datetime.fromtimestamp(since_unix + self._door.ahead_s, datetime.UTC)
        query = {name: key, "bucketSize": "hour", "startTime": start.isoformat(timespec="seconds")}
        bill = self._read(f"/v2/billing/{path}", **query).answer
        return Money.of(sum((record.number("totalAmount") for record in bill.each("records")), Decimal(0)), "USD")

    # ------------------------------------------------------------ reading

    def _catalogue(self, need: Need, cloud: str) -> Iterator[Offer]:
        query = {"include": "AVAILABILITY", "product": "POD", "cloud": cloud, "count": str(need.count)}
        if need.cuda_at_least:
            query["minCudaVersion"] = need.cuda_at_least
        for card in self._read("/v2/catalog/gpus", **query).answer.each("gpus"):
            if card.yes(cloud.lower()) and fits_card(need.cards, card.text("name") + " " + card.text("id")):
                yield from self._of_card(card, need, cloud)

    def _of_card(self, card: Answer, need: Need, cloud: str) -> Iterator[Offer]:
        each = card.part("price").number(cloud.lower())
        stock = card.text("availability", "NONE")
        if stock == "NONE" or each <= 0 or card.part("maxCount").whole(cloud.lower()) < need.count:
            return
        places = [place.text("id") for place in card.each("dataCenters", absent=True) if _has(place)]
        wanted = [place for place in places if not need.regions or place.lower().startswith(_lower(need.regions))]
        running, parked = self._disk_rates()
        yield Offer(
            market=self.name,
            id="|".join((cloud, card.text("id"), ",".join(wanted if need.regions else ()), need.cuda_at_least)),
            card=card.text("name"),
            count=need.count,
            card_gb=card.whole("memory"),
            price=HourlyPrice(each * need.count, "USD"),
            read_unix=self._door.clock(),
            region=", ".join(wanted or places),
            disk_per_gb=running,
            disk_per_gb_parked=parked,
            egress_per_gb=Money.of(0, "USD"),
            ingress_per_gb=Money.of(0, "USD"),
            can_park=True,
            stock_word=stock.lower(),
            note=f"{cloud.title()} Cloud",
        )

    def _is_offered(self, offer: Offer) -> bool:
        """Look again: a 400 for a card that has just gone out of stock means no capacity."""
        try:
            again = self.offers(Need(count=offer.count))
        except LandlordError:
            return True
        return any(one.id.split("|")[:2] == offer.id.split("|")[:2] for one in again)

    def _pod(self, pod: Answer) -> Holding:
        raw = pod.text("status")
        state = STATES.get(raw, State.UNKNOWN)
        gpu, direct = pod.part("gpu"), pod.part("ssh").part("direct")
        made = pod.unix("createdAt")
        parts = self._rate_parts(pod, state)
        reached = state is State.RUNNING and direct.has("host")
        return Holding(
            id=pod.text("id"),
            kind=Kind.BOX,
            label=pod.text("name"),
            state=state,
            raw_state=raw,
            rate=HourlyPrice(sum(parts.values(), Decimal(0)), "USD"),
            address=SshAddress(direct.text("host"), direct.text("username", "root"), direct.whole("port"))
            if reached
            else None,
            made_unix=None if made is None else self._door.ours(made),
            cards=gpu.whole("count", 1) if gpu.has("id") else 0,
            card=gpu.text("id", ""),
            region=pod.text("dataCenterId", ""),
            size_gb=float(pod.part("mounts").part("persistent").number("size", Decimal(0))) or None,
            rates={name: f"{amount:f}USD/h" for name, amount in parts.items()},
            note="member of a cluster: it ends with the cluster" if pod.has("cluster") else "",
        )

    def _rate_parts(self, pod: Answer, state: State) -> dict[str, Decimal]:
        """Split what a pod bills now; whether `cost` holds the disks is nowhere said, so they are added."""
        if state is State.GONE:
            return {}
        running, parked = self._disk_rates()
        volume = pod.part("mounts").part("persistent").number("size", Decimal(0))
        if state is State.PARKED:
            return {"volume disk, stopped": volume * parked.amount}
        disks = (volume + pod.number("disk", Decimal(0))) * running.amount
        return {"compute": pod.number("cost"), "disks": disks}

    def _disk_rates(self) -> tuple[HourlyPrice, HourlyPrice]:
        one = {"volume disk": Decimal(1)}
        rates = (self._facts.storage_per_hour(one, stopped).amounts for stopped in (False, True))
        running, parked = (HourlyPrice(money[0][1], money[0][0]) for money in rates)
        return running, parked

    def _volume(self, volume: Answer) -> Holding:
        size = volume.number("size")
        step = min(size, Decimal(_VOLUME_STEP_GB))
        monthly = step * _VOLUME_RATE + (size - step) * _VOLUME_RATE_ABOVE
        if volume.text("type", "STANDARD") != "STANDARD":
            monthly = size * _FAST_VOLUME_RATE
        return Holding(
            id=f"{Kind.VOLUME.value}/{volume.text('id')}",
            kind=Kind.VOLUME,
            label=volume.text("name"),
            state=State.RUNNING,
            raw_state="",
            rate=HourlyPrice(monthly / 730, "USD"),
            region=volume.text("dataCenter", ""),
            size_gb=float(size),
        )

    # ------------------------------------------------------------ the wire

    def _read(self, path: str, **query: str) -> Reply:
        reply = self._door.send(Ask("GET", path, query))
        if not reply.ok:
            raise self._refused(reply, path)
        return reply

    def _delete(self, path: str) -> bool:
        reply = self._door.send(Ask("DELETE", path, kind=Does.ACT))
        if not reply.ok and reply.status != 404:
            raise self._refused(reply, path)
        return True

    def _refused(self, reply: Reply, what: str) -> Exception:
        if reply.status == 401 or (reply.status == 403 and what != "POST /v2/pods"):
            return BadKey(
                "landlord.bad_key",
                f"RunPod refuses the key ({reply.status}, {what})",
                seen=reply.text,
                hint="lease landlord login runpod; the key needs read and write access to pods",
            )
        if reply.status == 402:
            return LandlordSaidNo("landlord.no_money", "RunPod's account has no money", seen=reply.text, hint="top up")
        return LandlordSaidNo("landlord.refused", f"RunPod refused {what} ({reply.status})", seen=reply.text)


def _split(id: str) -> tuple[Kind, str]:
    head, slash, tail = id.partition("/")
    return (Kind(head), tail) if slash else (Kind.BOX, id)


def _path(folder: str, id: str) -> str:
    return f"{folder}/{quote(id, safe='')}"


def _mounts(order: RentOrder) -> dict[str, object]:
    if order.volumes:
        return {"network": [{"volumeId": _split(order.volumes[0])[1], "path": MOUNT}]}
    return {"persistent": {"size": max(_LEAST_VOLUME_GB, order.disk_gb), "path": MOUNT}}


def _has(place: Answer) -> bool:
    return place.text("availability", "NONE") != "NONE"


def _lower(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.lower() for word in words)
