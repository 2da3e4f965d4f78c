"""The audit's check of GPU health. Pure: one reading of each card in, findings out.

A card that fails refuses the launch. What could not be read is unknown, never healthy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.gates.care.gpu_health import Health, Level, judge_fitness, judge_kernel, judge_xids
from leasehold.model.run.verdict import Finding, passes, refuses, unknown

_NOWHERE = "; the driver lists no card there: it is lost to this box, or it is another tenant's"


def judge_card_health(used: Sequence[Mapping[str, Any]], seen: Mapping[str, Any] | None) -> list[Finding]:
    """Judge the cards that the job will use; faults of the others are reported and do not refuse."""
    rows = {str(row["index"]): row for row in (seen or {}).get("cards", ()) if row.get("index") is not None}
    if seen is None or not rows:
        why = str((seen or {}).get("problem") or "nothing was asked")
        return [unknown(f"GPU: whether it is healthy could not be read: {why}")]
    wanted = {str(card["index"]) for card in used}
    found = []
    for index, row in rows.items():
        judged = judge_fitness(row, [row])
        found += _spell(f"GPU {index}", judged) if index in wanted else _aside(index, judged)
    missing = sorted(wanted - set(rows))
    found += [unknown(f"GPU {index}: the driver's tool no longer lists it") for index in missing]
    return [*found, *_judge_kernel(seen.get("kernel") or {}, rows, wanted)]


def _judge_kernel(kernel: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], wanted: set[str]) -> list[Finding]:
    """Assign each Xid to the card on its bus."""
    if not kernel.get("readable"):
        return [unknown(health.what, health.hint) for health in judge_kernel(kernel)]
    places = {_place(str(row.get("bus") or "")): index for index, row in rows.items()}
    found: list[Finding] = []
    for bus, health in judge_xids(kernel):
        index = places.get(_place(bus))
        if index is None:
            lost = Health(health.level, health.what + _NOWHERE, health.hint)
            found += _spell("kernel log", [lost])
        elif index in wanted:
            found += _spell(f"GPU {index}", [health])
        else:
            found += _aside(index, [health])
    return found or [passes("no Xid in the kernel log since boot")]


def _spell(name: str, judged: Sequence[Health]) -> list[Finding]:
    """Turn judgements into findings: failures refuse, unknowns are reported as unknown, the rest share one line."""
    found = [refuses(f"{name}: {health.what}", health.hint) for health in judged if health.level is Level.FAIL]
    found += [unknown(f"{name}: {health.what}") for health in judged if health.level is Level.UNKNOWN]
    rest = [health.what for health in judged if health.level in (Level.OK, Level.WARN)]
    return [*found, passes(f"{name}: {'; '.join(rest)}")] if rest else found


def _aside(index: str, judged: Sequence[Health]) -> list[Finding]:
    bad = [health.what for health in judged if health.level is Level.FAIL]
    return [passes(f"GPU {index}, which the job does not use: {'; '.join(bad)}")] if bad else []


def _place(bus: str) -> tuple[int, ...]:
    """Parse a PCI address: 0000:3b:00 from the kernel and 00000000:3B:00.0 from the tool are the same slot."""
    try:
        return tuple(int(part, 16) for part in bus.partition(".")[0].split(":"))
    except ValueError:
        return ()
