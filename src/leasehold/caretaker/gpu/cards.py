"""The cards as the driver's library tells of them, else the driver's tool; and who is on them."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple

from leasehold.kit.run.processes import MARK, environment

LIBRARY = "libnvidia-ml.so.1"
_MIB = 1 << 20


class Answer(NamedTuple):
    """What the cards said, or why they said nothing."""

    gpus: List[Dict[str, Any]]
    problem: str = ""


def ask_driver(library: str = LIBRARY) -> Answer:
    """Ask the driver's library, else the driver's tool; heavy, so only in a child."""
    from .nvml import CannotAsk, Nvml

    try:
        nvml = Nvml(library)
    except CannotAsk as error:
        return _ask_tool(str(error))
    found = nvml.cards()
    nvml.close()
    return Answer(found)


def _ask_tool(problem: str) -> Answer:
    from . import nvidia_smi

    said = nvidia_smi.cards([*_TOOLS_NAMES, *_TOOLS_REASONS])
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
