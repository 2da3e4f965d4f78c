"""Format GPUs and the processes that hold them from the data that --json gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leasehold.model.values.units import say_bytes
from leasehold.model.values.wording import ago

_MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL", "unknown": "?   "}
_COMMAND_WIDTH = 48


def card_lines(seen: Mapping[str, Any]) -> Iterator[str]:
    """Yield the machine's findings, then each GPU with its own."""
    yield from _findings(seen, "")
    for card in seen["cards"]:
        index = str(card.get("index"))
        yield f"card {index}: {card.get('name')}  {card.get('uuid')}"
        yield from _findings(seen, index)


def holder_rows(holders: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Format the processes that use a GPU, zombies first."""
    rows = []
    for row in sorted(holders, key=lambda item: (not item["zombie"], item["pid"])):
        memory = "?" if row["memory_bytes"] is None else say_bytes(row["memory_bytes"])
        what = ("ZOMBIE " if row["zombie"] else "") + row["command"]
        short = what if len(what) <= _COMMAND_WIDTH else what[: _COMMAND_WIDTH - 1] + "…"
        rows.append([str(row["pid"]), ",".join(row["cards"]) or "?", ago(row["age_s"]), memory, short, row["why"]])
    return rows


def _findings(seen: Mapping[str, Any], card: str) -> Iterator[str]:
    for health in seen["health"]:
        if health["card"] == card:
            yield f"  {_MARKS[health['level']]} {health['what']}"
            if health["hint"] and health["level"] != "ok":
                yield f"       -> {health['hint']}"
