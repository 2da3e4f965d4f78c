"""Check whether others use the GPUs that the job will use. Pure: readings of the cards in, findings out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.model.job.job import Job
from leasehold.model.run.verdict import Finding, passes, refuses
from leasehold.model.values.units import say_bytes

_NAMED = re.compile(r"\bCUDA_VISIBLE_DEVICES=['\"]?([^\s;'\"]*)")
_SHOWN = 3


@dataclass(frozen=True)
class Tolerance:
    """What a free card may show: the driver's own memory, and a moment's load from a monitoring tool."""

    memory_share: float = 0.10
    process_bytes: int = 64 << 20  # a listed process with less is a monitor
    util_percent: float = 10.0


def judge_company(job: Job, cards: Sequence[Mapping[str, Any]], limits: Tolerance | None = None) -> list[Finding]:
    """Refuse when a card that the job will use is in use; cards that it will not see do not matter."""
    limits = limits or Tolerance()
    count, named = job.gpu.count if job.gpu else 1, visible_devices(job)
    taken = used_cards(job, cards)
    busy = [(card, why) for card, why in ((card, _why_busy(card, limits)) for card in taken) if why]
    if named is not None and len(taken) < count:
        what = f"CUDA_VISIBLE_DEVICES={','.join(named)} shows {len(taken)} fitting cards; the job asks for {count}"
        return [refuses(what, "name cards of this box, by number or UUID; lease box gpu BOX lists them")]
    free = [str(card["index"]) for card in cards if not _why_busy(card, limits)]
    if not busy:
        which = f" (CUDA_VISIBLE_DEVICES={','.join(named)})" if named is not None else ""
        return [passes(f"nobody else uses card {', '.join(str(card['index']) for card in taken)}{which}")]
    return [refuses(f"GPU {card['index']} {why}", _hint(count, free)) for card, why in busy]


def used_cards(job: Job, cards: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """List the cards that the job will use: those it names, else the first ones, as frameworks choose them."""
    named = visible_devices(job)
    if named is not None:
        return [card for card in cards if _is_named(card, named)]
    return list(cards)[: job.gpu.count if job.gpu else 1]


def visible_devices(job: Job) -> tuple[str, ...] | None:
    """Return the cards to which the job restricts itself, by its env or in its command; None means all."""
    said = _NAMED.search(job.run)
    text = said.group(1) if said else job.env.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    return None if any(word.startswith(("$", "MIG")) for word in words) else words


def _is_named(card: Mapping[str, Any], named: tuple[str, ...]) -> bool:
    uuid = str(card.get("uuid") or "")
    return any(word == str(card["index"]) or word.startswith("GPU-") and uuid.startswith(word) for word in named)


def _why_busy(card: Mapping[str, Any], limits: Tolerance) -> str:
    others = [one for one in card.get("processes") or () if _counts(one, limits)]
    if others:
        return "is used by " + "; ".join(_say(one) for one in others[:_SHOWN])
    used, total = card.get("memory_used_bytes"), card.get("memory_total_bytes")
    if used and total and used / total > limits.memory_share:
        return f"already has {say_bytes(used)} in use"
    if (card.get("util_percent") or 0) > limits.util_percent:
        return f"is {card['util_percent']} % busy"
    return ""


def _counts(one: Mapping[str, Any], limits: Tolerance) -> bool:
    memory = one.get("memory_bytes")
    return memory is None or int(memory) >= limits.process_bytes


def _say(one: Mapping[str, Any]) -> str:
    memory = "memory unknown" if one.get("memory_bytes") is None else say_bytes(int(one["memory_bytes"]))
    if not one.get("here"):
        return f"pid {one['pid']} ({memory}), which is gone or in another container"
    whose = "yours" if one.get("mine") else "of another user"
    return f"pid {one['pid']} ({whose}, {memory}): {str(one.get('command', ''))[:80]}"


def _hint(count: int, free: Sequence[str]) -> str:
    if len(free) >= count:
        return f'card {", ".join(free)} is free: env: {{CUDA_VISIBLE_DEVICES: "{",".join(free[:count])}"}}'
    return "lease box gpu BOX (or nvidia-smi on it) shows who; wait, end it, or --skip-gate audit --because 'why'"
