"""Watch the cards for a few seconds: samples, faults, the driver, and the processes that hold them. Home judges."""

from __future__ import annotations

import glob
import json
import re
import time
from typing import Any, Callable, Dict, List

from leasehold.caretaker.machine import kernel_log
from leasehold.caretaker.process.process_table import ProcessTable
from leasehold.caretaker.wire.connection import Refused, Request

from . import nvidia_smi
from .card_holders import YOUNG_S, Sight, blind, end, holders, own_namespace
from .driver_codes import explain

_MOST_SAMPLES = 60
_MODULE = re.compile(r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)")
_DEVICES = "/dev"
_WATCH_S = 5.0  # long enough to see whether a process does anything


def _nobody(value: Dict[str, Any]) -> None:
    """Report to nobody."""


def survey(request: Request) -> None:
    """Answer samples as they come, then everything."""
    count = max(1, min(_MOST_SAMPLES, int(request.args.get("samples", 5))))
    period_s = max(0.0, min(10.0, float(request.args.get("period_s", 1.0))))
    request.reply(look(request.root, count, period_s, tell=request.reply))


def look(
    root: str, count: int, period_s: float, min_age_s: float = YOUNG_S, tell: Callable[[Dict[str, Any]], None] = _nobody
) -> Dict[str, Any]:
    """Sample the cards, read what the driver and the kernel report, and judge the processes that hold them."""
    before, begun = ProcessTable(), time.monotonic()
    answer = nvidia_smi.cards()
    devices = sorted(glob.glob(_DEVICES + "/nvidia[0-9]*"))
    samples = []
    for number in range(count if answer.gpus or devices else 0):
        if number:
            time.sleep(period_s)
        samples.append(nvidia_smi.cards(nvidia_smi.SAMPLED).gpus)
        tell({"sample": number + 1, "of": count})
    sight = _sight(before, begun)
    return {
        "cards": answer.gpus,
        "problem": answer.problem,
        "samples": samples,
        "cuda": nvidia_smi.cuda_of_driver() if answer.gpus else "",
        "toolkit": _toolkit(),
        "module": _kernel_module(),
        "kernel": _kernel(),
        "devices": devices,
        "listed": [list(item) for item in sight.listed],
        "blind": blind(sight),
        "own_namespace": own_namespace(),
        "holders": holders(root, sight, min_age_s),
    }


def at_a_glance() -> Dict[str, Any]:
    """Read the cards' faults and the kernel log once, for the audit."""
    answer = nvidia_smi.cards()
    return {"cards": answer.gpus, "problem": answer.problem, "kernel": _kernel()}


def end_holders(request: Request) -> None:
    """End the named zombies: each must still be one by a fresh look, with the same start time."""
    targets: List[Any] = list(request.args.get("targets") or [])
    if not all(isinstance(item, dict) and {"pid", "started"} <= set(item) for item in targets):
        raise Refused("wire.bad_request", "targets are objects with pid and started")
    grace_s = max(0.0, min(120.0, float(request.args.get("grace_s", 10.0))))
    request.reply({"results": end_now(request.root, targets, grace_s)})


def end_now(root: str, targets: List[Any], grace_s: float, min_age_s: float = YOUNG_S) -> List[Dict[str, Any]]:
    """Watch again for a while, then end those of the targets that are still zombies."""
    before, begun = ProcessTable(), time.monotonic()
    time.sleep(_WATCH_S)
    return end(targets, holders(root, _sight(before, begun), min_age_s), grace_s)


def _kernel() -> Dict[str, Any]:
    """List Xid lines since boot, each with its meaning and whether it is a reason to leave the box."""
    said = kernel_log.xids()
    return dict(said, xids=[dict(item, **explain(item["xid"])._asdict()) for item in said["xids"]])


def _sight(before: ProcessTable, begun: float) -> Sight:
    listed, _ = nvidia_smi.listed()
    return Sight(before, ProcessTable(), time.monotonic() - begun, listed, _DEVICES)


def _toolkit() -> str:
    """Return the CUDA toolkit installed on the box; frameworks usually bring their own."""
    try:
        with open("/usr/local/cuda/version.json", "rb") as file:
            return str(json.loads(file.read().decode("utf-8"))["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _kernel_module() -> str:
    """Return the driver version in the kernel; libraries of another version cannot talk to it."""
    try:
        with open("/proc/driver/nvidia/version", "rb") as file:
            found = _MODULE.search(file.read(4000).decode("utf-8", "replace"))
    except OSError:
        return ""
    return found.group(1) if found else ""
