"""What the box's journal says of failures, remedies, stalls and seals, as a person reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leasehold.kit.text.safe_text import one_line
from leasehold.model.job.cells import MAIN
from leasehold.model.values.units import say_bytes
from leasehold.model.values.wording import ago

_DOES = {
    "again": "again",
    "resume": "again",
    "prune_then_again": "prune scratch, then again",
    "stop": "stop",
    "rent_again": "leave this box",
    "ask": "stop and ask",
}
_ENDS = ("stop", "rent_again", "ask")
_SHOWN = 4


def say_cell(cell: Mapping[str, Any], attempt: int) -> str:
    """Say in a line why an attempt failed and what was done, from a cell's state; empty when that is not known."""
    if not attempt or cell.get("classed") != attempt:
        return ""
    klass = str(cell.get("klass", "unknown")).replace("_", "-")
    does = _DOES.get(str(cell.get("remedy")), "") if cell.get("remedied") == attempt else ""
    then = f" -> {does}" if does else ""
    return one_line(f"attempt {attempt} failed: {klass} ({cell.get('verdict')}): {cell.get('because')}{then}")


def _classed(event: dict[str, Any]) -> str:
    klass = str(event.get("class", "unknown")).replace("_", "-")
    lines = [f"why it failed: {klass} ({event.get('verdict')}): {event.get('why')}"]
    return "\n".join([*lines, *(f"  seen: {line}" for line in _listed(event, "evidence")[:_SHOWN])])


def _remedy(event: dict[str, Any]) -> str:
    wait_s = _number(event, "wait_s")
    wait = f" in {wait_s:g} s" if wait_s else ""
    why = f": {event.get('why')}" if event.get("remedy") in _ENDS or event.get("fresh") else ""
    return f"remedy: {_DOES.get(str(event.get('remedy')), event.get('remedy'))}{wait}{why}"


def _pruned(event: dict[str, Any]) -> str:
    if event.get("problem"):
        return f"scratch could not be pruned: {event['problem']}"
    kept = _listed(event, "kept")
    stays = f"; kept {', '.join(kept[:_SHOWN])}" + (" …" if len(kept) > _SHOWN else "") if kept else ""
    size = say_bytes(int(_number(event, "freed_bytes")))
    count = int(_number(event, "files"))
    return f"pruned {count} scratch file{'s' * (count != 1)}, {size}{stays}"


def _short(event: dict[str, Any]) -> str:
    free, need = int(_number(event, "free")), int(_number(event, "need"))
    if event.get("what") == "inodes":
        had = f"{free} inodes left, {need} needed"
    else:
        had = f"{say_bytes(free)} free, {say_bytes(need)} needed"
    return f"no room for attempt {event.get('attempt')}: {event.get('path')} has {had}; {event.get('hint')}"


def _stalled(event: dict[str, Any]) -> str:
    lines = [f"STALLED: attempt {event.get('attempt')} lives and does nothing"]
    return "\n".join([*lines, *(f"  seen: {line}" for line in _listed(event, "evidence")[:_SHOWN])])


def _nan_stop(event: dict[str, Any]) -> str:
    cell = f"cell {event.get('cell')}, " if event.get("cell") != MAIN else ""
    lines = [f"STOPPED: {cell}attempt {event.get('attempt')}: its loss is not finite (on_nan: stop)"]
    return "\n".join([*lines, f"  seen: {event.get('seen')}", "  its checkpoints were not touched"])


def _fast(event: dict[str, Any]) -> str:
    took, expected = ago(_number(event, "took_s")), ago(_number(event, "expected_s"))
    return f"WARNING: cell {event.get('cell')} ended after {took}, {expected} were expected: look at its results"


def _preempt(event: dict[str, Any]) -> str:
    grace_s = _number(event, "grace_s")
    left = f"about {grace_s:g} s are left" if grace_s else "nobody knows how soon"
    whose = "" if event.get("cell") == MAIN else f"{event.get('cell')}: "
    return f"{whose}the box is being taken away ({event.get('by')}): {left}; saving"


def _sealed(event: dict[str, Any]) -> str:
    size = say_bytes(int(_number(event, "bytes")))
    older = _listed(event, "from_before")
    note = f"; {len(older)} of them from an earlier attempt" if older else ""
    count = int(_number(event, "files"))
    return f"cell {event.get('cell')} sealed: {count} artifact{'s' * (count != 1)}, {size}, hashed{note}"


def _passed(event: dict[str, Any]) -> str:
    return "evaluation ended well" if event.get("stage") == "evaluate" else "training ended well"


def _listed(event: dict[str, Any], key: str) -> list[str]:
    value = event.get(key)
    return [str(item) for item in value] if isinstance(value, list) else []


def _number(event: dict[str, Any], key: str) -> float:
    """The box's figures are not trusted to be figures."""
    value = event.get(key)
    return float(value) if isinstance(value, int | float) and value >= 0 else 0.0


def _safe(teller: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    return lambda event: "\n".join(one_line(line) for line in teller(event).split("\n"))


_TELLERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "failure_classed": _classed,
    "remedy_chosen": _remedy,
    "scratch_pruned": _pruned,
    "disk_short": _short,
    "stalled": _stalled,
    "stall_over": lambda event: "it moves again: no longer stalled",
    "nan_stop": _nan_stop,
    "fast_finished": _fast,
    "preempt_noticed": _preempt,
    "cell_sealed": _sealed,
    "stage_passed": _passed,
}
REMEDY_TELLERS = {kind: _safe(teller) for kind, teller in _TELLERS.items()}
