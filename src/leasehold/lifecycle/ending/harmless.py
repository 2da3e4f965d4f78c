"""Record a person's typed statement that a process in a run's folders is harmless; it covers that process alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home, person
from leasehold.lifecycle.machine.leased_box import box_of

if TYPE_CHECKING:
    from leasehold.model.lease.lease import RunRecord

_IDENTITY = ("pid", "started", "boot")


def call_harmless(home: Home, record: RunRecord, pid: int, ask: Ask) -> dict[str, Any]:
    """Show the process on the box, have a person type that it is harmless, and record that on both ends."""
    with box_of(home, books.find_lease(home.ledger, record.lease)).connect() as engine:
        found = engine.proof.occupants(record.run)["occupants"]
        one = next((one for one in found if one.get("pid") == pid), None)
        if one is None:
            known = ", ".join(str(one.get("pid")) for one in found) or "none"
            raise UserError(
                "process.unknown", f"no process {pid} works in the folders of {record.run}", hint=f"there are: {known}"
            )
        _ask(record.run, one, ask)
        identity = {key: one[key] for key in _IDENTITY}
        engine.proof.clear_occupant(record.run, home.ledger.home_id, identity)
    facts = {**identity, "command": one_line(str(one["command"])), "how": one_line(str(one["how"])), "by": person()}
    home.ledger.append("process_cleared", lease=record.lease, run=record.run, **facts)
    return facts


def with_word(home: Home, run: str, found: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Mark the processes that this home's ledger records as harmless; the box's own note counts for nothing."""
    listed = list(found)
    events = home.ledger.events(run=run, kind="process_cleared") if listed else ()
    cleared = {tuple(event.data.get(key) for key in _IDENTITY) for event in events}
    return tuple({**one, "cleared": tuple(one.get(key) for key in _IDENTITY) in cleared} for one in listed)


def _ask(run: str, one: dict[str, Any], ask: Ask) -> None:
    pid = one["pid"]
    phrase = f"pid {pid} is harmless"
    question = (
        f"pid {pid} ({one_line(str(one['command']))}) {one_line(str(one['how']))} of {run}.\n"
        "If it may go on beside a new attempt, while results are sealed and when the box is deleted"
    )
    require_phrase(ask, question, phrase, "nothing was recorded")
