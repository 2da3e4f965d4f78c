"""RunPod's REST v2 as a server: the operations that we use, in a schema of our own words (specification of 2026-08-20).

Not taken over: clusters can be listed, never made; templates, serverless and registries are left out.
"""

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
)

_ERROR = obj("title status detail", title=TEXT, status=WHOLE, detail=TEXT, errors=arr(TEXT))
_SSH = obj("host port username command", host=TEXT, port=WHOLE, username=TEXT, command=TEXT)
_MOUNTS = obj(
    closed=True,
    persistent=obj("size path", closed=True, size={"type": "integer", "minimum": 10}, path=TEXT),
    network=arr(obj("volumeId path", closed=True, volumeId=TEXT, path=TEXT), maxItems=1),
)
_STATUS = ["PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED"]
_POD = obj(
    "id name status actions image args disk mounts ports env registry cloud dataCenterId cudaVersion ssh template cost "
    "locked runtime createdAt startedAt globalNetworking",
    id=TEXT,
    name=TEXT,
    status=one_of(*_STATUS, "HIBERNATING"),  # the last one is nobody's: the test of an unknown word uses it
    actions=arr(one_of("start", "stop", "restart", "terminate")),
    mounts=_MOUNTS,
    gpu=obj("id", id=TEXT, count=WHOLE),
    cloud=one_of("SECURE", "COMMUNITY"),
    dataCenterId=maybe(TEXT),
    ssh=obj("proxy direct", proxy=maybe(_SSH), direct=maybe(_SSH)),
    cluster=obj("id rank", id=TEXT),
    cost=NUMBER,
    locked=YES_NO,
    createdAt=TEXT,
    startedAt=maybe(TEXT),
    globalNetworking=obj("enabled", enabled=YES_NO),
)
_CREATE = obj(
    "name image",
    closed=True,
    name=SOME_TEXT,
    image=SOME_TEXT,
    args=TEXT,
    disk={"type": "integer", "minimum": 1},
    env={"type": "object", "additionalProperties": TEXT},
    ports=arr(TEXT),
    registry=maybe(TEXT),
    cloud=one_of("SECURE", "COMMUNITY"),
    dataCenterIds=arr(TEXT),
    globalNetworking=YES_NO,
    gpu=obj(
        "id",
        closed=True,
        id=TEXT,
        count={"type": "integer", "minimum": 1},
        minCudaVersion={"type": "string", "pattern": r"^\d+\.\d+$"},
        allowedCudaVersions=arr(TEXT),
    ),
    mounts=_MOUNTS,
    startJupyter=YES_NO,
    startSsh=YES_NO,
    templateId=TEXT,
)
_LEVEL = one_of("NONE", "LOW", "MEDIUM", "HIGH")
_BOTH = obj("secure community", secure=NUMBER, community=NUMBER)
_CARD = obj(
    "id name pool manufacturer memory secure community price maxCount",
    id=TEXT,
    name=TEXT,
    memory=WHOLE,
    secure=YES_NO,
    community=YES_NO,
    price=_BOTH,
    maxCount=_BOTH,
    availability=_LEVEL,
    dataCenters=arr(obj("id name availability", id=TEXT, name=TEXT, availability=_LEVEL)),
    cudaVersions=arr(obj("version available", version=TEXT, available=YES_NO)),
)
_VOLUME = obj(
    "id name size dataCenter type",
    id=TEXT,
    name=TEXT,
    size={"type": "integer", "minimum": 10, "maximum": 4096},
    dataCenter=TEXT,
    type=one_of("STANDARD", "HIGH_PERFORMANCE"),
)
_BILL = obj("records metadata", records=arr(obj("totalAmount startTime endTime", totalAmount=NUMBER)))
_READ = {401: None, 403: _ERROR, 404: _ERROR, 429: _ERROR}
_WRITE = {**_READ, 400: _ERROR, 402: _ERROR, 409: _ERROR, 422: _ERROR}
_WORDS = {
    STARTING: "PROVISIONING",
    RUNNING: "RUNNING",
    STOPPING: "RUNNING",
    PARKED: "EXITED",
    RELEASING: "EXITED",
    GONE: "TERMINATED",
    FAILED: "ERROR",
}
_ACTIONS = {
    "RUNNING": ["stop", "restart", "terminate"],
    "EXITED": ["start", "terminate"],
    "ERROR": ["start", "terminate"],
    "PROVISIONING": ["stop", "terminate"],
    "STARTING": ["stop", "terminate"],
}
CARDS = {
    "NVIDIA GeForce RTX 4090": ("RTX 4090", 24, "0.69", "0.34"),
    "NVIDIA A100-SXM4-80GB": ("A100 SXM", 80, "1.74", "0"),
    "NVIDIA H200": ("H200 SXM", 141, "3.59", "0"),
}
DISK_MONTH, STOPPED_MONTH = Decimal("0.10"), Decimal("0.20")


