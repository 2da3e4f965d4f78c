"""AutoDL Pro's API as a server: failures come as HTTP 200, only what is off is released, nobody tells the stock."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.schema import TEXT, WHOLE, arr, maybe, obj, one_of
from tests.fakes.landlords.server import Call, FakeLandlord, Said, route
from tests.fakes.landlords.world import (
    FAILED,
    GONE,
    PARKED,
    RELEASING,
    RUNNING,
    STARTING,
    STOPPING,
    FakeBox,
    Houses,
    key_in,
)

_PRO = "/api/v1/dev/instance/pro/"


def _said(data: Any) -> dict[str, Any]:
    return obj("code msg data request_id", code=TEXT, msg=TEXT, data=maybe(data), request_id=TEXT)


_TIME = maybe(obj("Time Valid", Time=TEXT))
_ROW = obj(
    "uuid name status region_sign req_gpu_amount gpu_spec_uuid",
    uuid=TEXT,
    name=TEXT,
    status=TEXT,
    sub_status=TEXT,
    region_sign=TEXT,
    req_gpu_amount=WHOLE,
    gpu_spec_uuid=TEXT,
    created_at=TEXT,
    stopped_at=_TIME,
)
_LIST = obj("list page_index page_size max_page result_total", list=arr(_ROW), max_page=WHOLE, result_total=WHOLE)
_SNAPSHOT = obj(
    "payg_price proxy_host ssh_port ssh_command root_password",
    payg_price=WHOLE,
    proxy_host=TEXT,
    ssh_port=WHOLE,
    ssh_command=TEXT,
    root_password=TEXT,
)
_CREATE = obj(
    "req_gpu_amount expand_system_disk_by_gb gpu_spec_uuid image_uuid cuda_v_from",
    closed=True,
    req_gpu_amount={"type": "integer", "minimum": 1, "maximum": 4},
    expand_system_disk_by_gb={"type": "integer", "minimum": 0, "maximum": 500},
    gpu_spec_uuid=TEXT,
    image_uuid=TEXT,
    cuda_v_from={"type": "integer", "minimum": 90},
    data_center_list=arr(one_of("westDC3", "beijingDC2")),
    instance_name=TEXT,
    start_command=TEXT,
)
_ONE = obj("instance_uuid", closed=True, instance_uuid=TEXT)
_ON = obj("instance_uuid payload", closed=True, instance_uuid=TEXT, payload=one_of("gpu"), start_command=TEXT)
_TURN = obj(
    "page_index page_size",
    page_index={"type": "integer", "minimum": 1},
    page_size={"type": "integer", "minimum": 1, "maximum": 100},
)
SPECS = {"4090D": "1980", "5090-p": "3030", "pro6000-p": "5980", "v-48g": "2880"}  # CNY/1000 an hour, made up
OFF_A_DAY = Decimal("0.10")
_WORDS = {
    STARTING: "starting",
    RUNNING: "running",
    STOPPING: "shutting_down",
    PARKED: "shutdown",
    RELEASING: "releasing",
    GONE: "released",
    FAILED: "failed",
}


class FakeAutoDl(FakeLandlord):
    """Pro instances and a wallet."""

    name = "autodl-pro"

    def __init__(self, clock: VirtualClock | None = None, houses: Houses | None = None) -> None:
        super().__init__(clock, houses)
        self._ids = itertools.count(1)
        self.world.stock = dict.fromkeys(SPECS, 2)
        self.world.balance = Decimal(200)
        self.faults.stop_s = 20.0
        self.world.rates = self._rates
        self.world.when_broke = self._broke

    # ------------------------------------------------------------ money

    def _rates(self, box: FakeBox) -> dict[str, Decimal]:
        off = OFF_A_DAY / 24
        return {RUNNING: box.price, STOPPING: box.price, PARKED: off, RELEASING: off}

    def _broke(self) -> None:
        """Force every box off; what becomes of its disk then is not documented."""
        for box in self.world.live():
            box.phase, box.address = PARKED, None
            self.world.houses.stop(box)

    # ------------------------------------------------------------ the vendor's ways

    def bad_key(self, call: Call) -> Said | None:
        """Answer HTTP 200 with AuthorizeFailed; a word before the token is part of it, and wrong."""
        return None if call.headers.get("authorization") == self.key else _no("AuthorizeFailed", "登录超时")

    def too_fast(self, retry_after_s: float | None) -> Said:
        """Answer 429; whether the API ever does is not documented."""
        headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
        return Said(429, _no("TooManyRequests", "请求过于频繁").value, headers)

    def bad_request(self, call: Call, why: str) -> Said:
        """Answer HTTP 200 with ParamError."""
        return _no("ParamError", f"请求参数错误: {why}")

    def not_found(self, call: Call) -> Said:
        """Answer 404."""
        return Said(404, {"code": "NotFound", "msg": "", "data": None, "request_id": "r"})

    # ------------------------------------------------------------ operations

    @route("POST", "/api/v1/dev/wallet/balance", {200: _said(obj("", assets=WHOLE)), 429: None})
    def balance(self, call: Call) -> Said:
        """Tell the wallet, in thousandths."""
        assets = int((self.world.balance or Decimal(0)) * 1000)
        return _yes({"assets": assets, "accumulate": int(self.world.spent * 1000), "voucher_balance": 0})

    @route("POST", _PRO + "create", {200: _said(TEXT), 429: None}, body=_CREATE, does="create")
    def create(self, call: Call) -> Said:
        """Make a box, or say that there is none."""
        spec = call.body["gpu_spec_uuid"]
        if spec not in SPECS:
            return _no("ParamError", "请求参数错误")
        if (self.world.balance or 0) <= 0:
            return _no("InternalError", "账户余额不足")
        if self.faults.refuse_creates or self.world.stock[spec] < 1:
            self.faults.refuse_creates = max(0, self.faults.refuse_creates - 1)
            return _no("InternalError", "暂无库存")
        self.world.stock[spec] -= 1
        count = call.body["req_gpu_amount"]
        price = Decimal(SPECS[spec]) / 1000 * count * self.faults.price_factor
        disk = Decimal(30 + call.body["expand_system_disk_by_gb"])
        id = f"pro-{next(self._ids):012x}"
        name = call.body.get("instance_name", "")
        key = key_in(call.body.get("start_command", ""))
        made = self.world.clock()
        self.world.make(FakeBox(id, name, spec, count, price, disk, made, more=dict(call.body), public_key=key))
        return _yes(id)

    @route("POST", _PRO + "list", {200: _said(_LIST), 429: None}, body=_TURN)
    def list(self, call: Call) -> Said:
        """List boxes by pages."""
        size = min(call.body["page_size"], self.faults.page or 100)
        index = call.body["page_index"]
        if index > 1 and self.faults.odd_page:
            return _no("InternalError", "服务器错误")
        every = self.world.listed()
        page = every[(index - 1) * size : index * size]
        pages = -(-len(every) // size)
        shown = {"page_index": index, "page_size": size, "max_page": pages, "result_total": len(every)}
        return _yes({**shown, "list": [self._row(box) for box in page]})

    @route("GET", _PRO + "status", {200: _said(TEXT), 429: None}, query=_ONE)
    def status(self, call: Call) -> Said:
        """Tell a box's state in one word."""
        box = self.world.find(call.query["instance_uuid"])
        return _yes(self.faults.odd_state or _WORDS[box.phase]) if box else _missing()

    @route("GET", _PRO + "snapshot", {200: _said(_SNAPSHOT), 429: None}, query=_ONE)
    def snapshot(self, call: Call) -> Said:
        """Tell price and address; before a box runs they are empty."""
        box = self.world.find(call.query["instance_uuid"])
        if box is None:
            return _missing()
        reached = box.phase == RUNNING and box.address and not self.faults.no_ssh
        host, port = box.address if reached and box.address else ("", 0)
        return _yes(
            {
                "payg_price": int(box.price * 1000),
                "proxy_host": host,
                "ssh_port": port,
                "ssh_command": f"ssh -p {port} root@{host}" if port else "",
                "root_password": "fake-root-password",
                "region_sign": "westDC3",
                "snapshot_gpu_alias_name": box.card,
            }
        )

    @route("POST", _PRO + "power_off", {200: _said(obj()), 429: None}, body=_ONE, does="act")
    def power_off(self, call: Call) -> Said:
        """Turn a box off; one that is going off already is refused."""
        box = self.world.find(call.body["instance_uuid"])
        if box is None:
            return _missing()
        if box.phase not in (RUNNING, STARTING):
            return _no("InternalError", "当前状态不支持关机")
        self.world.stop(box)
        return _yes(None)

    @route("POST", _PRO + "power_on", {200: _said(obj()), 429: None}, body=_ON, does="act")
    def power_on(self, call: Call) -> Said:
        """Turn a box on, if a card is free."""
        box = self.world.find(call.body["instance_uuid"])
        if box is None:
            return _missing()
        if box.phase != PARKED:
            return _no("InternalError", "当前状态不支持开机")
        if self.faults.start_fails:
            return _no("InternalError", "暂无库存")
        self.world.start(box)
        return _yes(None)

    @route("POST", _PRO + "release", {200: _said(obj()), 429: None}, body=_ONE, does="act")
    def release(self, call: Call) -> Said:
        """Release a box that is off."""
        box = self.world.find(call.body["instance_uuid"])
        if box is None:
            return _missing()
        if box.phase not in (PARKED, FAILED):
            return _no("InternalError", "请先关机再释放实例")
        self.world.release(box)
        return _yes(None)

    def _row(self, box: FakeBox) -> dict[str, Any]:
        made = datetime.datetime.fromtimestamp(box.made + self.faults.clock_ahead_s, datetime.UTC)
        return {
            "uuid": box.id,
            "name": box.label,
            "status": self.faults.odd_state or _WORDS[box.phase],
            "sub_status": "",
            "region_sign": "westDC3",
            "region_name": "西北B区",
            "charge_type": "payg",
            "start_mode": "gpu",
            "req_gpu_amount": box.cards,
            "gpu_spec_uuid": box.card,
            "created_at": made.isoformat(),
            "stopped_at": {"Time": "0001-01-01T00:00:00Z", "Valid": False},
        }


def _yes(data: Any) -> Said:
    return Said(200, {"code": "Success", "msg": "", "data": data, "request_id": "req-1"})


def _no(code: str, message: str) -> Said:
    return Said(200, {"code": code, "msg": message, "data": None, "request_id": "req-1"})


def _missing() -> Said:
    return _no("RecordNotFoundError", "记录不存在")
