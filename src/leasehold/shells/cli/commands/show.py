"""The show, handbook and forget commands: call the api, render its answer."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from leasehold.api import front, opening, running
from leasehold.model.run.verdict import gate_line
from leasehold.model.values.units import local_second
from leasehold.model.values.wording import one_line
from leasehold.shells.cli import output

_KEYS = ("run", "state", "reason", "box", "lease", "results", "home", "receipt", "waived", "cost")


def show(args: Namespace) -> int:
    """lease show"""
    value = running.show(opening.open_home(), args.run)
    if args.json:
        output.as_json(value)
        return 0
    for key in _KEYS:
        if value[key] not in ("", [], None):
            output.data(f"{key:10} {_spelled(value, key)}")
    for line in value["nonfinite"]:
        output.data(f"{'not finite':10} {line}")
    output.data(f"{'command':10} {value['plan']['job']['run']}")
    for event in value["events"]:
        if event["kind"] not in ("run_seen", "run_work"):
            output.lines([f"  {local_second(event['t'])}  {line}" for line in _said(event)])
    return 0


def _spelled(value: Mapping[str, Any], key: str) -> str:
    if key == "receipt":
        return "written" if value[key] else "none yet"
    if key == "cost" and value["lease_cost"] != value["cost"]:
        return f"{value['cost']}, by its time, of the {value['lease_cost']} that {value['lease']} cost so far"
    return ", ".join(value[key]) if isinstance(value[key], list) else str(value[key])


def _said(event: Mapping[str, Any]) -> Iterator[str]:
    """Format an event; for a gate also its verdict and every check that did not pass."""
    if event["kind"] != "gate_judged":
        yield str(event["kind"]).replace("_", " ")
        return
    judged = event.get("data") or {}
    findings = [one for one in judged.get("findings") or () if isinstance(one, dict)]
    outcome = str(judged.get("outcome") or "not judged")
    skipped = f", skipped because: {judged.get('because') or 'not said'}" if judged.get("skipped") else ""
    yield one_line(gate_line(str(judged.get("gate")), outcome, len(findings), skipped))
    for one in findings:
        if one.get("outcome") != "passed":
            yield one_line(f"    {one.get('outcome')}: {one.get('what')}")


def handbook(args: Namespace) -> int:
    """lease run handbook"""
    found = front.handbook(opening.open_home(), args.run)
    if args.json:
        output.as_json(found)
    else:
        output.data(found["text"], end="")
    return 0


def forget(args: Namespace) -> int:
    """lease run forget"""
    done = front.forget(opening.open_home(), args.run)
    if args.json:
        output.as_json(done)
    else:
        kept = f"; its results stay in {done['home']}" if done["home"] else ""
        output.say(f"{done['run']} is no longer listed{kept}")
    return 0
