"""What a gate found, as lines: on the screen, in a run's history, and for the gate that the box runs after set-up."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from leasehold.kit.text.units import count

_MARKS = {"passed": "ok", "refused": "NO"}


def gate_line(gate: str, outcome: str, checks: int, note: str = "") -> str:
    """Say how a gate ended and on how many checks that rests; 0 leaves them out."""
    return "%s: %s%s%s" % (gate, outcome, " (%s)" % count(checks, "check") if checks else "", note)


def finding_lines(findings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """List the findings that did not pass, each with its hint below it."""
    for one in findings:
        if one.get("outcome") != "passed":
            yield "  %s  %s" % (_MARKS.get(str(one.get("outcome")), "?"), one.get("what"))
            if one.get("hint"):
                yield "       -> %s" % one["hint"]
