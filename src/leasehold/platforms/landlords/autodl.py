"""AutoDL Pro (https://www.autodl.com/docs/instance_pro_api/, shapes re-checked by third parties 2026-08 to 2026-10).

Quirks, with the date of their source:
- A failure is HTTP 200 with another `code` than Success; the codes are not documented (2026-09).
- The token goes into Authorization without a word before it.
- There is no catalogue, no stock and no price before a box runs: the cards are a table of the documentation, a create
  is a blind try, and "no stock" is known by its Chinese words. The stock call is of another product and misleads
  (autodl-cli, measured 2026-08-23).
- The price is told by the snapshot of a running box, in thousandths of a yuan.
- A box can be released only when it is off, and turning off one that is being turned off fails (2026-08-23).
- Port and password may change at every start; `running` comes before sshd listens (2026-08-23).
- Without `payload: gpu` a start reads like no stock; the mode without a card cannot be started (2026-09).
- The public key is added by the start command: the API registers none.
"""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from typing import Any

from leasehold.errors import BadKey, LandlordDown, LandlordSaidNo, NoCapacity
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
from leasehold.platforms.landlords.wishes import sorted_offers
from leasehold.transport.openssh import SshAddress

IMAGE = "base-image-l2t43iu6uk"  # PyTorch 2.0.0, CUDA 11.8 (documentation, 2026-09)
CARDS = {  # gpu_spec_uuid -> card, GB (table of the documentation, 2026-09)
    "4090D": ("RTX 4090D", 24),
    "5090-p": ("RTX 5090", 32),
    "h800": ("H800", 80),
    "pro6000-p": ("RTX PRO 6000", 96),
    "v-32g-p": ("RTX 4080", 32),
    "v-48g": ("RTX 4090", 48),
    "v-48g-350w": ("RTX 3090", 48),
}
_REGIONS = ("westDC3", "beijingDC2")  # the ones where Pro boxes can be made (measured 2026-08-23)
_BASE = "/api/v1/dev/instance/pro/"
_MOST_CARDS, _FREE_DISK_GB, _MOST_DISK_GB = 4, 30, 500
_PAGE, _MOST_PAGES = 50, 200
_LEAST_CUDA = 113
_NO_STOCK = re.compile(r"库存|售罄|无可用|stock", re.I)
_NO_MONEY = re.compile(r"余额|欠费|balance", re.I)
_MISSING, _BAD_TOKEN = "RecordNotFoundError", "AuthorizeFailed"
STATES = {
    "creating": State.STARTING,
    "starting": State.STARTING,
    "running": State.RUNNING,
    "shutting_down": State.PARKING,
    "shutdown": State.PARKED,
    "releasing": State.RELEASING,
    "released": State.GONE,
    "failed": State.FAILED,
}
_COMES_UP = (State.STARTING, State.RUNNING)
_GOES_OFF = (State.PARKING, State.PARKED)


