"""Resume after a box restarts: allowed by a person once per box, installed per run, listed, withdrawn."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leasehold.errors import LeaseholdError, Refusal
from leasehold.kit.text.units import local_day
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home, person
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.model.run.note import Note, Report

if TYPE_CHECKING:
    from leasehold.lifecycle.machine.box import Box
    from leasehold.model.platform.profile import Profile
    from leasehold.model.run.plan import Plan

_RESUME = "resume"


def allowed(home: Home, box: str) -> dict[str, Any] | None:
    """Return who allowed hooks on this box and when; None when nobody did, or the permission was withdrawn."""
    given = [event for event in home.ledger.events(kind="relaunch_allowed") if event.data.get("box") == box]
    taken = [event for event in home.ledger.events(kind="relaunch_forbidden") if event.data.get("box") == box]
    if not given or taken and taken[-1].seq > given[-1].seq:
        return None
    return {"by": given[-1].data.get("by"), "at_unix": given[-1].t, "ways": given[-1].data.get("ways")}


def allow(home: Home, name: str, ask: Ask, report: Report) -> list[dict[str, Any]]:
    """Ask a person to type that runs may install a hook on this box; live runs that want one get it now."""
    box = box_called(home, name)
    ways = _ways(home.shelf().load(box.platform))
    phrase = f"allow reboot hooks on {box.name}"
    question = (
        f"each run with `reboot: resume` on {box.name} will write one line or unit of its own there\n"
        f"({', '.join(ways)}), which starts its caretaker after the box restarts, and will take it away\n"
        "when the run ends. To approve"
    )
    require_phrase(ask, question, phrase, "nothing was written")
    home.ledger.append("relaunch_allowed", box=box.name, by=person(), ways=ways)
    return _install_now(home, box, ways, report)


def forbid(home: Home, name: str) -> list[dict[str, Any]]:
    """Withdraw the permission and remove all our hooks; the permission goes even when the box is unreachable."""
    box = box_called(home, name)
    if allowed(home, box.name):
        home.ledger.append("relaunch_forbidden", box=box.name, by=person())
    with box.connect() as engine:
        return engine.power.remove_hooks()


def forget(home: Home, name: str, report: Report) -> None:
    """Withdraw the permission of a box that leaves the book, and remove its hooks if it can be reached."""
    if not allowed(home, name):
        return
    try:
        forbid(home, name)
    except LeaseholdError as error:
        text = f"{name} could not be asked to remove reboot hooks ({error.message}); they remove themselves when due"
        report(Note("warning", text))


def installed(home: Home, name: str) -> list[dict[str, Any]]:
    """List the hooks on a box, as the box itself reports them."""
    with box_called(home, name).connect() as engine:
        return engine.power.hooks()


def ways_for(home: Home, box: Box, plan: Plan, profile: Profile, report: Report) -> list[str]:
    """Return the ways a run may use: none unless the job wants it, the platform has one and a person allowed it."""
    if plan.job.reboot != _RESUME:
        return []
    if not profile.relaunch:
        text = f"{profile.title} restarts nothing by itself: after a reboot the identical lease run goes on"
        report(Note("warning", f"reboot: resume has no effect here. {text}"))
        return []
    if not allowed(home, box.name):
        report(
            Note(
                "warning", f"reboot: resume waits for your yes, once for this box: lease box reboot {box.name} --allow"
            )
        )
        return []
    return list(profile.relaunch)


def tell(seen: Mapping[str, Any], report: Report) -> None:
    """Report what the box installed for a run, or why it could not."""
    found = seen.get("relaunch")
    if not isinstance(found, dict) or not found:
        return
    if found.get("way"):
        report(Note("relaunch", f"after a restart of the box the run goes on by itself ({found['way']})", found))
        return
    tried = "; ".join(str(item) for item in found.get("tried") or ())
    report(Note("warning", f"nothing will go on by itself after a restart of the box: {tried}", found))


def _ways(profile: Profile) -> list[str]:
    if profile.relaunch:
        return list(profile.relaunch)
    raise Refusal(
        "relaunch.no_way",
        f"{profile.title} has no way to start something after a restart that we know of",
        hint="after a reboot the identical lease run goes on; an own profile can name one: relaunch: [cron]",
    )


def _install_now(home: Home, box: Box, ways: list[str], report: Report) -> list[dict[str, Any]]:
    """Install a hook for live runs that want one; an unreachable box gets it with the next launch."""
    wanted = [
        record.run
        for record in books.runs(home.ledger)
        if record.box == box.name and json.loads(record.plan_json)["job"].get("reboot") == _RESUME
    ]
    found: list[dict[str, Any]] = []
    with contextlib.suppress(LeaseholdError), box.connect() as engine:
        live = {str(seen["run"]) for seen in engine.observe.runs() if not seen["terminal"]}
        runs = [run for run in wanted if run in live]
        if runs:
            found = engine.power.install_hooks(runs, ways)
    for item in found:
        tell({"relaunch": item}, report)
    return found


def say_since(given: dict[str, Any]) -> str:
    """Format since when hooks are allowed, and by whom."""
    day = local_day(float(given["at_unix"]))
    return f"hooks are allowed since {day} by {given['by']} ({', '.join(given['ways'] or ())})"
