"""One of the patrol's readings as a line: state, training, cards, memory, disks, alarms."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from leasehold.model.values.units import number
from leasehold.model.values.wording import one_line

_GIB = 1024.0


def patrol_line(record: Mapping[str, Any]) -> str:
    """Format one record as a line."""
    at = time.strftime("%m-%d %H:%M:%S", time.localtime(float(record["t"])))
    parts = [f"{at}  {record.get('s') or '?'}", *_training(record), *_cards(record), *_box(record)]
    alarms = record.get("a")
    if isinstance(alarms, list) and alarms:
        parts.append("ALARMS: " + ", ".join(str(name) for name in alarms[:8]))
    return one_line("  ".join(parts))


def _training(record: Mapping[str, Any]) -> Iterator[str]:
    step, rate, loss = number(record.get("step")), number(record.get("rate")), number(record.get("loss"))
    if step is not None:
        yield f"step {step:,.0f}" + (f" ({rate:.3g}/s)" if rate is not None else "")
    if "loss" in record:
        yield "loss not a number" if loss is None else f"loss {loss:.4g}"
    quiet, cries = number(record.get("quiet")), number(record.get("cries"))
    if quiet is not None:
        yield f"quiet {quiet:.0f} s"
    if cries:
        yield f"{cries:.0f} tracebacks"
    processes, cpu = number(record.get("procs")), number(record.get("cpu"))
    yield f"{processes or 0:.0f} processes" + (f" {cpu:.0f}% cpu" if cpu is not None else "")


def _cards(record: Mapping[str, Any]) -> Iterator[str]:
    rows = record.get("gpus")
    for place, row in enumerate(rows if isinstance(rows, list) else []):
        util, used, power, heat = _figures(row, 4)
        figures = [
            f"{util:.0f}%" if util is not None else "",
            f"{used / _GIB:.0f} GiB" if used is not None else "",
            f"{power:.0f} W" if power is not None else "",
            f"{heat:.0f} C" if heat is not None else "",
        ]
        yield f"gpu{place} " + " ".join(filter(None, figures))


def _box(record: Mapping[str, Any]) -> Iterator[str]:
    used, limit = number(record.get("mem")), number(record.get("lim"))
    if used is not None:
        yield f"mem {used / _GIB:.1f}" + (f"/{limit / _GIB:.0f} GiB" if limit else " GiB")
    rows = record.get("disks")
    for row in rows if isinstance(rows, list) else []:
        full, _, inodes = _figures(row, 3)
        if full is not None:
            yield f"disk {full:.0f}%" + (f" inodes {inodes:.0f}%" if inodes is not None else "")


def _figures(row: Any, count: int) -> list[float | None]:
    listed = row if isinstance(row, list) else []
    return [number(value) for value in [*listed, *[None] * count][:count]]
