"""Take a run over from another home: a person types it, the box counts it, and the old home may then only read."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import leasehold
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.text.units import utc_minute
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home, person
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.preflight.plan_inputs import profile_on
from leasehold.lifecycle.tell import handbook, notify
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import plan_from_dict


def whoami() -> str:
    """Return this home's name for display."""
    return f"{person()} on {socket.gethostname()}"


def holder_words(holder: Mapping[str, Any]) -> str:
    """Describe who holds the run and since when, as far as the box knows."""
    if holder.get("unreadable"):
        return f"somebody unknown ({one_line(str(holder['unreadable']))[:120]})"
    if not holder.get("home"):
        return "somebody unknown (its holder.json is gone)"
    who = one_line(str(holder.get("who") or f"home {str(holder.get('home', ''))[:8]}"))[:120]
    at = holder.get("at_unix")
    return f"{who} since {utc_minute(at)}" if isinstance(at, (int, float)) and 0 < at < 1e11 else who


def take_over(home: Home, record: RunRecord, ask: Ask, report: Report) -> None:
    """Show who holds the run, have a person type the take-over, and have the box record it."""
    lease = books.find_lease(home.ledger, record.lease)
    box = box_of(home, lease)
    with box.connect() as engine:
        holder = engine.observe.look(record.run).get("holder") or {}
        if holder.get("home") == home.ledger.home_id:
            report(Note("held", f"{record.run} is held by this home already", {"run": record.run}))
            return
        held = holder_words(holder)
        _require_yes(record.run, held, ask)
        plan = plan_from_dict(json.loads(record.plan_json))
        wishes = notify.wishes(home, lease, plan.job)
        stay = handbook.Stay(plan, lease, box, Path(record.project or "."), Path(record.results), "lease.yaml")
        facts = handbook.facts_of(home, stay, profile_on(home, box), len(wishes.get("channels", ())))
        facts = {**facts, "project": record.project}  # the home that attached may not have the project
        private = {"who": whoami(), "version": leasehold.__version__, "notify": wishes, "handbook": facts}
        seen = engine.hold.take_over(record.run, int(holder.get("epoch", 0)), home.ledger.home_id, private)
    home.ledger.append("run_taken_over", lease=lease.id, run=record.run, epoch=seen["holder"]["epoch"], before=held)
    handbook.keep(home, record.run, facts, seen)
    report(Note("taken_over", f"{record.run} is held by this home now; before: {held}", {"run": record.run}))


def _require_yes(run: str, held: str, ask: Ask) -> None:
    question = (
        f"{run} is held by {held}. After this, that home can still look and pull, but its\n"
        "`lease stop`, `park`, `down` and resume are refused, and this home's channels are told.\n"
        "Make sure that nobody works there. To take it over"
    )
    require_phrase(ask, question, f"take over {run}", "nothing was changed")