class FakeRunPod(FakeLandlord):
    """Pods, network volumes, a catalogue and a bill."""

    name = "runpod"

    def __init__(self, clock: VirtualClock | None = None, houses: Houses | None = None) -> None:
        super().__init__(clock, houses)
        self._ids = itertools.count(1)
        self.keys: list[str] = []
        self.world.stock = dict.fromkeys(CARDS, 2)
        self.world.rates = self._rates
        self.world.when_broke = self._broke

    # ------------------------------------------------------------ money

    def _rates(self, box: FakeBox) -> dict[str, Decimal]:
        volume, container = box.disk_gb, Decimal(box.more["disk"])
        running = box.price + (volume + container) * DISK_MONTH / MONTH_H
        parked = volume * STOPPED_MONTH / MONTH_H
        return {STARTING: running, RUNNING: running, STOPPING: running, PARKED: parked, RELEASING: parked}

    def _broke(self) -> None:
        """Stop every pod; one without a network volume is terminated with its disks."""
        for box in self.world.live():
            if "network" in box.more["mounts"]:
                box.phase, box.until = PARKED, 0.0
            else:
                box.phase, box.gone_at = GONE, self.world.clock()
                self.world.stock[box.card] += 1
                self.world.houses.destroy(box)

    # ------------------------------------------------------------ the vendor's ways

    def bad_key(self, call: Call) -> Said | None:
        """Answer 401 with an empty body that calls itself JSON."""
        if call.headers.get("authorization") == f"Bearer {self.key}":
            return None
        return Said(401)

    def too_fast(self, retry_after_s: float | None) -> Said:
        """Answer 429, with Retry-After if there is one."""
        headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
        return Said(429, _problem(429, "Too Many Requests", "rate limit exceeded"), headers)

    def bad_request(self, call: Call, why: str) -> Said:
        """Answer 422."""
        return Said(422, {**_problem(422, "Unprocessable Entity", "Request validation failed."), "errors": [why]})

    def not_found(self, call: Call) -> Said:
        """Answer 404."""
        return Said(404, _problem(404, "Not Found", "resource not found"))

    # ------------------------------------------------------------ operations

    @route("GET", "/v2/account/ssh-keys", {200: obj("keys", keys=arr(TEXT)), **_READ})
    def ssh_keys(self, call: Call) -> Said:
        """List the account's keys."""
        return Said(200, {"keys": self.keys})

    @route("GET", "/v2/catalog/gpus", {200: obj("gpus", gpus=arr(_CARD)), **_READ, 400: _ERROR})
    def catalogue(self, call: Call) -> Said:
        """Tell cards, prices and stock."""
        if ("include" in call.query) != ("product" in call.query):
            return Said(400, _problem(400, "Bad Request", "include=AVAILABILITY and product go together"))
        cloud, count = call.query.get("cloud", "SECURE"), int(call.query.get("count", "1"))
        return Said(200, {"gpus": [self._card(id, cloud, count) for id in CARDS]})

    def _card(self, id: str, cloud: str, count: int) -> dict[str, Any]:
        name, memory, secure, community = CARDS[id]
        here = Decimal(secure if cloud == "SECURE" else community) > 0 and self.world.stock[id] > 0 and count <= 8
        level = "HIGH" if here else "NONE"
        factor = self.faults.price_factor
        return {
            "id": id,
            "name": name,
            "pool": None,
            "manufacturer": "NVIDIA",
            "memory": memory,
            "secure": True,
            "community": community != "0",
            "price": {"secure": float(Decimal(secure) * factor), "community": float(Decimal(community) * factor)},
            "maxCount": {"secure": 8, "community": 0 if community == "0" else 4},
            "availability": level,
            "dataCenters": [{"id": "US-KS-2", "name": "US Kansas 2", "availability": level}] if here else [],
            "cudaVersions": [{"version": "12.8", "available": here}],
        }

    @route("POST", "/v2/pods", {201: _POD, **_WRITE}, body=_CREATE, does="create")
    def create(self, call: Call) -> Said:
        """Make a pod, unless a rule is broken or nothing is free: both are 400."""
        body = call.body
        id = body.get("gpu", {}).get("id", "")
        mounts = body.get("mounts", {})
        if id not in CARDS:
            return Said(400, _problem(400, "Bad Request", f"gpu {id!r} is not known"))
        if "persistent" in mounts and "network" in mounts:
            return Said(400, _problem(400, "Bad Request", "mounts.persistent and mounts.network exclude each other"))
        if self.world.balance is not None and self.world.balance <= 0:
            return Said(402, _problem(402, "Payment Required", "insufficient balance"))
        for volume in mounts.get("network", []):
            if volume["volumeId"] not in self.world.stores:
                return Said(404, _problem(404, "Not Found", "network volume not found"))
        if self.faults.refuse_creates or self.world.stock[id] < 1:
            self.faults.refuse_creates = max(0, self.faults.refuse_creates - 1)
            said = "There are no longer any instances available with the requested specifications."
            return Said(400, _problem(400, "Bad Request", said))
        return Said(201, self._shown(self._made(body)))

    def _made(self, body: dict[str, Any]) -> FakeBox:
        id, count, cloud = body["gpu"]["id"], body["gpu"].get("count", 1), body.get("cloud", "SECURE")
        self.world.stock[id] -= 1
        each = Decimal(CARDS[id][2 if cloud == "SECURE" else 3]) * self.faults.price_factor
        size = body.get("mounts", {}).get("persistent", {}).get("size", 0)
        more = {name: body.get(name, default) for name, default in _DEFAULTS.items()}
        pod, key = f"pod{next(self._ids):06d}x", more["env"].get("PUBLIC_KEY", "")
        return self.world.make(
            FakeBox(
                pod, body["name"], id, count, each * count, Decimal(size), self.world.clock(), more=more, public_key=key
            )
        )

    @route("GET", "/v2/pods", {200: obj("pods", pods=arr(_POD)), **_READ})
    def pods(self, call: Call) -> Said:
        """List pods; those of clusters only if asked for."""
        clusters = call.query.get("includeClusterPods") == "true"
        shown = [box for box in self.world.listed() if clusters or "cluster" not in box.more]
        return Said(200, {"pods": [self._shown(box) for box in shown]})

    @route("GET", "/v2/pods/{}", {200: _POD, **_READ})
    def pod(self, call: Call) -> Said:
        """Show one pod."""
        box = self.world.find(call.parts[0])
        return Said(200, self._shown(box)) if box else self.not_found(call)

    @route(
        "POST",
        "/v2/pods/{}/action",
        {200: _POD, 204: None, **_WRITE},
        body=obj("action", closed=True, action=one_of("start", "stop", "restart", "terminate")),
        does="act",
    )
    def action(self, call: Call) -> Said:
        """Change a pod's state; 409 if that is not possible now."""
        box, verb = self.world.find(call.parts[0]), call.body["action"]
        if box is None:
            return self.not_found(call)
        if verb not in _ACTIONS.get(_WORDS[box.phase], []):
            return Said(409, _problem(409, "Conflict", f"{verb} is not valid while the pod is {_WORDS[box.phase]}"))
        if verb == "start" and self.faults.start_fails:
            return Said(400, _problem(400, "Bad Request", "There are not enough free GPUs on the host machine."))
        if verb == "start":
            self.world.start(box)
        elif verb == "stop":
            self.world.stop(box)
        elif verb == "terminate":
            self.world.release(box)
            return Said(204)
        return Said(200, self._shown(box))

    @route("DELETE", "/v2/pods/{}", {204: None, **_WRITE}, does="act")
    def delete(self, call: Call) -> Said:
        """Terminate a pod."""
        box = self.world.find(call.parts[0])
        if box is None:
            return self.not_found(call)
        if "cluster" in box.more:
            return Said(409, _problem(409, "Conflict", "the pod belongs to a cluster"))
        self.world.release(box)
        return Said(204)

    @route("GET", "/v2/network-volumes", {200: obj("networkVolumes", networkVolumes=arr(_VOLUME)), **_READ})
    def volumes(self, call: Call) -> Said:
        """List network volumes."""
        return Said(200, {"networkVolumes": [_volume(one) for one in self.world.stores.values()]})

    @route("GET", "/v2/network-volumes/{}", {200: _VOLUME, **_READ})
    def volume(self, call: Call) -> Said:
        """Show one network volume."""
        one = self.world.stores.get(call.parts[0])
        return Said(200, _volume(one)) if one else self.not_found(call)

    @route("DELETE", "/v2/network-volumes/{}", {204: None, **_WRITE}, does="act")
    def delete_volume(self, call: Call) -> Said:
        """Delete a network volume that no pod uses."""
        used = [box for box in self.world.live() if call.parts[0] in str(box.more["mounts"].get("network", ""))]
        if used:
            return Said(400, _problem(400, "Bad Request", "the network volume is attached to a pod"))
        return Said(204) if self.world.stores.pop(call.parts[0], None) else self.not_found(call)

    @route("GET", "/v2/billing/pods", {200: _BILL, **_READ, 400: _ERROR})
    def bill(self, call: Call) -> Said:
        """Tell what a pod cost, also after it is gone."""
        box = self.world.boxes.get(call.query.get("podId", ""))
        return Said(200, _bill([("podId", box.id, box.billed)] if box else []))

    @route("GET", "/v2/billing/network-volumes", {200: _BILL, **_READ, 400: _ERROR})
    def volume_bill(self, call: Call) -> Said:
        """Tell what a volume cost."""
        one = self.world.stores.get(call.query.get("networkVolumeId", ""))
        return Said(200, _bill([("networkVolumeId", one.id, one.billed)] if one else []))

    def add_volume(self, name: str, size: int) -> FakeStore:
        """Make a network volume, as a person does in the console."""
        rate = Decimal("0.07") * size / MONTH_H
        one = FakeStore(
            f"vol{next(self._ids):05d}", "volume", name, rate, self.world.clock(), size_gb=size, region="US-KS-2"
        )
        self.world.stores[one.id] = one
        return one

    def _shown(self, box: FakeBox) -> dict[str, Any]:
        status = self.faults.odd_state or _WORDS[box.phase]
        direct = None
        if box.phase == RUNNING and box.address and not self.faults.no_ssh and "22/tcp" in box.more["ports"]:
            direct = _ssh("root", *box.address)
        made = _stamp(box.made + self.faults.clock_ahead_s)
        gpu = {"gpu": {"id": box.card, "count": box.cards}} if box.cards else {}
        return {
            "id": box.id,
            "name": box.label,
            "status": status,
            "actions": _ACTIONS.get(status, []),
            **box.more,
            **gpu,
            "args": "",
            "registry": None,
            "dataCenterId": "US-KS-2",
            "cudaVersion": "12.8",
            "ssh": {"proxy": _ssh(f"{box.id}-64411eb2", "ssh.runpod.io", 22), "direct": direct},
            "template": None,
            "cost": float(box.price) if box.phase in (STARTING, RUNNING, STOPPING) else 0.0,
            "locked": False,
            "runtime": {"uptime": 1} if box.phase == RUNNING else None,
            "createdAt": made,
            "startedAt": made if box.phase == RUNNING else None,
            "globalNetworking": {"enabled": False},
        }


