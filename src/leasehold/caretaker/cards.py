"""Ask the cards now and then, each time from a child that lives for the moment: opening the driver is heavy, and it may
hang. The more an answer costs, the more seldom it is asked for."""

from __future__ import annotations

import json
import os
import select
import signal
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from leasehold.kit.atomic import write_all
from leasehold.kit.procs import MARK, environment

from .nvml import LIBRARY, CannotAsk, Nvml
from .worker import close_all_but

_EVERY_S = 15.0  # 15 ms of processor a time on an H200: 0.1 % of a core
_COST_SHARE = 0.002  # of a core, at most, where an answer costs more
_SELDOM_S = 600.0  # without a driver, or after one that hung
_HANGS_S = 30.0
_FIRST_WAIT_S = 0.25
_READ_BYTES = 1 << 16
_MOST_BYTES = 1 << 20
_MIB = 1 << 20


class Answer(NamedTuple):
    """What the cards said, or why they said nothing; `hung` when the driver never came back."""

    gpus: List[Dict[str, Any]]
    problem: str = ""
    hung: bool = False


class Cards:
    """Asks in the background; `read` never waits longer than a quarter of a second."""

    def __init__(self, ask: Optional[Callable[[], Answer]] = None) -> None:
        self._ask = ask or ask_driver
        self._asker: Optional[_Asker] = None
        self._due_s = float("-inf")
        self._stuck = 0  # a child that even SIGKILL does not end, while the kernel waits for the card

    def read(self, now_s: float) -> Optional[Answer]:
        """Return an answer when there is a new one, else None."""
        if self._asker is None and now_s >= self._due_s and not self._still_stuck():
            self._asker = _Asker(self._ask, now_s)
            self._asker.wait(_FIRST_WAIT_S)
        if self._asker is None:
            return None
        answer = self._asker.answer()
        if answer is None and now_s - self._asker.begun_s < _HANGS_S:
            return None
        if answer is None:
            self._stuck = self._asker.abandon()
            answer = Answer([], "the driver did not answer in %d s" % _HANGS_S, hung=True)
        cost_s = self._asker.cost_s / _COST_SHARE
        self._due_s = now_s + (max(_EVERY_S, min(cost_s, _SELDOM_S)) if answer.gpus else _SELDOM_S)
        self._asker = None
        return answer

    def _still_stuck(self) -> bool:
        """At most one child may hang: until the kernel lets it go, nobody asks again."""
        if not self._stuck:
            return False
        try:
            gone, _ = os.waitpid(self._stuck, os.WNOHANG)
        except ChildProcessError:
            gone = self._stuck
        self._stuck = 0 if gone else self._stuck
        return bool(self._stuck)


class _Asker:
    """One child, its pipe, and what it cost."""

    def __init__(self, ask: Callable[[], Answer], begun_s: float) -> None:
        self.begun_s, self.cost_s = begun_s, 0.0
        self._heard, tell = os.pipe()
        self._said = b""
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.setsid()
                close_all_but([tell])
                write_all(tell, json.dumps(ask()._asdict()).encode("ascii"))
            finally:
                os._exit(0)
        os.close(tell)
        os.set_blocking(self._heard, False)

    def wait(self, wait_s: float) -> None:
        """Give it a moment: most answers come at once."""
        select.select([self._heard], [], [], wait_s)

    def answer(self) -> Optional[Answer]:
        """Return what it said once it has ended, else None."""
        while len(self._said) <= _MOST_BYTES:
            try:
                chunk = os.read(self._heard, _READ_BYTES)
            except BlockingIOError:
                return None
            if not chunk:
                break
            self._said += chunk
            self.wait(_FIRST_WAIT_S)  # the rest, and its end, follow the first bytes
        os.close(self._heard)
        _, _, usage = os.wait4(self._pid, 0)
        self.cost_s = usage.ru_utime + usage.ru_stime
        try:
            return Answer(**json.loads(self._said.decode("utf-8")))
        except (ValueError, TypeError):
            return Answer([], "the child that asked the driver died")

    def abandon(self) -> int:
        """Kill it; return its pid if the kernel does not let go of it."""
        os.close(self._heard)
        os.killpg(self._pid, signal.SIGKILL)  # the driver's tool too, if it was that
        gone, _ = os.waitpid(self._pid, os.WNOHANG)
        return 0 if gone else self._pid


def ask_driver(library: str = LIBRARY) -> Answer:
    """Ask the driver's library, else the driver's tool; heavy, so only in a child."""
    try:
        nvml = Nvml(library)
    except CannotAsk as error:
        return _ask_tool(str(error))
    found = nvml.cards()
    nvml.close()
    return Answer(found)


def _ask_tool(problem: str) -> Answer:
    from . import gpu_query

    said = gpu_query.cards([*_TOOLS_NAMES, *_TOOLS_REASONS])
    if not said.rows:
        return Answer([], "%s; %s" % (problem, said.problem or "the tool names no card"))
    return Answer([_from_tool(row) for row in said.rows if str(row.get("index", "")).isdigit()])


def _from_tool(row: Dict[str, Any]) -> Dict[str, Any]:
    card: Dict[str, Any] = {"index": int(row["index"]), "name": row.get("name")}
    for asked, (name, unit) in _TOOLS_NAMES.items():
        if unit and isinstance(row.get(asked), (int, float)):
            card[name] = row[asked] * unit
    card["reasons"] = [name for asked, name in _TOOLS_REASONS.items() if row.get(asked)]
    return card


_TOOLS_NAMES = {  # the tool's query -> our name, and the unit
    "index": ("index", 0),
    "name": ("name", 0),
    "utilisation": ("util_percent", 1),
    "memory_used_mib": ("memory_used_bytes", _MIB),
    "memory_total_mib": ("memory_total_bytes", _MIB),
    "sm_mhz": ("sm_mhz", 1),
    "sm_max_mhz": ("sm_mhz_max", 1),
    "power_w": ("power_w", 1),
    "temperature_c": ("temperature_c", 1),
    "ecc_uncorrected": ("ecc_uncorrected", 1),
}
_TOOLS_REASONS = {
    "hw_slowdown": "hw_slowdown",
    "hw_thermal": "hw_thermal_slowdown",
    "hw_power_brake": "hw_power_brake",
    "sw_thermal": "sw_thermal_slowdown",
    "sw_power_cap": "sw_power_cap",
}


def whose(card: Dict[str, Any], ours: List[int], mark: str) -> Dict[str, Any]:
    """Tell whose the processes on a card are: ours, others' that we can see, and those of another namespace."""
    if card.get("processes") is None:
        return {}
    mine, hidden, others = 0, 0, []
    for one in card["processes"]:
        pid = one["pid"]
        if pid in ours or environment(pid).get(MARK, "").startswith(mark):
            mine += 1
        elif os.path.exists("/proc/%d" % pid):
            others.append(dict(one, name=_name_of(pid)))
        else:
            hidden += 1  # the driver counts in the host's numbers, and we live in a container
    return {"ours": mine, "others": others[:8], "hidden": hidden}


def _name_of(pid: int) -> str:
    try:
        with open("/proc/%d/comm" % pid, "rb") as file:
            return file.read(64).decode("utf-8", "replace").strip()
    except OSError:
        return ""
