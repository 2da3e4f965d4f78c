"""vast.ai's REST as a server: the operations that we and its own client use (specification of 2026-08-07, patched).

Patches, as the vendor's own client shows (vast-cli 1.9.1): paths keep their trailing slash, `env` is an object,
`ports` is a Docker port map, offers are a list.
"""

from __future__ import annotations

import base64
import itertools
import json
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.schema import NUMBER, TEXT, WHOLE, YES_NO, arr, maybe, obj, one_of
from tests.fakes.landlords.server import Call, FakeLandlord, Said, route
from tests.fakes.landlords.world import (
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

_ERROR = obj("", success=YES_NO, error=TEXT, msg=TEXT)
_DONE = obj("success", success=YES_NO)
_INSTANCE = obj(
    "id actual_status intended_status cur_state label dph_total num_gpus gpu_name",
    id=WHOLE,
    actual_status=maybe(TEXT),
    intended_status=TEXT,
    cur_state=TEXT,
    label=maybe(TEXT),
    image_runtype=TEXT,
    status_msg=maybe(TEXT),
    ssh_host=TEXT,
    ssh_port=WHOLE,
    public_ipaddr=TEXT,
    ports=maybe({"type": "object", "additionalProperties": arr(obj("HostPort", HostIp=TEXT, HostPort=TEXT))}),
    machine_id=WHOLE,
    start_date=NUMBER,
    end_date=NUMBER,
    num_gpus=WHOLE,
    gpu_name=TEXT,
    disk_space=NUMBER,
    is_bid=YES_NO,
    min_bid=NUMBER,
    dph_base=NUMBER,
    dph_total=NUMBER,
    storage_cost=NUMBER,
    storage_total_cost=NUMBER,
    geolocation=TEXT,
)
_OFFER = obj(
    "id gpu_name num_gpus gpu_ram dph_base dph_total storage_cost machine_id",
    id=WHOLE,
    gpu_name=TEXT,
    num_gpus=WHOLE,
    gpu_ram=NUMBER,
    dph_base=NUMBER,
    dph_total=NUMBER,
    min_bid=NUMBER,
    storage_cost=NUMBER,
)
_RUN_TYPES = (
    "ssh",
    "jupyter",
    "args",
    "ssh_proxy",
    "ssh_direct",
    "jupyter_proxy",
    "jupyter_direct",
    "ssh_direc ssh_proxy",  # what vast-cli 1.9.1 sends for --ssh --direct
)
_CREATE = obj(
    "image",
    closed=True,
    image=TEXT,
    template_hash_id=maybe(TEXT),
    label=maybe(TEXT),
    disk=NUMBER,
    runtype=maybe(one_of(*_RUN_TYPES)),
    target_state=one_of("running", "stopped"),
    price=maybe({"type": "number", "minimum": 0.001, "maximum": 128}),
    env={"type": "object"},
    cancel_unavail=YES_NO,
    vm=YES_NO,
    onstart=maybe(TEXT),
    args=maybe(arr(TEXT)),
    args_str=maybe(TEXT),
    use_jupyter_lab=maybe(YES_NO),
    jupyter_dir=maybe(TEXT),
    python_utf8=maybe(YES_NO),
    lang_utf8=maybe(YES_NO),
    force=maybe(YES_NO),
    user=maybe(TEXT),
    image_login=maybe(TEXT),
    volume_info=maybe(obj("create_new", create_new=YES_NO, volume_id=WHOLE, size=WHOLE, mount_path=TEXT)),
    client_id=TEXT,
    extra=maybe(TEXT),
)
_VOLUMES = obj("volumes", volumes=arr(obj("id", id=WHOLE, disk_space=NUMBER, storage_total_cost=NUMBER)))
_CHARGES = obj("results total", total=WHOLE, results=arr(obj("source amount", source=TEXT, amount=NUMBER)))
_PAGED = obj(
    "success instances instances_found total_instances next_token",
    instances=arr(_INSTANCE),
    instances_found=WHOLE,
    total_instances=WHOLE,
    next_token=maybe(TEXT),
)
_WRONG: dict[int, Any] = {400: _ERROR, 401: _ERROR, 403: _ERROR, 404: _ERROR, 429: None}
MACHINES = {  # machine -> card, memory in MB, an hour, a bid, storage for a GB and month
    101: ("RTX 4090", 24564, "0.35", "0.16", "0.15"),
    102: ("RTX 4090", 24564, "0.42", "0.20", "0.10"),
    103: ("A100 SXM4", 81920, "0.95", "0.55", "0.20"),
}
_ACTUAL = {
    STARTING: "loading",
    RUNNING: "running",
    STOPPING: "running",
    PARKED: "exited",
    RELEASING: "exited",
    GONE: "exited",
}
CONTRACT_S = 30 * 86400.0


class FakeVastAi(FakeLandlord):
    """Offers of machines, instances and volumes."""

    name = "vastai"

    def __init__(self, clock: VirtualClock | None = None, houses: Houses | None = None) -> None:
        super().__init__(clock, houses)
        self._ids = itertools.count(1)
        self.world.stock = dict.fromkeys(map(str, MACHINES), 2)
        self.world.balance = Decimal(50)
        self.world.rates = self._rates
        self.world.when_broke = self._broke

    # ------------------------------------------------------------ money

    def _storage(self, box: FakeBox) -> Decimal:
        return box.disk_gb * Decimal(box.more["storage"]) / MONTH_H

    def _rates(self, box: FakeBox) -> dict[str, Decimal]:
        storage = self._storage(box)
        running = storage + (box.bid if box.bid is not None else box.price)
        return {STARTING: storage, RUNNING: running, STOPPING: running, PARKED: storage, RELEASING: storage}

    def _broke(self) -> None:
        for box in self.world.live():
            box.phase, box.why = PARKED, "insufficient credit"
            box.address = None
            self.world.houses.stop(box)

    def outbid(self, machine: int, price: Decimal) -> None:
        """Let somebody bid more on a machine: instances with a lower bid are stopped at once, without a signal."""
        self.world.settle()
        for box in self.world.live():
            if box.more["machine"] == machine and box.bid is not None and box.bid < price and box.phase == RUNNING:
                box.phase, box.address, box.why = PARKED, None, "outbid"
                self.world.houses.stop(box)

    # ------------------------------------------------------------ the vendor's ways

    def bad_key(self, call: Call) -> Said | None:
        """Answer a wrong key with 404, a missing one with 403."""
        told = call.headers.get("authorization", "")
        if told == f"Bearer {self.key}":
            return None
        if not told:
            return _no(403, "auth_required", "This action requires login")
        return _no(404, "auth_error", "Invalid user key")

    def too_fast(self, retry_after_s: float | None) -> Said:
        """Answer 429 as plain text; it never says for how long."""
        return Said(
            429, raw=b"API requests too frequent endpoint threshold=4.5", headers={"Content-Type": "text/plain"}
        )

    def bad_request(self, call: Call, why: str) -> Said:
        """Answer 400."""
        return _no(400, "invalid_args", why)

    def not_found(self, call: Call) -> Said:
        """Redirect what lacks its slash, as the vendor's own client expects; otherwise 404 in HTML."""
        if not call.path.endswith("/"):
            to = f"{self.address}{call.path}/" + (f"?{urlencode(call.query)}" if call.query else "")
            return Said(301, raw=b"<html>moved</html>", headers={"Location": to})
        return Said(404, raw=b"<html>not found</html>", headers={"Content-Type": "text/html"})

    # ------------------------------------------------------------ operations

    @route("GET", "/api/v0/users/current/", {200: obj("id email", id=WHOLE, email=TEXT, balance=NUMBER), **_WRONG})
    def user(self, call: Call) -> Said:
        """Tell who the key belongs to."""
        credit = round(float(self.world.balance or 0), 4)
        return Said(200, {"id": 4711, "email": "me@example.org", "balance": 0.0, "credit": credit, "ssh_key": ""})

    @route("POST", "/api/v0/bundles/", {200: obj("offers", offers=arr(_OFFER)), **_WRONG}, body=obj())
    def bundles(self, call: Call) -> Said:
        """Search machines; every filter is a field with operators."""
        query = {name: rule for name, rule in call.body.items() if isinstance(rule, dict)}
        count = int(query.get("num_gpus", {}).get("eq", 1))
        storage = Decimal(str(call.body.get("allocated_storage", 5)))
        offers = [self._offer(machine, count, storage) for machine in MACHINES if self.world.stock[str(machine)] > 0]
        found = [offer for offer in offers if all(_passes(offer.get(name), rule) for name, rule in query.items())]
        return Said(200, {"offers": found[: int(call.body.get("limit", 64))]})

    def _offer(self, machine: int, count: int, storage: Decimal) -> dict[str, Any]:
        card, memory, price, bid, per_month = MACHINES[machine]
        base = Decimal(price) * count * self.faults.price_factor
        disk = storage * Decimal(per_month) / MONTH_H
        return {
            "id": machine * 1000 + count,
            "ask_contract_id": machine * 1000 + count,
            "machine_id": machine,
            "host_id": machine + 7,
            "gpu_name": card,
            "gpu_ram": memory,
            "num_gpus": count,
            "dph_base": float(base),
            "dph_total": float(base + disk),
            "min_bid": float(Decimal(bid) * count * self.faults.price_factor),
            "storage_cost": float(per_month),
            "storage_total_cost": float(disk),
            "inet_up_cost": 0.002,
            "inet_down_cost": 0.001,
            "reliability2": 0.995,
            "reliability": 0.995,
            "direct_port_count": 20,
            "disk_space": 500.0,
            "cuda_max_good": 12.8,
            "duration": CONTRACT_S,
            "geolocation": "Kansas, US",
            "verified": True,
            "verification": "verified",
            "rentable": True,
            "rented": False,
            "external": False,
        }

    @route(
        "PUT",
        "/api/v0/asks/{}/",
        {200: obj("success new_contract", success=YES_NO, new_contract=WHOLE), 410: _ERROR, **_WRONG},
        body=_CREATE,
        does="create",
    )
    def create(self, call: Call) -> Said:
        """Accept an offer; 410 if it is gone and the tenant would not wait."""
        number = call.parts[0]
        machine, count = divmod(int(number) if number.isascii() and number.isdigit() else 0, 1000)
        if machine not in MACHINES or not count:
            return _no(404, "no_such_ask", "the offer does not exist")
        if (self.world.balance or 0) <= 0:
            return _no(400, "insufficient_credit", "Your account lacks credit; see the billing page.")
        if self.faults.refuse_creates or self.world.stock[str(machine)] < 1:
            self.faults.refuse_creates = max(0, self.faults.refuse_creates - 1)
            return _no(410, "no_longer_available", "the machine is no longer available")
        box = self._made(machine, count, call.body)
        return Said(200, {"success": True, "new_contract": int(box.id), "instance_api_key": "one-instance-only"})

    def _made(self, machine: int, count: int, body: dict[str, Any]) -> FakeBox:
        card, _, price, _, storage = MACHINES[machine]
        self.world.stock[str(machine)] -= 1
        bid = None if body.get("price") is None else Decimal(str(body["price"]))
        more = {"machine": machine, "storage": storage, "runtype": body.get("runtype") or "ssh", "card": card}
        more["onstart"], more["image"] = body.get("onstart") or "", body["image"]
        box = FakeBox(
            str(7_000_000 + next(self._ids)),
            body.get("label") or "",
            str(machine),
            count,
            Decimal(price) * count * self.faults.price_factor,
            Decimal(str(body.get("disk", 10))),
            self.world.clock(),
            spot=bid is not None,
            bid=bid,
            more=more,
            public_key=key_in(more["onstart"]),
        )
        return self.world.make(box)

    @route("GET", "/api/v1/instances/", {200: _PAGED, **_WRONG})
    def instances(self, call: Call) -> Said:
        """List instances, at most 25 a page."""
        after = 0
        if token := call.query.get("after_token"):
            if self.faults.odd_page:
                return _no(400, "invalid_args", "invalid after_token")
            after = int(json.loads(base64.b64decode(token))["id"])
        every = sorted(self.world.listed(), key=lambda box: int(box.id))
        rest = [box for box in every if int(box.id) > after]
        most = min(int(call.query.get("limit", "25")), self.faults.page or 25, 25)
        page = rest[:most]
        more = base64.b64encode(json.dumps({"id": page[-1].id}).encode()).decode() if len(rest) > most else None
        return Said(
            200,
            {
                "success": True,
                "instances_found": len(page),
                "total_instances": len(every),
                "label_counts": {},
                "next_token": more,
                "instances": [self._shown(box) for box in page],
            },
        )

    @route("GET", "/api/v0/instances/{}/", {200: obj("instances", instances=maybe(_INSTANCE)), **_WRONG})
    def instance(self, call: Call) -> Said:
        """Show one instance; null if there is none."""
        box = self.world.find(call.parts[0])
        return Said(200, {"instances": self._shown(box) if box else None})

    @route(
        "PUT",
        "/api/v0/instances/{}/",
        {200: _DONE, **_WRONG},
        body=obj(state=one_of("stopped", "running"), label={"type": "string", "maxLength": 1024}),
        does="act",
    )
    def manage(self, call: Call) -> Said:
        """Change the state or the label."""
        box = self.world.find(call.parts[0])
        if box is None:
            return _no(404, "no_such_instance", "Instance with that ID does not exist.")
        if "label" in call.body:
            box.label = call.body["label"]
        wanted = call.body.get("state")
        if wanted == "stopped" and box.phase in (STARTING, RUNNING):
            self.world.stop(box)
        elif wanted == "running" and box.phase == PARKED and not self.faults.start_fails:
            self.world.start(box)
        elif wanted == "running" and box.phase == PARKED:
            box.why = "scheduling"
        return Said(200, {"success": True})

    @route("DELETE", "/api/v0/instances/{}/", {200: _DONE, **_WRONG}, does="act")
    def destroy(self, call: Call) -> Said:
        """Destroy an instance."""
        box = self.world.find(call.parts[0])
        if box is None:
            return _no(404, "no_such_instance", "Instance with that ID does not exist.")
        if box.phase != RELEASING:
            self.world.release(box)
        return Said(200, {"success": True})

    @route(
        "PUT",
        "/api/v0/instances/bid_price/{}/",
        {200: _DONE, **_WRONG},
        body=obj("client_id price", client_id=TEXT, price={"type": "number", "minimum": 0.001, "maximum": 32}),
        does="act",
    )
    def bid(self, call: Call) -> Said:
        """Change the bid; an instance that was outbid starts again."""
        box = self.world.find(call.parts[0])
        if box is None or box.bid is None:
            return _no(404, "no_such_instance", "Instance with that ID does not exist.")
        box.bid = Decimal(str(call.body["price"]))
        if box.why == "outbid":
            self.world.start(box)
        return Said(200, {"success": True})

    @route("GET", "/api/v0/volumes/", {200: _VOLUMES, **_WRONG})
    def volumes(self, call: Call) -> Said:
        """List volumes."""
        return Said(200, {"volumes": [self._volume(one) for one in self.world.stores.values()]})

    @route("DELETE", "/api/v0/volumes/", {200: _DONE, **_WRONG}, does="act")
    def delete_volume(self, call: Call) -> Said:
        """Delete a volume, named in the query or in the body."""
        id = call.query.get("id") or str((call.body or {}).get("id", ""))
        if id not in self.world.stores:
            return _no(404, "no_such_volume", "Volume with that ID does not exist.")
        if self.world.stores[id].of:
            return _no(400, "invalid_args", "the volume is attached")
        del self.world.stores[id]
        return Said(200, {"success": True})

    @route("GET", "/api/v0/charges/", {200: _CHARGES, **_WRONG}, query=obj("select_filters", select_filters=TEXT))
    def charges(self, call: Call) -> Said:
        """Tell what each contract cost."""
        rows = [(f"instance-{box.id}", box.billed) for box in self.world.boxes.values()]
        rows += [(f"volume-{one.id}", one.billed) for one in self.world.stores.values()]
        found = [{"source": source, "amount": round(float(amount), 6), "type": "instance"} for source, amount in rows]
        shown = {"success": True, "count": len(found), "total": len(found), "next_token": None, "results": found}
        return Said(200, shown)

    def add_volume(self, label: str, size: int) -> FakeStore:
        """Make a local volume, as a person does in the console."""
        rate = Decimal("0.10") * size / MONTH_H
        one = FakeStore(str(900 + next(self._ids)), "volume", label, rate, self.world.clock(), size_gb=size)
        self.world.stores[one.id] = one
        return one

    def _volume(self, one: FakeStore) -> dict[str, Any]:
        return {
            "id": int(one.id),
            "label": one.label,
            "status": "rented",
            "disk_space": float(one.size_gb),
            "storage_total_cost": float(one.rate),
            "start_date": one.made + self.faults.clock_ahead_s,
            "machine_id": 101,
            "instances": [],
        }

    def _shown(self, box: FakeBox) -> dict[str, Any]:
        stopped = box.phase in (STOPPING, PARKED, RELEASING)
        intended = "stopped" if stopped and box.why not in ("outbid", "scheduling") else "running"
        actual = "stopped" if box.why == "outbid" and box.phase == PARKED else _ACTUAL[box.phase]
        storage = self._storage(box)
        base = box.bid if box.bid is not None else box.price
        reached = box.phase == RUNNING and box.address is not None and not self.faults.no_ssh
        host, port = box.address if reached and box.address else ("", 0)
        made = box.made + self.faults.clock_ahead_s
        shown: dict[str, Any] = {
            "id": int(box.id),
            "actual_status": self.faults.odd_state or actual,
            "intended_status": intended,
            "cur_state": "running" if intended == "running" else "stopped",
            "next_state": intended,
            "label": box.label or None,
            "image_uuid": box.more["image"],
            "image_runtype": box.more["runtype"],
            "extra_env": [],
            "onstart": box.more["onstart"],
            "status_msg": box.why or None,
            "machine_id": box.more["machine"],
            "start_date": made,
            "end_date": made + CONTRACT_S,
            "duration": CONTRACT_S,
            "num_gpus": box.cards,
            "gpu_name": box.more["card"],
            "gpu_ram": MACHINES[box.more["machine"]][1],
            "disk_space": float(box.disk_gb),
            "is_bid": box.spot,
            "min_bid": float(MACHINES[box.more["machine"]][3]),
            "dph_base": float(base),
            "dph_total": float(base + storage),
            "storage_cost": float(box.more["storage"]),
            "storage_total_cost": float(storage),
            "geolocation": "Kansas, US",
            "ports": {"22/tcp": [{"HostIp": "0.0.0.0", "HostPort": str(port)}]} if reached else None,
        }
        if reached:
            shown |= {"public_ipaddr": host, "ssh_host": "ssh5.vast.ai", "ssh_port": 12345}
        return shown


def _no(status: int, error: str, message: str) -> Said:
    return Said(status, {"success": False, "error": error, "msg": message})


_OPERATORS: dict[str, Any] = {
    "eq": lambda seen, told: seen == told,
    "neq": lambda seen, told: seen != told,
    "gt": lambda seen, told: seen > told,
    "gte": lambda seen, told: seen >= told,
    "lt": lambda seen, told: seen < told,
    "lte": lambda seen, told: seen <= told,
    "in": lambda seen, told: seen in told,
    "notin": lambda seen, told: seen not in told,
}


def _passes(seen: Any, rule: dict[str, Any]) -> bool:
    """Compare as the vendor does: a number in a text is a number."""
    if seen is None:
        return True
    return all(
        _OPERATORS[word](seen, type(seen)(told) if isinstance(told, str) else told) for word, told in rule.items()
    )
