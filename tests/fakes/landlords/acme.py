"""The landlord of docs/landlords-own.md as a server; nobody rents there."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.schema import NUMBER, SOME_TEXT, TEXT, WHOLE, arr, maybe, obj
from tests.fakes.landlords.server import Call, FakeLandlord, Said, route
from tests.fakes.landlords.world import GONE, PARKED, RELEASING, RUNNING, STARTING, STOPPING, FakeBox, Houses

_ERROR = obj("error", error=TEXT)
_BOX = obj(
    "id label state usd_hour ssh made cards",
    id=TEXT,
    label=TEXT,
    state=TEXT,
    usd_hour=NUMBER,
    ssh=maybe(obj("host port", host=TEXT, port=WHOLE)),
    made=TEXT,
    cards=WHOLE,
)
_OFFER = obj("id card cards gb usd_hour", id=TEXT, card=TEXT, cards=WHOLE, gb=WHOLE, usd_hour=NUMBER)
_CREATE = obj("offer label", closed=True, offer=TEXT, label=SOME_TEXT, gb=WHOLE, key=TEXT)
_WRONG: dict[int, Any] = {400: _ERROR, 401: _ERROR, 404: _ERROR, 409: _ERROR, 429: _ERROR}
CARDS = {"t4": ("T4", 16, "0.20"), "l4": ("L4", 24, "0.50")}
_WORDS = {STARTING: "booting", RUNNING: "up", STOPPING: "up", PARKED: "off", RELEASING: "deleting", GONE: "deleting"}


class FakeAcme(FakeLandlord):
    """Boxes by pages, a balance, a stop."""

    name = "acme"

    def __init__(self, clock: VirtualClock | None = None, houses: Houses | None = None) -> None:
        super().__init__(clock, houses)
        self._ids = itertools.count(1)
        self.world.stock = dict.fromkeys(CARDS, 2)
        self.world.balance = Decimal(50)
        self.world.rates = self._rates
        self.world.when_broke = self._broke

    def _rates(self, box: FakeBox) -> dict[str, Decimal]:
        off = Decimal("0.01")
        return {**dict.fromkeys((STARTING, RUNNING, STOPPING), box.price), PARKED: off, RELEASING: off}

    def _broke(self) -> None:
        for box in self.world.live():
            box.phase, box.address = PARKED, None

    def bad_key(self, call: Call) -> Said | None:
        """Answer 401."""
        return None if call.headers.get("authorization") == f"Bearer {self.key}" else _no(401, "bad_key")

    def too_fast(self, retry_after_s: float | None) -> Said:
        """Answer 429."""
        headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
        return Said(429, {"error": "too_fast"}, headers)

    def bad_request(self, call: Call, why: str) -> Said:
        """Answer 400."""
        return _no(400, why)

    def not_found(self, call: Call) -> Said:
        """Answer 404."""
        return _no(404, "no_such_path")

    @route("GET", "/me", {200: obj("id email usd", id=TEXT, email=TEXT, usd=NUMBER), **_WRONG})
    def me(self, call: Call) -> Said:
        """Tell the owner."""
        return Said(200, {"id": "me-1", "email": "me@example.org", "usd": float(self.world.balance or 0)})

    @route("GET", "/offers", {200: obj("offers", offers=arr(_OFFER)), **_WRONG})
    def offers(self, call: Call) -> Said:
        """Tell what is in stock."""
        shown = [self._offer(id, int(call.query.get("count", "1"))) for id in CARDS if self.world.stock[id] > 0]
        return Said(200, {"offers": shown})

    def _offer(self, id: str, count: int) -> dict[str, Any]:
        card, memory, price = CARDS[id]
        hour = Decimal(price) * count * self.faults.price_factor
        return {"id": f"{id}:{count}", "card": card, "cards": count, "gb": memory, "usd_hour": float(hour)}

    @route("POST", "/boxes", {201: obj("id", id=TEXT), **_WRONG}, body=_CREATE, does="create")
    def create(self, call: Call) -> Said:
        """Make a box."""
        id, _, count = call.body["offer"].partition(":")
        if id not in CARDS or not count.isdigit():
            return _no(400, "no_such_offer")
        if self.faults.refuse_creates or self.world.stock[id] < 1:
            self.faults.refuse_creates = max(0, self.faults.refuse_creates - 1)
            return _no(409, "no_capacity")
        self.world.stock[id] -= 1
        price = Decimal(CARDS[id][2]) * int(count) * self.faults.price_factor
        name, label, key = f"b{next(self._ids)}", call.body["label"], call.body.get("key", "")
        size = Decimal(call.body.get("gb", 0))
        self.world.make(FakeBox(name, label, id, int(count), price, size, self.world.clock(), public_key=key))
        return Said(201, {"id": name})

    @route("GET", "/boxes", {200: obj("boxes", boxes=arr(_BOX), next=WHOLE), **_WRONG})
    def boxes(self, call: Call) -> Said:
        """List boxes by pages."""
        page, size = int(call.query.get("page", "1")), self.faults.page or 20
        if page > 1 and self.faults.odd_page:
            return _no(400, "no_such_page")
        every = self.world.listed()
        shown = {"boxes": [self._shown(box) for box in every[(page - 1) * size : page * size]]}
        return Said(200, {**shown, "next": page + 1} if len(every) > page * size else shown)

    @route("GET", "/boxes/{}", {200: _BOX, **_WRONG})
    def box(self, call: Call) -> Said:
        """Show one box."""
        box = self.world.find(call.parts[0])
        return Said(200, self._shown(box)) if box else _no(404, "no_such_box")

    @route("POST", "/boxes/{}/stop", {200: obj(), **_WRONG}, does="act")
    def stop(self, call: Call) -> Said:
        """Stop a box that is on."""
        box = self.world.find(call.parts[0])
        if box is None:
            return _no(404, "no_such_box")
        if box.phase in (STARTING, RUNNING):
            self.world.stop(box)
        return Said(200, {})

    @route("POST", "/boxes/{}/start", {200: obj(), **_WRONG}, does="act")
    def start(self, call: Call) -> Said:
        """Start a box that is off."""
        box = self.world.find(call.parts[0])
        if box is None:
            return _no(404, "no_such_box")
        if box.phase == PARKED and self.faults.start_fails:
            return _no(409, "no_capacity")
        if box.phase == PARKED:
            self.world.start(box)
        return Said(200, {})

    @route("DELETE", "/boxes/{}", {200: obj(), **_WRONG}, does="act")
    def delete(self, call: Call) -> Said:
        """Delete a box."""
        box = self.world.find(call.parts[0])
        if box is None:
            return _no(404, "no_such_box")
        if box.phase != RELEASING:
            self.world.release(box)
        return Said(200, {})

    def _shown(self, box: FakeBox) -> dict[str, Any]:
        reached = box.phase == RUNNING and box.address and not self.faults.no_ssh
        made = datetime.datetime.fromtimestamp(box.made + self.faults.clock_ahead_s, datetime.UTC)
        return {
            "id": box.id,
            "label": box.label,
            "state": self.faults.odd_state or _WORDS[box.phase],
            "usd_hour": float(self.world.rate_of(box)),
            "ssh": {"host": box.address[0], "port": box.address[1]} if reached and box.address else None,
            "made": made.isoformat(),
            "cards": box.cards,
        }


def _no(status: int, error: str) -> Said:
    return Said(status, {"error": error})
