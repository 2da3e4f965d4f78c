"""Readings for the teardown gate beyond the lease's own folder: the rest of the machine, and where home lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.errors import BoxError
from leasehold.gates.end.teardown import RunReadings
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.other_roots import OtherRoot, judge_unread, opened, roots_at_stake
from leasehold.lifecycle.machine.two_places import HomeJudged, judge_home
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.platform.profile import Verb
from leasehold.model.run.verdict import Finding, unknown

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


ReadRun = Callable[["Engine", RunRecord, set[str]], RunReadings]


@dataclass(frozen=True)
class Around:
    """Runs of other roots on the machine, and findings about the rest of it."""

    runs: tuple[RunReadings, ...] = ()
    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()


def read_around(
    home: Home, at: tuple[Lease, Verb, Box], engine: Engine, own: Sequence[RunRecord], read: ReadRun
) -> Around:
    """Read our other roots on the machine; where the verb deletes, prove that the home copies lie elsewhere."""
    lease, verb, box = at
    runs: list[RunReadings] = []
    roots, findings = roots_at_stake(engine, home, lease, verb)
    for root in roots:
        found, said = _read_root(home, at, root, read)
        runs += found
        findings += said
    judged = HomeJudged()
    if verb.deletes:
        records = [*own, *(record for run in runs if (record := books.run_called(home.ledger, run.run)))]
        judged = judge_home(engine, box, home, records, simulated=lease.platform == "rehearsal")
    return Around(tuple(runs), (*findings, *judged.findings), judged.doubts)


def _read_root(
    home: Home, at: tuple[Lease, Verb, Box], root: OtherRoot, read: ReadRun
) -> tuple[list[RunReadings], list[Finding]]:
    """Read runs that this home knows like any other run of the box; name those that it does not know."""
    lease, _, box = at
    names = {str(run["run"]) for run in root.runs}
    known = [record for name in sorted(names) if (record := books.run_called(home.ledger, name))]
    strange = sorted(names - {record.run for record in known})
    findings = judge_unread(lease, root, strange)
    if not known:
        return [], findings
    try:
        with opened(box, root.root) as there:
            return [read(there, record, names) for record in known], findings
    except BoxError as error:
        return [], [*findings, unknown(f"another folder of ours on this machine, {root.root}: {error.message}")]
