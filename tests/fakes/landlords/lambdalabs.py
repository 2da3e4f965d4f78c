"""Lambda's Cloud API as a server: the operations that we use (vendor specification 1.10.0)."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.schema import SOME_TEXT, TEXT, WHOLE, YES_NO, arr, obj, one_of
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
)

_ERROR = obj("error", closed=True, error=obj("code message", code=TEXT, message=TEXT, suggestion=TEXT))
_REGION = obj("name description", name=TEXT, description=TEXT)
_TYPE = obj(
    "name description gpu_description price_cents_per_hour specs",
    name=TEXT,
    description=TEXT,
    gpu_description=TEXT,
    price_cents_per_hour=WHOLE,
    specs=obj("vcpus memory_gib storage_gib gpus", vcpus=WHOLE, memory_gib=WHOLE, storage_gib=WHOLE, gpus=WHOLE),
)
_STATUS = one_of("booting", "active", "unhealthy", "terminated", "terminating", "preempted", "HIBERNATING")
_INSTANCE = obj(
    "id status ssh_key_names file_system_names region instance_type actions",
    id=TEXT,
    name={"type": "string", "maxLength": 64},
    ip=TEXT,
    status=_STATUS,
    ssh_key_names=arr(TEXT),
    file_system_names=arr(TEXT),
    region=_REGION,
    instance_type=_TYPE,
    tags=arr(obj("key value", key=TEXT, value=TEXT)),
    actions=obj("migrate rebuild restart cold_reboot terminate"),
)
_TAG = obj(
    "key value",
    key={"type": "string", "maxLength": 55, "pattern": "^[a-z][a-z0-9-:]+$"},
    value={"type": "string", "maxLength": 128},
)
_MOUNT = obj(
    "mount_point file_system_id",
    mount_point={"type": "string", "maxLength": 256, "pattern": "^(/home|/lambda/nfs|/data)[//a-zA-Z0-9-]*$"},
    file_system_id=TEXT,
)
_LAUNCH = obj(
    "region_name instance_type_name ssh_key_names",
    closed=True,
    region_name=TEXT,
    instance_type_name=TEXT,
    ssh_key_names=arr(TEXT),
    file_system_names=arr(TEXT),
    file_system_mounts=arr(_MOUNT),
    hostname={"type": "string", "pattern": "^[a-z0-9][0-9a-z-]{0,62}$"},
    name={"type": "string", "maxLength": 64},
    image=obj(),
    user_data=TEXT,
    tags=arr(_TAG),
    firewall_rulesets=arr(obj()),
)
_KEY = obj("id name public_key", id=TEXT, name=SOME_TEXT, public_key=SOME_TEXT)
_FILES = obj(
    "id name mount_point created created_by is_in_use region",
    id=TEXT,
    name=TEXT,
    mount_point=TEXT,
    created=TEXT,
    created_by=obj("id email status"),
    is_in_use=YES_NO,
    region=_REGION,
    bytes_used=WHOLE,
)
_WRONG: dict[int, Any] = {400: _ERROR, 401: _ERROR, 403: _ERROR, 404: _ERROR, 429: _ERROR}
TYPES = {
    "gpu_1x_a100_sxm4": ("A100 (40 GB SXM4)", 1, 199, "us-east-1"),
    "gpu_1x_h100_pcie": ("H100 (80 GB PCIe)", 1, 329, "us-west-3"),
    "gpu_8x_a100_80gb_sxm4": ("A100 (80 GB SXM4)", 8, 1432, "us-east-1"),
}
_WORDS = {
    STARTING: "booting",
    RUNNING: "active",
    STOPPING: "terminating",
    PARKED: "terminated",
    RELEASING: "terminating",
    GONE: "terminated",
    FAILED: "unhealthy",
}


class FakeLambda(FakeLandlord):
    """Instances, filesystems, keys."""

    name = "lambda"

    def __init__(self, clock: VirtualClock | None = None, houses: Houses | None = None) -> None:
        super().__init__(clock, houses)
        self._ids = itertools.count(1)
        self.keys: list[dict[str, str]] = []
        self.world.stock = dict.fromkeys(TYPES, 2)
        self.world.rates = lambda box: dict.fromkeys((RUNNING, RELEASING, FAILED), box.price)
        self.world.when_broke = self._broke

    def _broke(self) -> None:
        """End everything: what really happens when a card is refused is not documented."""
        for box in self.world.live():
            box.phase, box.gone_at = GONE, self.world.clock()

    def preempt(self, box: FakeBox) -> None:
        """Take an instance away."""
        self.world.settle()
        box.phase, box.more["status"] = FAILED, "preempted"

    # ------------------------------------------------------------ the vendor's ways

    def bad_key(self, call: Call) -> Said | None:
        """Answer 401 with a code."""
        if call.headers.get("authorization") == f"Bearer {self.key}":
            return None
        return _no(401, "global/invalid-api-key", "API key was invalid, expired, or deleted.")

    def too_fast(self, retry_after_s: float | None) -> Said:
        """Answer 429, with Retry-After if there is one."""
        said = _no(429, "global/too-many-requests", "Too many requests.")
        return Said(429, said.value, {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"})

    def bad_request(self, call: Call, why: str) -> Said:
        """Answer 400."""
        return _no(400, "global/invalid-parameters", why)

    def not_found(self, call: Call) -> Said:
        """Answer 404."""
        return _no(404, "global/not-found", "The requested resource was not found.")

    # ------------------------------------------------------------ operations

    @route("GET", "/api/v1/instance-types", {200: obj("data", data=obj()), **_WRONG})
    def types(self, call: Call) -> Said:
        """Tell types, prices and where there are some."""
        return Said(200, {"data": {name: self._offer(name) for name in TYPES}})

    def _offer(self, name: str) -> dict[str, Any]:
        regions = [_region(TYPES[name][3])] if self.world.stock[name] > 0 else []
        return {"instance_type": self._type(name), "regions_with_capacity_available": regions}

    def _type(self, name: str, cards: int | None = None, cents: Decimal | None = None) -> dict[str, Any]:
        card, count, price, _ = TYPES[name]
        told = int((price if cents is None else cents) * (self.faults.price_factor if cents is None else 1))
        specs = {"vcpus": 30, "memory_gib": 200, "storage_gib": 512, "gpus": count if cards is None else cards}
        return {
            "name": name,
            "description": f"{count}x {card}",
            "gpu_description": card,
            "price_cents_per_hour": told,
            "specs": specs,
        }

    @route("GET", "/api/v1/ssh-keys", {200: obj("data", data=arr(_KEY)), **_WRONG})
    def ssh_keys(self, call: Call) -> Said:
        """List registered keys."""
        return Said(200, {"data": self.keys})

    @route(
        "POST",
        "/api/v1/ssh-keys",
        {200: obj("data", data=_KEY), **_WRONG},
        body=obj("name", closed=True, name=SOME_TEXT, public_key=SOME_TEXT),
    )
    def add_key(self, call: Call) -> Said:
        """Register a key."""
        made = {"public_key": "ssh-rsa AAAAmadeHere"}  # without one, the landlord makes a pair
        key = {**made, **call.body, "id": f"{next(self._ids):032x}"}
        self.keys.append(key)
        return Said(200, {"data": key})

    @route(
        "POST",
        "/api/v1/instance-operations/launch",
        {200: obj("data", data=obj("instance_ids", instance_ids=arr(TEXT))), **_WRONG},
        body=_LAUNCH,
        does="create",
    )
    def launch(self, call: Call) -> Said:
        """Launch one instance."""
        body = call.body
        kind, region = body["instance_type_name"], body["region_name"]
        if len(body["ssh_key_names"]) != 1 or body["ssh_key_names"][0] not in [key["name"] for key in self.keys]:
            return _no(400, "global/invalid-parameters", "exactly one registered SSH key must be specified")
        if kind not in TYPES or region != TYPES[kind][3]:
            return _no(404, "global/object-does-not-exist", "instance type or region does not exist")
        if self.faults.refuse_creates or self.world.stock[kind] < 1:
            self.faults.refuse_creates = max(0, self.faults.refuse_creates - 1)
            code = "instance-operations/launch/insufficient-capacity"
            return _no(400, code, "Not enough capacity to fulfill launch request.")
        for mount in body.get("file_system_mounts", []):
            if mount["file_system_id"] not in self.world.stores:
                return _no(404, "global/object-does-not-exist", "Filesystem was not found.")
        self.world.stock[kind] -= 1
        price = Decimal(int(TYPES[kind][2] * self.faults.price_factor)) / 100
        id = f"{next(self._ids):032x}"
        name = body.get("name", "")
        box = FakeBox(id, name, kind, TYPES[kind][1], price, Decimal(512), self.world.clock(), more=dict(body))
        box.public_key = next(key["public_key"] for key in self.keys if key["name"] == body["ssh_key_names"][0])
        self.world.make(box)
        return Said(200, {"data": {"instance_ids": [id]}})

    @route("GET", "/api/v1/instances", {200: obj("data", closed=True, data=arr(_INSTANCE)), **_WRONG})
    def instances(self, call: Call) -> Said:
        """List instances."""
        return Said(200, {"data": [self._shown(box) for box in self.world.listed()]})

    @route("GET", "/api/v1/instances/{}", {200: obj("data", closed=True, data=_INSTANCE), **_WRONG})
    def instance(self, call: Call) -> Said:
        """Show one instance; a terminated one is shown for a while."""
        self.world.settle()
        box = self.world.boxes.get(call.parts[0])
        if box is None or (box.phase == GONE and self.world.clock() > (box.gone_at or 0) + 60):
            return _no(404, "global/object-does-not-exist", "Specified instance does not exist.")
        return Said(200, {"data": self._shown(box)})

    @route(
        "POST",
        "/api/v1/instance-operations/terminate",
        {200: obj("data", data=obj("terminated_instances", terminated_instances=arr(_INSTANCE))), **_WRONG},
        body=obj("instance_ids", closed=True, instance_ids=arr(TEXT)),
        does="act",
    )
    def terminate(self, call: Call) -> Said:
        """Terminate instances."""
        boxes = [self.world.find(id) for id in call.body["instance_ids"]]
        found = [box for box in boxes if box is not None]
        if len(found) != len(boxes):
            return _no(404, "global/object-does-not-exist", "Specified instance does not exist.")
        for box in found:
            if box.phase != RELEASING:
                self.world.release(box)
        return Said(200, {"data": {"terminated_instances": [self._shown(box) for box in found]}})

    @route("GET", "/api/v1/file-systems", {200: obj("data", closed=True, data=arr(_FILES)), **_WRONG})
    def filesystems(self, call: Call) -> Said:
        """List filesystems."""
        return Said(200, {"data": [self._files(one) for one in self.world.stores.values()]})

    @route(
        "DELETE",
        "/api/v1/filesystems/{}",
        {200: obj("data", data=obj("deleted_ids", deleted_ids=arr(TEXT))), **_WRONG},
        does="act",
    )
    def delete_files(self, call: Call) -> Said:
        """Delete a filesystem that no instance mounts."""
        one = self.world.stores.get(call.parts[0])
        if one is None:
            return _no(404, "global/object-does-not-exist", "Filesystem was not found.")
        if self._in_use(one):
            return _no(400, "filesystems/filesystem-in-use", "Filesystem is in use.")
        del self.world.stores[one.id]
        return Said(200, {"data": {"deleted_ids": [one.id]}})

    def add_volume(self, name: str, size: int) -> FakeStore:
        """Make a filesystem that holds so many GiB."""
        rate = Decimal("0.20") * size / MONTH_H
        one = FakeStore(f"{next(self._ids):032x}", "volume", name, rate, self.world.clock(), size, "us-east-1")
        self.world.stores[one.id] = one
        return one

    def _in_use(self, one: FakeStore) -> bool:
        return any(one.id in str(box.more.get("file_system_mounts", "")) for box in self.world.live())

    def _files(self, one: FakeStore) -> dict[str, Any]:
        made = datetime.datetime.fromtimestamp(one.made + self.faults.clock_ahead_s, datetime.UTC)
        return {
            "id": one.id,
            "name": one.label,
            "mount_point": f"/lambda/nfs/{one.label}",
            "created": made.isoformat(),
            "created_by": {"id": "1", "email": "me@example.org", "status": "active"},
            "is_in_use": self._in_use(one),
            "region": _region(one.region),
            "bytes_used": one.size_gb << 30,
        }

    def _shown(self, box: FakeBox) -> dict[str, Any]:
        ready = box.phase == RUNNING and box.address is not None and not self.faults.no_ssh
        can = {"available": box.phase == RUNNING}
        shown = {
            "id": box.id,
            "name": box.label,
            "status": self.faults.odd_state or box.more.get("status") or _WORDS[box.phase],
            "ssh_key_names": box.more["ssh_key_names"],
            "file_system_names": [],
            "region": _region(box.more["region_name"]),
            "instance_type": self._type(box.card, box.cards, box.price * 100),
            "tags": box.more.get("tags", []),
            "actions": dict.fromkeys(("migrate", "rebuild", "restart", "cold_reboot", "terminate"), can),
        }
        return {**shown, "ip": box.address[0]} if ready and box.address else shown


def _region(name: str) -> dict[str, str]:
    return {"name": name, "description": name.title()}


def _no(status: int, code: str, message: str) -> Said:
    return Said(status, {"error": {"code": code, "message": message, "suggestion": ""}})
