"""Record in the ledger what the box itself judged after set-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.gates.start.environment import verdict_of

if TYPE_CHECKING:
    from leasehold.ledger.store import Ledger
    from leasehold.model.run.verdict import Verdict


def record_on_box(ledger: Ledger, lease: str, run: str, event: dict[str, Any]) -> Verdict:
    """Record in the ledger, once, a verdict that the box reached after set-up, and return it."""
    verdict = verdict_of(event.get("findings"))
    known = ledger.events(run=run, kind="gate_judged")
    if not any(row.data.get("box_seq") == event["n"] for row in known):
        skipped = bool(event.get("skipped"))
        where = {"box_seq": event["n"], "cell": str(event.get("cell")), "attempt": event.get("attempt")}
        ledger.append("gate_judged", lease=lease, run=run, skipped=skipped, **where, **verdict.as_dict())
    return verdict
