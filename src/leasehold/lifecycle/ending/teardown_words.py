"""Describe where a box's results are when its verb is carried out, from what was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.gates.end.teardown import TeardownReadings
from leasehold.gates.end.waivers import count
from leasehold.kit.text.safe_text import one_line
from leasehold.model.platform.profile import Verb
from leasehold.model.values.units import say_bytes

_NAMED = 5  # files listed in one line; the rest are counted


def where_results_are(readings: TeardownReadings, left: Sequence[dict[str, Any]], verb: Verb) -> str:
    """State that everything is home, or list what is not."""
    lost = not_home(readings, left, verb)
    proven = all(set(run.promised) <= set(run.receipt.cells if run.receipt else ()) for run in readings.runs)
    if not lost:
        return "everything is home" if proven else "not every promised result is home"
    return "; ".join((["every promised result is home"] if proven else []) + lost)


def not_home(readings: TeardownReadings, left: Sequence[dict[str, Any]], verb: Verb) -> list[str]:
    """List what is given up or exists only on the box, and what happens to it."""
    fate = "deleted with the box" if verb.deletes or not verb.reversible else "left on the box"
    lines = []
    for run in readings.runs:
        home = set(run.receipt.cells) if run.receipt else set()
        for cell in run.promised:
            if cell in home:
                continue
            files = [entry for entry in left if (entry["run"], entry["cell"]) == (run.run, cell)]
            word = "given up" if cell in run.waived else "not home"
            lines.append(f"{word}: cell {cell} of {run.run}; {_say(files, fate)}")
    named = {(run.run, cell) for run in readings.runs for cell in run.promised if not _is_home(run, cell)}
    rest = [entry for entry in left if (entry["run"], entry["cell"]) not in named]
    return [*lines, f"not home, as no artifact names them: {_say(rest, fate)}"] if rest else lines


def _is_home(run: Any, cell: str) -> bool:
    return run.receipt is not None and cell in run.receipt.cells


def _say(files: Sequence[dict[str, Any]], fate: str) -> str:
    if not files:
        return "nothing of it is on the box"
    number = sum(int(entry.get("files", 1)) for entry in files)
    names = ", ".join(one_line(str(entry["path"])) for entry in files[:_NAMED])
    more = ", …" if len(files) > _NAMED else ""
    size = say_bytes(sum(int(entry["bytes"]) for entry in files))
    return f"{count(number)}, {size}, {fate}: {names}{more}"
