"""Shape a box's readings for screens and --json; what was not read is absent, and nothing is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.kit.text.safe_text import plain
from leasehold.model.values.units import number

_FRESH_S = 30.0
_NEARLY_FULL = 0.85
_MOST_CARDS = 64


def shape(taken: dict[str, Any]) -> dict[str, Any]:
    """Return a box's readings as screens and --json show them; what was not read is absent."""
    disk: dict[str, Any] = next(iter(taken.get("disks") or []), {})
    memory: dict[str, Any] = taken.get("memory") or {}
    flat = {
        "disk_free_bytes": disk.get("free_bytes"),
        "disk_total_bytes": disk.get("total_bytes"),
        "inodes_free": disk.get("free_inodes"),
        "inodes_total": disk.get("total_inodes"),
        "memory_used_bytes": memory.get("used_bytes"),
        "memory_limit_bytes": memory.get("limit_bytes"),
        "gpus": [
            {
                "name": card.get("name"),
                "util": card.get("util_percent"),
                "memory_used": card.get("memory_used_bytes"),
                "memory_total": card.get("memory_total_bytes"),
                "temperature": card.get("temperature_c"),
            }
            for card in taken.get("gpus") or []
        ],
    }
    return {name: value for name, value in flat.items() if value not in (None, [])}


def newest(beat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patrol's newest sample from a beat; empty when there is none, or none that is fresh."""
    sample, now = beat.get("readings"), number(beat.get("beat_unix"))
    taken = number(sample.get("t")) if isinstance(sample, dict) else None
    if not isinstance(sample, dict) or taken is None or now is None or now - taken > _FRESH_S:
        return {}
    disk, memory, trainer = _worst_disk(sample), _mapping(sample, "memory"), _mapping(sample, "trainer")
    flat = {
        "disk_path": plain(str(disk.get("path") or "")),
        "disk_free_bytes": disk.get("free_bytes"),
        "disk_total_bytes": disk.get("total_bytes"),
        "disk_full_in_s": disk.get("bytes_full_in_s"),
        "inodes_free": disk.get("free_inodes"),
        "inodes_total": disk.get("total_inodes"),
        "memory_used_bytes": memory.get("used_bytes"),
        "memory_limit_bytes": memory.get("limit_bytes"),
        "memory_full_in_s": memory.get("full_in_s"),
        "trainer_rss_bytes": trainer.get("rss_bytes"),
        "trainer_cpu_percent": trainer.get("cpu_percent"),
        "trainer_processes": trainer.get("processes"),
        "gpus": [_card(card) for card in _listed(sample, "gpus")[:_MOST_CARDS]],
    }
    alarms = [plain(str(name))[:120] for name in _listed_any(_mapping(beat, "health"), "alarms")[:32]]
    known = {name: value for name, value in flat.items() if value not in (None, [], "")}
    return {**known, "alarms": alarms}  # an empty list too: it clears what was shown


def _card(card: Mapping[str, Any]) -> dict[str, Any]:
    others = [f"{one.get('name')} (pid {one.get('pid')})" for one in _listed(card, "others")]
    reasons = [str(reason) for reason in _listed_any(card, "reasons")]
    said = {
        "name": card.get("name"),
        "util": card.get("util_percent"),
        "memory_used": card.get("memory_used_bytes"),
        "memory_total": card.get("memory_total_bytes"),
        "temperature": card.get("temperature_c"),
        "power": card.get("power_w"),
        "slowed": [reason for reason in reasons if reason.startswith("hw_") or "thermal" in reason],
        "others": others if card.get("ours") else [],
    }
    return {name: value for name, value in said.items() if value not in (None, [])}


def _worst_disk(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tier that is about to fill up, else the first: where the run itself lies."""
    disks = _listed(sample, "disks")
    full = [disk for disk in disks if (_part(disk) or 0.0) >= _NEARLY_FULL]
    return max(full, key=lambda disk: _part(disk) or 0.0) if full else next(iter(disks), {})


def _part(disk: Mapping[str, Any]) -> float | None:
    total, free = number(disk.get("total_bytes")), number(disk.get("free_bytes"))
    return (total - free) / total if total and free is not None else None


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _listed(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [one for one in _listed_any(value, name) if isinstance(one, dict)]


def _listed_any(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []
