"""A teardown's actions, deletions, remains and cost, and the gate's findings: short even for ten thousand cells."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leasehold.model.values.units import say_bytes
from leasehold.model.values.wording import one_line
from leasehold.shells.cli import output

_NAMED = 5  # cells listed on one line
_LEFT = 10
_UNPROMISED = "no artifact names it"
_MARKS = {"passed": "ok ", "refused": "NO ", "unknown": "?  "}


def show_teardown(plan: Any) -> None:
    """Print the plan; the obstacles come last, where a terminal still shows them."""
    value = plan.as_dict()
    undo = "can be undone" if value["reversible"] else "CANNOT be undone"
    output.say(f"`{value['verb']}` on {value['lease']} ({value['box']}): {undo}")
    output.say(
        f"  deletes: {', '.join(value['deletes']) or 'nothing'}; keeps: {', '.join(value['keeps']) or 'nothing'}"
    )
    folder = value["folder"]
    output.say(f"  our folder {folder['root']} is on {folder['tier']}: `{value['verb']}` {folder['fate']} it")
    for line in (*value["clocks"], *(f"still billed afterwards: {item}" for item in value["still_billed"])):
        output.say(f"  {line}")
    if len(value["facts_from"]) > 1:
        output.say(f"  these facts were corrected by {value['facts_from'][-1]}")
    if value["cost_so_far"]:
        output.say(f"  cost so far: {value['cost_so_far']}")
    _show_left(value["not_coming_home"])
    for owed in plan.owed:
        for line in owed.words(time.time()):
            output.say(f"  {line}")
    output.say(f"gate: {value['gate']['outcome']}")
    for line in gate_lines(value["gate"]["findings"]):
        output.say(line)


def gate_lines(findings: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Format the findings: equal ones of many cells on one line, refusals last."""
    grouped: dict[tuple[str, ...], list[str]] = {}
    for finding in findings:
        run, cell, rest = _cell_of(finding["what"])
        hint = finding["hint"].replace(f" {run} {cell}", f" {run} CELL") if cell else finding["hint"]
        grouped.setdefault((finding["outcome"], run, rest, hint), []).append(cell)
    for (outcome, run, rest, hint), cells in sorted(grouped.items(), key=lambda item: item[0][0] != "passed"):
        what = rest
        if cells[0] and len(cells) == 1:
            what = f"{run}/{cells[0]}: {rest}"
            hint = hint.replace(f" {run} CELL", f" {run} {cells[0]}")
        elif cells[0]:
            more = ", …" if len(cells) > _NAMED else ""
            what = f"{run}: {len(cells):,} cells ({', '.join(cells[:_NAMED])}{more}): {rest}"
        yield f"  {_MARKS.get(outcome, '?  ')} {one_line(what)}" + (f"   -> {hint}" if hint else "")


def _cell_of(what: str) -> tuple[str, str, str]:
    """Split a finding about one cell into run, cell and text; any other is all text."""
    head, colon, rest = what.partition(": ")
    run, slash, cell = head.partition("/")
    if not (colon and slash and run and cell) or " " in head or "/" in cell:
        return "", "", what
    return run, cell, rest


def _show_left(left: Sequence[Mapping[str, Any]]) -> None:
    if not left:
        return
    total = sum(entry["bytes"] for entry in left)
    files = sum(entry.get("files", 1) for entry in left)
    promised = sum(entry.get("why", _UNPROMISED) != _UNPROMISED for entry in left)
    which = f"{promised:,} of them promised or given up" if promised else "that no artifact names"
    count = "1 file" if files == 1 else f"{files:,} files"
    output.say(f"  NOT coming home: {count}, {say_bytes(total)}, {which}:")
    shown = sorted(left, key=lambda one: one.get("why", _UNPROMISED) == _UNPROMISED)[:_LEFT]
    output.bullets(f"{one['run']}/{one['cell']}: {one['path']} ({one['bytes']} bytes){_why(one)}" for one in shown)
    if len(left) > _LEFT:
        output.say(f"    … and {len(left) - _LEFT:,} more: --json has them all")


def _why(one: Mapping[str, Any]) -> str:
    return f", {one['why']}" if one.get("why", _UNPROMISED) != _UNPROMISED else ""
