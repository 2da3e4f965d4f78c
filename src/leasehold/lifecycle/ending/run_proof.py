"""Prove that one run's folder on a box may be deleted: the teardown gate's proof, for that run alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.gates.end.teardown import TeardownReadings, judge_teardown
from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.lease import RunRecord

from .teardown_readings import Look, read_run

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


def why_kept(home: Home, engine: Engine, record: RunRecord) -> str:
    """Return why a run must stay on the box; empty when every cell is home or waived and nothing changed since."""
    if not record.receipt_json and not record.waived:
        return f"its results are not home: lease pull {record.run}"
    readings = read_run(engine, home, record, {record.run}, [], Look(in_full=True))
    verdict = judge_teardown(TeardownReadings(record.lease, "delete-run", reachable=True, runs=(readings,)))
    against = verdict.against()
    return "" if verdict.passed else against[0].what if against else "nothing is known of it"