class AutoDl:
    """AutoDL Pro with one developer token."""

    name = "autodl-pro"

    def __init__(self, door: Door, key_mark: str) -> None:
        self._door = door
        self._key_mark = key_mark
        self._facts = profiles.load("autodl-pro")

    def account(self) -> Account:
        """Read the wallet; vouchers count, since they pay too. The API names nobody."""
        wallet = self._sent(Ask("POST", "/api/v1/dev/wallet/balance", body={})).answer.part("data")
        money = (wallet.number("assets") + wallet.number("voucher_balance", Decimal(0))) / 1000
        return Account(self._key_mark, "", self._door.clock(), Money.of(money, "CNY"), self._door.ahead_s)

    def offers(self, need: Need) -> tuple[Offer, ...]:
        """Return the documented cards: neither stock nor price is known before a box runs."""
        if need.spot or need.count > _MOST_CARDS or need.disk_gb > _FREE_DISK_GB + _MOST_DISK_GB:
            return ()
        self.account()  # a key that does not work must not look like offers
        regions = [one for one in _REGIONS if not need.regions or one.lower() in map(str.lower, need.regions)]
        return sorted_offers(need, [self._offer(spec, need, regions) for spec in CARDS if regions])

    def rent(self, order: RentOrder) -> str:
        """Create a box, named with the label."""
        spec, _, regions = order.offer.id.partition("|")
        cuda = int("".join(re.findall(r"\d+", order.offer.cuda_at_most)) or _LEAST_CUDA)
        body: dict[str, Any] = {
            "req_gpu_amount": order.offer.count,
            "expand_system_disk_by_gb": min(_MOST_DISK_GB, max(0, order.disk_gb - _FREE_DISK_GB)),
            "gpu_spec_uuid": spec,
            "image_uuid": order.image or IMAGE,
            "cuda_v_from": cuda,
            "instance_name": order.label,
        }
        if regions:
            body["data_center_list"] = regions.split(",")
        if order.public_key:
            body["start_command"] = _start_command(order.public_key)
        reply = self._door.send(Ask("POST", _BASE + "create", body=body, kind=Does.CREATE))
        if _code(reply) in ("Success", ""):  # without a code nobody knows
            return reply.made(lambda made: made.text("data"))
        if _NO_STOCK.search(reply.text):
            raise NoCapacity("landlord.no_capacity", f"AutoDL has no {CARDS[spec][0]} free", seen=reply.text)
        raise self._refused(reply, "the create")

    def holdings(self) -> tuple[Holding, ...]:
        """Return the boxes of every page. File storage has no call and cannot be seen here."""
        return tuple(one for one in map(self._box, self._rows()) if one.state is not State.GONE)

    def holding(self, id: str) -> Holding | None:
        """Return one box; its state is asked for itself, since the list may lag."""
        state, raw = self._state(id)
        if state is State.GONE:
            return None
        row = next((row.value for row in self._rows() if row.text("uuid") == id), {"uuid": id})
        return self._box(Answer("AutoDL", {**row, "status": raw}))

    def act(self, id: str, verb: Act, price: HourlyPrice | None = None) -> bool:
        """Turn off, turn on, or release; a box that is on is turned off before it is released."""
        if verb not in (Act.PARK, Act.RESUME, Act.RELEASE) or "/" in id:
            raise LandlordSaidNo("landlord.no_such_act", f"AutoDL cannot {verb.value} {id}")
        state, _ = self._state(id)
        if state is State.GONE:
            if verb is Act.RELEASE:
                return True
            raise LandlordSaidNo("landlord.gone", f"AutoDL has no {id}")
        if verb is Act.RELEASE:
            return self._release(id, state)
        if state in (_GOES_OFF if verb is Act.PARK else _COMES_UP):
            return True
        if state is State.PARKING:
            return False  # it can be turned on only once it is off
        body = {"instance_uuid": id} | ({"payload": "gpu"} if verb is Act.RESUME else {})
        reply = self._door.send(
            Ask("POST", _BASE + ("power_off" if verb is Act.PARK else "power_on"), body=body, kind=Does.ACT)
        )
        if _code(reply) != "Success":
            if verb is Act.RESUME and _NO_STOCK.search(reply.text):
                raise NoCapacity("landlord.no_capacity", f"AutoDL has no card free for {id}", seen=reply.text)
            raise self._refused(reply, verb.value)
        return True

    def billed(self, id: str, since_unix: float) -> Money | None:
        """Return None: the API has no bill of one box."""
        return None

    # ------------------------------------------------------------ reading

    def _rows(self) -> list[Answer]:
        rows: list[Answer] = []
        for index in range(1, _MOST_PAGES):
            page = self._sent(Ask("POST", _BASE + "list", body={"page_index": index, "page_size": _PAGE}))
            data = page.answer.part("data")
            found = list(data.each("list"))
            rows += found
            if len(rows) >= data.whole("result_total"):
                return rows
            if not found:
                raise data.odd(f"{len(rows)} boxes came of {data.whole('result_total')}")
        raise LandlordDown("landlord.odd_answer", "AutoDL's list does not end", hint="repeat the command")

    def _offer(self, spec: str, need: Need, regions: list[str]) -> Offer:
        card, memory = CARDS[spec]
        parked = self._parked_rate()
        return Offer(
            market=self.name,
            id=f"{spec}|{','.join(regions if need.regions else [])}",
            card=card,
            count=need.count,
            card_gb=memory,
            price=None,
            read_unix=self._door.clock(),
            region=", ".join(regions),
            disk_per_gb=HourlyPrice(Decimal(0), "CNY"),
            egress_per_gb=Money.of(0, "CNY"),
            ingress_per_gb=Money.of(0, "CNY"),
            can_park=True,
            stock_word="unknown",
            cuda_at_most=need.cuda_at_least,
            note=f"price and stock are told only once a box runs; off, it costs {parked} or more",
        )

    def _state(self, id: str) -> tuple[State, str]:
        reply = self._door.send(Ask("GET", _BASE + "status", {"instance_uuid": id}))
        if _code(reply) == _MISSING:
            return State.GONE, ""
        if _code(reply) != "Success":
            raise self._refused(reply, f"the state of {id}")
        raw = reply.answer.text("data")
        return STATES.get(raw, State.UNKNOWN), raw

    def _box(self, row: Answer) -> Holding:
        id, raw = row.text("uuid"), row.text("status")
        state = STATES.get(raw, State.UNKNOWN)
        snapshot = self._snapshot(id) if state in (State.RUNNING, State.PARKING, State.UNKNOWN) else None
        made = row.unix("created_at")
        return Holding(
            id=id,
            kind=Kind.BOX,
            label=row.text("name", ""),
            state=state,
            raw_state=raw,
            rate=self._rate(state, snapshot),
            address=_address(snapshot) if state is State.RUNNING and snapshot else None,
            made_unix=None if made is None else self._door.ours(made),
            cards=row.whole("req_gpu_amount") if row.has("req_gpu_amount") else None,
            card=CARDS.get(row.text("gpu_spec_uuid", ""), (row.text("gpu_spec_uuid", ""), 0))[0],
            region=row.text("region_sign", ""),
            note=row.text("sub_status", ""),
        )

    def _snapshot(self, id: str) -> Answer | None:
        reply = self._door.send(Ask("GET", _BASE + "snapshot", {"instance_uuid": id}))
        if _code(reply) == _MISSING:
            return None  # it went while the list was read; its own state says so
        if _code(reply) != "Success":
            raise self._refused(reply, f"the snapshot of {id}")
        return reply.answer.part("data")

    def _rate(self, state: State, snapshot: Answer | None) -> HourlyPrice | None:
        if state in (State.STARTING, State.GONE):
            return HourlyPrice(Decimal(0), "CNY")
        if state in (State.PARKED, State.RELEASING, State.FAILED):
            return self._parked_rate()
        if snapshot is None or not snapshot.has("payg_price"):
            return None
        return HourlyPrice(snapshot.number("payg_price") / 1000, "CNY")

    def _parked_rate(self) -> HourlyPrice:
        currency, amount = self._facts.storage_per_hour({"system disk": Decimal(0)}, stopped=True).amounts[0]
        return HourlyPrice(amount, currency)

    # ------------------------------------------------------------ the wire

    def _release(self, id: str, state: State) -> bool:
        if state in (State.RUNNING, State.STARTING, State.UNKNOWN):
            self._sent(Ask("POST", _BASE + "power_off", body={"instance_uuid": id}, kind=Does.ACT))
            return False
        if state in (State.PARKING, State.RELEASING):
            return state is State.RELEASING
        reply = self._door.send(Ask("POST", _BASE + "release", body={"instance_uuid": id}, kind=Does.ACT))
        if _code(reply) not in ("Success", _MISSING):
            raise self._refused(reply, "the release")
        return True

    def _sent(self, ask: Ask) -> Reply:
        reply = self._door.send(ask)
        if _code(reply) != "Success":
            raise self._refused(reply, f"{ask.method} {ask.path}")
        return reply

    def _refused(self, reply: Reply, what: str) -> Exception:
        code = _code(reply)
        if code == _BAD_TOKEN or reply.status in (401, 403):
            return BadKey(
                "landlord.bad_key",
                f"AutoDL refuses the token ({code or reply.status}, {what})",
                seen=reply.text,
                hint="lease landlord login autodl-pro; the API needs a real-name or enterprise verification",
            )
        if not code:
            return LandlordDown("landlord.odd_answer", f"AutoDL's answer to {what} has no code", seen=reply.text)
        if _NO_MONEY.search(reply.text):
            return LandlordSaidNo("landlord.no_money", "AutoDL's account has no money", seen=reply.text, hint="top up")
        return LandlordSaidNo("landlord.refused", f"AutoDL refused {what}: {code}", seen=reply.text)


def _address(snapshot: Answer) -> SshAddress | None:
    if not snapshot.has("proxy_host") or not snapshot.has("ssh_port") or not snapshot.text("proxy_host"):
        return None
    port = snapshot.whole("ssh_port")
    return SshAddress(snapshot.text("proxy_host"), "root", port) if port else None


def _start_command(public_key: str) -> str:
    key = shlex.quote(public_key)
    return f"mkdir -p ~/.ssh; grep -qxF {key} ~/.ssh/authorized_keys || echo {key} >> ~/.ssh/authorized_keys"


def _code(reply: Reply) -> str:
    """Return the envelope's code; HTTP says nothing here."""
    return str(reply.value.get("code") or "") if isinstance(reply.value, dict) else ""
