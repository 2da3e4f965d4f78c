"""Processes in a run's folders at the teardown gate: writers keep the box from going; mere readers are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.kit.text.safe_text import one_line
from leasehold.model.run.verdict import Finding, passes, refuses, unknown

Occupant = Mapping[str, Any]

_NAMED = 5  # processes listed in one line; the rest are counted
_HOW_CHARS = 200


def judge_occupants(run: str, found: Sequence[Occupant], unread: Sequence[str]) -> list[Finding]:
    """Judge whether each process in a run's folders keeps the box; a person declared the `cleared` ones harmless."""
    findings = [_judge(run, one) for one in found]
    if unread:
        more = f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else ""
        names = ", ".join(one_line(name) for name in unread[:_NAMED])
        findings.append(passes(f"{run}: these may not be inspected, so what they do is unknown: {names}{more}"))
    return findings


def _judge(run: str, one: Occupant) -> Finding:
    pid, how = one.get("pid"), one_line(str(one.get("how", "")))[:_HOW_CHARS]
    what = f"{run}: pid {pid} ({one_line(str(one.get('command', '')))[:_HOW_CHARS]}) {how}"
    hint = f"end it, or if a person knows that it is harmless: lease run harmless {run} {pid}"
    if one.get("cleared"):
        return passes(f"{what}; a person called it harmless")
    if one.get("kind") == "reads":
        return passes(f"{what}; it has nothing open for writing there")
    if one.get("kind") == "stands":
        return unknown(f"{what}; whether it writes there is unknown", hint)
    return refuses(what, hint)
