"""Journal events of a run, as a person would say them."""

from __future__ import annotations

from typing import Any

from leasehold.kit.run import continued
from leasehold.kit.tables.env_rules import say_build
from leasehold.kit.text.safe_text import one_line
from leasehold.model.job.cells import MAIN
from leasehold.model.values.units import say_bytes

from .alarm_events import ALARM_TELLERS
from .download_events import FETCH_TELLERS
from .failure_events import REMEDY_TELLERS
from .notice_events import NOTICE_TELLERS
from .sweep_events import SWEEP_TELLERS


def describe(event: dict[str, Any]) -> str:
    """Say a journal event as a person would."""
    teller = _TELLERS.get(event["k"])
    return str(teller(event) if teller else event["k"].replace("_", " "))


def _ended(event: dict[str, Any]) -> str:
    how = "vanished without an exit record" if event.get("lost") else f"exited with code {event.get('code')}"
    if event.get("unseen"):
        return f"attempt {event['attempt']} has ended; how, nobody could see: its results decide"
    if not event.get("lost") and event.get("signal") is not None:
        how = f"was ended by signal {event['signal']}"
    return f"{_whose(event)}attempt {event['attempt']} {how}"


def _whose(event: dict[str, Any]) -> str:
    """Name the cell where there may be several; a plain run has one, and it goes without saying."""
    return "" if event.get("cell") == MAIN else f"{event.get('cell')}: "


def _used(event: dict[str, Any]) -> str:
    return f"{event.get('spent')} of {event.get('limit')} {event.get('currency')}"


def _copied(event: dict[str, Any]) -> str:
    told = [event.get(key) for key in ("bytes", "of_bytes")]
    done, total = (say_bytes(value) if isinstance(value, int) else "?" for value in told)
    return f"{event.get('phase', 'starting')}, {done} of {total}"


def _recorded(event: dict[str, Any]) -> str:
    seen = event.get("frameworks")
    builds = {name: facts for name, facts in seen.items() if isinstance(facts, dict)} if isinstance(seen, dict) else {}
    has = ", ".join(f"{name} {say_build(builds[name])}" for name in sorted(builds) if builds[name].get("file"))
    lines = [f"before set-up this box has {has or 'no torch'}" + ("; set-up keeps it" if event.get("kept") else "")]
    return "\n".join([*lines, *(f"  left out: {line}" for line in _listed(event, "left_out"))])


def _judged(event: dict[str, Any]) -> str:
    findings = [one for one in _listed(event, "findings") if isinstance(one, dict)]
    how = f"passed ({len(findings)} readings)" if event.get("outcome") == "passed" else str(event.get("outcome"))
    how += ", as before" if event.get("cached") else ", skipped" if event.get("skipped") else ""
    lines = [f"gate env after set-up: {how}"]
    for one in findings:
        if one.get("outcome") != "passed":
            lines += [f"  {'NO' if one.get('outcome') == 'refused' else '?'}  {one.get('what')}"]
            lines += [f"       -> {one['hint']}"] if one.get("hint") else []
    return "\n".join(lines)


def _listed(event: dict[str, Any], key: str) -> list[Any]:
    value = event.get(key)
    return value if isinstance(value, list) else []


_TELLERS: dict[str, Any] = {
    **FETCH_TELLERS,
    **NOTICE_TELLERS,
    **REMEDY_TELLERS,
    **SWEEP_TELLERS,
    **ALARM_TELLERS,
    "env_recorded": _recorded,
    "env_judged": _judged,
    "run_opened": lambda event: f"caretaker {event['pid']} took the run",
    "caretaker_started": lambda event: f"caretaker {event['pid']} took over from one that died",
    "attempt_starting": lambda event: f"{_whose(event)}attempt {event['attempt']} starting",
    "attempt_started": lambda event: f"{_whose(event)}attempt {event['attempt']} runs as pid {event['pid']}",
    "attempt_ended": _ended,
    "cell_pending": lambda event: f"{event['why']}",
    "cell_finished": lambda event: f"cell {event['cell']} finished",
    "cell_failed": lambda event: f"cell {event['cell']} failed: {event['why']}",
    "strays_ended": lambda event: f"ended {len(event['pids'])} processes an earlier attempt left behind",
    "occupied": lambda event: f"{_whose(event)}waits; nobody else may write there: {one_line(str(event.get('why')))}",
    "occupied_over": lambda event: f"{_whose(event)}nobody else writes there any more",
    "lock_retaken": lambda event: f"{event.get('path')} was deleted while it was held; it is held again",
    "keeper_continued": lambda event: f"{_whose(event)}its keeper (pid {event['pid']}) was suspended; it was continued",
    "stop_requested": lambda event: f"stop requested; {event.get('grace_s')} s to finish",
    "resumed": lambda event: continued.STARTED_AGAIN,
    "attempt_began": lambda event: _whose(event) + continued.say_began(event),
    "durable_started": lambda event: f"copying the results to {event.get('to')}",
    "durable_copied": lambda event: f"cell {event.get('cell')}: {event.get('how')}, in {event.get('to')}",
    "durable_skipped": lambda event: f"no durable copy: {event.get('why')}; results come home as always",
    "durable_progress": lambda event: f"durable copy: {_copied(event)}",
    "durable_waiting": lambda event: (
        f"{event.get('to')} has not answered for {event.get('silent_s')} s ({_copied(event)}); "
        f"given up after {event.get('limit_s')} s"
    ),
    "durable_failed": lambda event: f"the durable copy FAILED: {event.get('why')}",
    "budget_warned": lambda event: f"{event.get('percent')} % of its budget is used: {_used(event)}",
    "budget_reached": lambda event: (
        f"its budget is used up: {_used(event)}; "
        + ("stopping it, as its job says" if event.get("at_limit") == "stop" else "it goes on, as its job says")
    ),
}
