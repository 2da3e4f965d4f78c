"""Allocations of a run: nodes, cores and cards now, core-hours and card-hours in all. Our own record, no accounts."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple

LENT = "task_lent"
_SHOWN_NODES = 3


class Loan(NamedTuple):
    """One stretch of a task on a node."""

    cell: str
    task: str
    node: str
    cores: int
    cards: int
    since_unix: float
    until_unix: float  # 0 while it lasts


def lent(environ: Mapping[str, str]) -> Dict[str, Any]:
    """Describe what this task was given, from the environment that Slurm starts it with."""
    cards = environ.get("SLURM_GPUS_ON_NODE") or str(len([one for one in _cards(environ).split(",") if one]))
    return {
        "task": "%s_%s" % (environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", "")),
        "node": environ.get("SLURMD_NODENAME", ""),
        "cores": _count(environ.get("SLURM_CPUS_ON_NODE", "")) or 1,
        "cards": _count(cards),
        "mem_mib": _count(environ.get("SLURM_MEM_PER_NODE", "")),
        "restarts": _count(environ.get("SLURM_RESTART_COUNT", "")),
    }


def loans(events: Iterable[Dict[str, Any]], alive: Mapping[str, str]) -> List[Loan]:
    """List the allocations; `alive` names the live task of each cell. An unseen end is dated by its last event."""
    found: Dict[str, List[Loan]] = {}
    for event in events:
        if event["k"] != LENT and "origin" not in event:
            continue
        cell, at = str(event.get("cell")), float(event.get("at", event.get("t", 0.0)))
        mine = found.setdefault(cell, [])
        if event["k"] == LENT:
            counts = [int(event.get(key) or 0) for key in ("cores", "cards")]
            mine.append(Loan(cell, str(event.get("task")), str(event.get("node")), counts[0], counts[1], at, at))
        elif mine:
            mine[-1] = mine[-1]._replace(until_unix=max(at, mine[-1].until_unix))
    for cell, mine in found.items():
        if mine and alive.get(cell) == mine[-1].task:
            mine[-1] = mine[-1]._replace(until_unix=0.0)
    return [one for mine in found.values() for one in mine]


def used(found: Iterable[Loan], now_unix: float) -> Dict[str, float]:
    """Add up core-seconds and card-seconds."""
    spans = [(one, max(0.0, (one.until_unix or now_unix) - one.since_unix)) for one in found]
    return {
        "core_s": round(sum(one.cores * span for one, span in spans), 1),
        "card_s": round(sum(one.cards * span for one, span in spans), 1),
    }


def say_now(found: Iterable[Loan]) -> str:
    """Format the current allocation: nodes, cores, cards."""
    live = [one for one in found if not one.until_unix]
    if not live:
        return ""
    nodes = list(dict.fromkeys(one.node for one in live if one.node))
    more = len(nodes) - _SHOWN_NODES
    shown = ", ".join(nodes[:_SHOWN_NODES]) + (" and %d more" % more if more > 0 else "")
    cores, cards = sum(one.cores for one in live), sum(one.cards for one in live)
    parts = ["%d core%s" % (cores, "" if cores == 1 else "s")]
    parts += ["%d GPU%s" % (cards, "" if cards == 1 else "s")] if cards else []
    return "on %s: %s" % (shown, ", ".join(parts))


def _cards(environ: Mapping[str, str]) -> str:
    return environ.get("SLURM_JOB_GPUS") or environ.get("CUDA_VISIBLE_DEVICES") or ""


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0
