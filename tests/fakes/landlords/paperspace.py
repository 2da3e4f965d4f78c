"""Paperspace's REST v1 as a server: the operations that we use, after the vendor's own client (Paperspace/cli)."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.schema import NUMBER, SOME_TEXT, TEXT, WHOLE, YES_NO, arr, maybe, obj, one_of
from tests.fakes.landlords.server import Call, FakeLandlord, Said, route
from tests.fakes.landlords.world import (
    FAILED,
    GONE,
    MONTH_H,
    PARKED,
    RELEASING,
    RUNNING,
    STARTING,
    STOPPING,
    FakeBox,
    FakeStore,
    Houses,
    key_in,
)

_ERROR = obj("code message", code=TEXT, message=TEXT)
_STATE = one_of(
    "off", "starting", "stopping", "restarting", "serviceready", "ready", "upgrading", "provisioning", "HIBERNATING"
)
_MACHINE = obj(
    "id name state machineType publicIp publicIpType region usageRate storageRate storageTotal dtCreated dtDeleted",
    id=TEXT,
    name=TEXT,
    state=_STATE,
    machineType=TEXT,
    publicIp=maybe(TEXT),
    publicIpType=one_of("static", "dynamic", "none"),
    accelerators=maybe(arr(obj("count name", count=WHOLE, name=TEXT))),
    usageRate=NUMBER,
    storageRate=NUMBER,
    storageTotal=WHOLE,
    dtCreated=TEXT,
    dtDeleted=maybe(TEXT),
)
_EVENT = obj("event data", event=obj("id name state", name=TEXT, state=TEXT), data=_MACHINE)
_CREATE = obj(
    "name machineType templateId diskSize region",
    closed=True,
    name=SOME_TEXT,
    machineType=TEXT,
    templateId=TEXT,
    diskSize=one_of(50, 100, 250, 500, 1000, 2000),
    region=one_of("East Coast (NY2)", "West Coast (CA1)", "Europe (AMS1)"),
    publicIpType=one_of("static", "dynamic", "none"),
    startOnCreate=YES_NO,
    emailPassword=YES_NO,
    startupScriptId=TEXT,
    autoShutdownEnabled=YES_NO,
    autoShutdownForce=YES_NO,
    autoShutdownTimeout={"type": "integer", "minimum": 1, "maximum": 168},
    autoSnapshotEnabled=YES_NO,
    takeInitialSnapshot=YES_NO,
    networkId=TEXT,
    enableNvlink=YES_NO,
)
_TEMPLATE = obj(
    "id name availableMachineTypes",
    id=TEXT,
    name=TEXT,
    availableMachineTypes=arr(obj("isAvailable machineTypeLabel", isAvailable=YES_NO, machineTypeLabel=TEXT)),
)
_SCRIPT = obj("id name isEnabled isRunOnce", id=TEXT, name=TEXT, isRunOnce=YES_NO)
_WRONG: dict[int, Any] = {400: _ERROR, 401: _ERROR, 403: _ERROR, 404: _ERROR, 409: _ERROR, 429: _ERROR}


def _page_of(item: Any) -> dict[str, Any]:
    return obj("hasMore items", hasMore=YES_NO, items=arr(item), nextPage=TEXT)


TYPES = {"A4000": ("A4000", 1, "0.76"), "A100-80G": ("A100-80G", 1, "3.18"), "A100-80Gx8": ("A100-80G", 8, "25.44")}
REGION = "East Coast (NY2)"
DISK_MONTH = Decimal("0.10")
_WORDS = {
    STARTING: "provisioning",
    RUNNING: "ready",
    STOPPING: "stopping",
    PARKED: "off",
    RELEASING: "stopping",
    GONE: "off",
    FAILED: "off",
}


class FakePaperspace(FakeLandlord):
    """Machines, drives, snapshots, addresses, startup scripts."""

    name = "paperspace"

    def __init__(self, clock: VirtualClock | None = None, houses: Houses | None = None) -> None:
        super().__init__(clock, houses)
        self._ids = itertools.count(1)
        self.scripts: list[dict[str, Any]] = []
        self._keys: dict[str, str] = {}
        self.world.stock = dict.fromkeys(TYPES, 2)
        self.faults.stop_s = 20.0
        self.world.rates = self._rates
        self.world.when_broke = self._broke

    # ------------------------------------------------------------ money

    def _disk(self, box: FakeBox) -> Decimal:
        return box.disk_gb * DISK_MONTH / MONTH_H

    def _rates(self, box: FakeBox) -> dict[str, Decimal]:
        disk = self._disk(box)
        return {**dict.fromkeys((STARTING, RUNNING, STOPPING), box.price + disk), PARKED: disk, RELEASING: disk}

    def _broke(self) -> None:
        """Turn everything off: what follows an unpaid invoice is not documented."""
        for box in self.world.live():
            box.phase, box.address = PARKED, None

    # ------------------------------------------------------------ the vendor's ways

    def bad_key(self, call: Call) -> Said | None:
        """Answer 401, in the same words for a missing and a wrong key."""
        if call.headers.get("authorization") == f"Bearer {self.key}":
            return None
        return _no(401, "UNAUTHORIZED", "Unauthorized")

    def too_fast(self, retry_after_s: float | None) -> Said:
        """Answer 429, with Retry-After if there is one."""
        headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
        return Said(429, {"code": "TOO_MANY_REQUESTS", "message": "Too many requests"}, headers)

    def bad_request(self, call: Call, why: str) -> Said:
        """Answer 400."""
        return _no(400, "BAD_REQUEST", why)

    def not_found(self, call: Call) -> Said:
        """Answer 404."""
        return _no(404, "NOT_FOUND", "Not found")

    # ------------------------------------------------------------ operations

    @route("GET", "/v1/auth/session", {200: obj("team user", team=obj("id", id=TEXT), user=obj("email")), **_WRONG})
    def session(self, call: Call) -> Said:
        """Tell who the key belongs to."""
        return Said(
            200, {"team": {"id": "te1234567", "namespace": "me"}, "user": {"id": "u1", "email": "me@example.org"}}
        )

    @route("GET", "/v1/os-templates", {200: _page_of(_TEMPLATE), **_WRONG})
    def templates(self, call: Call) -> Said:
        """List images with the machine types that run them."""
        types = [{"isAvailable": True, "machineTypeLabel": name} for name in TYPES]
        mine = {"id": "tmlbox22", "name": "ML-in-a-Box 22.04", "availableMachineTypes": types}
        bare = {"id": "tubuntu", "name": "Ubuntu 22.04", "availableMachineTypes": types}
        return Said(200, {"hasMore": False, "items": [bare, mine]})

    @route(
        "GET",
        "/v1/machine-availability",
        {200: obj("available", available=YES_NO), **_WRONG},
        query=obj("machineType region", machineType=TEXT, region=TEXT),
    )
    def availability(self, call: Call) -> Said:
        """Tell whether there is one now."""
        has = call.query["region"] == REGION and self.world.stock.get(call.query["machineType"], 0) > 0
        return Said(200, {"available": has})

    @route("GET", "/v1/startup-scripts", {200: _page_of(_SCRIPT), **_WRONG})
    def list_scripts(self, call: Call) -> Said:
        """List startup scripts."""
        return Said(200, {"hasMore": False, "items": self.scripts})

    @route(
        "POST",
        "/v1/startup-scripts",
        {200: _SCRIPT, **_WRONG},
        body=obj("name script", closed=True, name=TEXT, script=TEXT, isRunOnce=YES_NO),
    )
    def add_script(self, call: Call) -> Said:
        """Keep a startup script."""
        one = {"id": f"ss{next(self._ids):06d}", "name": call.body["name"], "isEnabled": True, "isRunOnce": False}
        self.scripts.append(one)
        self._keys[one["id"]] = key_in(call.body["script"])
        return Said(200, one)

    @route("POST", "/v1/machines", {200: _EVENT, **_WRONG}, body=_CREATE, does="create")
    def create(self, call: Call) -> Said:
        """Make a machine."""
        kind = call.body["machineType"]
        if kind not in TYPES or call.body["region"] != REGION:
            return _no(400, "BAD_REQUEST", "machineType is not valid in this region")
        if self.faults.refuse_creates or self.world.stock[kind] < 1:
            self.faults.refuse_creates = max(0, self.faults.refuse_creates - 1)
            return _no(400, "BAD_REQUEST", f"{kind} is out of capacity")
        self.world.stock[kind] -= 1
        price = Decimal(TYPES[kind][2]) * self.faults.price_factor
        id, disk = f"ps{next(self._ids):06d}", Decimal(call.body["diskSize"])
        name = call.body["name"]
        box = self.world.make(FakeBox(id, name, kind, TYPES[kind][1], price, disk, self.world.clock(), more=call.body))
        box.public_key = self._keys.get(call.body.get("startupScriptId", ""), "")
        return self._event("create", box)

    @route("GET", "/v1/machines", {200: _page_of(_MACHINE), **_WRONG})
    def machines(self, call: Call) -> Said:
        """List machines by pages."""
        return self._page(call, [self._shown(box) for box in self.world.listed()])

    @route("GET", "/v1/machines/{}", {200: _MACHINE, **_WRONG})
    def machine(self, call: Call) -> Said:
        """Show one machine."""
        box = self.world.find(call.parts[0])
        return Said(200, self._shown(box)) if box else self.not_found(call)

    @route("PATCH", "/v1/machines/{}/stop", {200: _EVENT, **_WRONG}, does="act")
    def stop(self, call: Call) -> Said:
        """Stop a machine that is on."""
        box = self.world.find(call.parts[0])
        if box is None:
            return self.not_found(call)
        if box.phase not in (RUNNING, STARTING):
            return _no(409, "CONFLICT", "machine is not running")
        self.world.stop(box)
        return self._event("stop", box)

    @route("PATCH", "/v1/machines/{}/start", {200: _EVENT, **_WRONG}, does="act")
    def start(self, call: Call) -> Said:
        """Start a machine that is off."""
        box = self.world.find(call.parts[0])
        if box is None:
            return self.not_found(call)
        if box.phase != PARKED:
            return _no(409, "CONFLICT", "machine is not off")
        if self.faults.start_fails:
            return _no(400, "BAD_REQUEST", "out of capacity")
        self.world.start(box)
        return self._event("start", box)

    @route("DELETE", "/v1/machines/{}", {200: _EVENT, **_WRONG}, does="act")
    def delete(self, call: Call) -> Said:
        """Delete a machine that is off."""
        box = self.world.find(call.parts[0])
        if box is None:
            return self.not_found(call)
        if box.phase not in (PARKED, RELEASING):
            return _no(409, "CONFLICT", "machine must be off")
        if box.phase == PARKED:
            self.world.release(box)
        return self._event("deactivate", box)

    @route("GET", "/v1/shared-drives", {200: _page_of(obj("id name size")), **_WRONG})
    def drives(self, call: Call) -> Said:
        """List shared drives."""
        found = [one for one in self.world.stores.values() if one.kind == "volume"]
        return self._page(
            call, [{"id": x.id, "name": x.label, "size": x.size_gb << 30, "region": REGION} for x in found]
        )

    @route("GET", "/v1/snapshots", {200: _page_of(obj("id name machineId")), **_WRONG})
    def snapshots(self, call: Call) -> Said:
        """List snapshots."""
        found = [one for one in self.world.stores.values() if one.kind == "snapshot"]
        shown = [{"id": x.id, "name": x.label, "machineId": x.of, "isAutoSnapshot": True} for x in found]
        return self._page(call, shown)

    @route("GET", "/v1/public-ips", {200: _page_of(obj("ip region dtCreated")), **_WRONG})
    def addresses(self, call: Call) -> Said:
        """List reserved addresses."""
        found = [one for one in self.world.stores.values() if one.kind == "address"]
        shown = [{"ip": x.id, "region": REGION, "dtCreated": _stamp(x.made), "assignedMachineId": x.of} for x in found]
        return self._page(call, shown)

    @route("DELETE", "/v1/{}/{}", {200: None, **_WRONG}, does="act")
    def delete_store(self, call: Call) -> Said:
        """Delete a drive or a snapshot, or give an address back."""
        return Said(200, {"id": call.parts[1]}) if self.world.stores.pop(call.parts[1], None) else self.not_found(call)

    def add_store(self, kind: str, name: str, size: int = 0, of: str = "") -> FakeStore:
        """Make a drive, a snapshot or an address, as a person does in the console."""
        rates = {"address": Decimal("0.0045"), "snapshot": Decimal("0.29") * size / MONTH_H}
        id = f"185.1.1.{next(self._ids)}" if kind == "address" else f"st{next(self._ids):06d}"
        rate = rates.get(kind, Decimal("0.10") * size / MONTH_H)
        one = FakeStore(id, kind, name, rate, self.world.clock(), size, REGION, of)
        self.world.stores[id] = one
        return one

    def _page(self, call: Call, items: list[dict[str, Any]]) -> Said:
        if "after" in call.query and self.faults.odd_page:
            return _no(400, "BAD_REQUEST", "invalid cursor")
        start = int(call.query.get("after", "0"))
        size = min(int(call.query.get("limit", "20")), self.faults.page or 50)
        more = start + size < len(items)
        shown = {"hasMore": more, "items": items[start : start + size]}
        return Said(200, {**shown, "nextPage": str(start + size)} if more else shown)

    def _event(self, name: str, box: FakeBox) -> Said:
        event = {"id": f"ev{next(self._ids):06d}", "name": name, "state": "new", "machineId": box.id}
        return Said(200, {"event": event, "data": self._shown(box)})

    def _shown(self, box: FakeBox) -> dict[str, Any]:
        reached = box.phase == RUNNING and box.address and not self.faults.no_ssh
        card = {"count": box.cards, "name": TYPES[box.card][0], "memory": None}
        return {
            "id": box.id,
            "name": box.label,
            "state": self.faults.odd_state or _WORDS[box.phase],
            "machineType": box.card,
            "publicIp": box.address[0] if reached and box.address else None,
            "publicIpType": "dynamic",
            "accelerators": [card] if box.cards else [],
            "usageRate": float(box.price),
            "storageRate": float(self._disk(box)),
            "storageTotal": int(box.disk_gb) << 30,
            "region": REGION,
            "autoShutdownEnabled": box.more.get("autoShutdownEnabled", False),
            "autoShutdownTimeout": box.more.get("autoShutdownTimeout"),
            "dtCreated": _stamp(box.made + self.faults.clock_ahead_s),
            "dtDeleted": None,
        }


def _stamp(unix: float) -> str:
    return datetime.datetime.fromtimestamp(unix, datetime.UTC).isoformat().replace("+00:00", "Z")


def _no(status: int, code: str, message: str) -> Said:
    return Said(status, {"code": code, "message": message})
