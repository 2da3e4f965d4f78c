"""A gate's findings as lines: for the screen, a run's history, and the gate that the box runs after set-up."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from leasehold.kit.text.units import count

_MARKS = {"passed": "ok", "refused": "NO"}


def gate_line(gate: str, outcome: str, checks: int, note: str = "") -> str:
    """Format how a gate ended and the number of checks; 0 omits the number."""
    return "%s: %s%s%s" % (gate, outcome, " (%s)" % count(checks, "check") if checks else "", note)


def finding_lines(findings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """List the findings that did not pass, each followed by its hint."""
    for one in findings:
        if one.get("outcome") != "passed":
            yield "  %s  %s" % (_MARKS.get(str(one.get("outcome")), "?"), one.get("what"))
            if one.get("hint"):
                yield "       -> %s" % one["hint"]
