"""The cards as the driver's library describes them, else the driver's tool; and the processes on them.

Both describe a card by the same names (`nvidia_smi._FIELDS` lists them all): what was not read is absent or None, a
size is in bytes, and `reasons` lists what slows the clocks in the words of `clock_reasons`.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple

from leasehold.kit.run.processes import MARK, environment

LIBRARY = "libnvidia-ml.so.1"


class Answer(NamedTuple):
    """What the driver reported of the cards, or why it reported nothing."""

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

    said = nvidia_smi.cards(nvidia_smi.PATROLLED)
    if not said.gpus:
        return Answer([], "%s; %s" % (problem, said.problem or "the tool names no card"))
    known = [{name: value for name, value in card.items() if value is not None} for card in said.gpus]
    return Answer([card for card in known if "index" in card])


def whose(card: Dict[str, Any], ours: List[int], mark: str) -> Dict[str, Any]:
    """Sort the processes on a card: ours, others' that we can see, and those of another namespace."""
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
            hidden += 1  # the driver counts in the host's numbers, and we are in a container
    return {"ours": mine, "others": others[:8], "hidden": hidden}


def _name_of(pid: int) -> str:
    try:
        with open("/proc/%d/comm" % pid, "rb") as file:
            return file.read(64).decode("utf-8", "replace").strip()
    except OSError:
        return ""