_DEFAULTS: dict[str, Any] = {"image": "", "disk": 10, "mounts": {}, "ports": [], "env": {}, "cloud": "SECURE"}


def _problem(status: int, title: str, detail: str) -> dict[str, Any]:
    return {"title": title, "status": status, "detail": detail}


def _ssh(user: str, host: str, port: int) -> dict[str, Any]:
    return {"host": host, "port": port, "username": user, "command": f"ssh {user}@{host} -p {port}"}


def _volume(one: FakeStore) -> dict[str, Any]:
    return {"id": one.id, "name": one.label, "size": one.size_gb, "dataCenter": one.region, "type": "STANDARD"}


def _stamp(unix: float) -> str:
    return datetime.datetime.fromtimestamp(unix, datetime.UTC).isoformat().replace("+00:00", "Z")


def _bill(rows: list[tuple[str, str, Decimal]]) -> dict[str, Any]:
    hour = {"startTime": "2026-09-01T00:00:00Z", "endTime": "2026-09-01T01:00:00Z"}
    part = {"gpuAmount": 0.0, "cpuAmount": 0.0, "diskAmount": 0.0, "standardAmount": 0.0, "highPerformanceAmount": 0.0}
    records = [{**hour, **part, name: id, "totalAmount": float(amount)} for name, id, amount in rows]
    totals = {**part, "totalAmount": sum(record["totalAmount"] for record in records)}
    counts = {"recordCount": len(records), "uniquePodCount": len(records), "uniqueNetworkVolumeCount": len(records)}
    return {"records": records, "metadata": {"query": {**hour, "bucketSize": "hour"}, **counts, "totals": totals}}
