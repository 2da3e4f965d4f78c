"""What of a run is home and what a waiver would give up: artifacts, the newest state, trained time, money."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.results.at_home import Present, artifacts_beside, artifacts_known, states_at_home
from leasehold.lifecycle.results.home_copy import copy_of
from leasehold.lifecycle.results.result_folders import Folders
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.lease.off_the_box import say_refuge
from leasehold.model.run.at_home import ArtifactAtHome, StateAtHome, lines
from leasehold.model.run.plan import plan_from_dict
from leasehold.model.values.money import HourlyPrice
from leasehold.model.values.wording import ago

from .home_place import HomePlace
from .pull_states import at_home

_ENDED = ("stopped", "failed")


@dataclass(frozen=True)
class GivenUp:
    """One run with cells that are owed: what of them is home, and what would be gone after a waiver."""

    run: str
    state: str
    cells: tuple[str, ...]
    artifacts: tuple[ArtifactAtHome, ...]
    states: tuple[StateAtHome, ...]
    lost_s: float | None  # of training that only the box has; None: nobody has measured it
    money: str = ""
    step: int | None = None  # the last one that the log reported
    checkpoints: bool = True  # the job names where they are
    refuge: tuple[str, ...] = ()  # what has left the box for a refuge, as it last reported

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """Return the next commands, each with what it does."""
        cell = self.cells[0] if len(self.cells) == 1 else "CELL"
        taken = "what it left" if self.state in _ENDED else "what it has so far"
        found = [(f"lease pull {self.run}", f"brings {taken}, without a receipt")]
        if self.checkpoints:
            found.append((f"lease pull --state {self.run}", "brings its newest whole state, to go on from elsewhere"))
        if self.state in _ENDED:
            found.append((f"lease resume {self.run}", "goes on with it on this box"))
        else:
            found.append((f"lease stop {self.run}", "ends it; a job that saves at SIGTERM saves then"))
        return (*found, (f"lease waive {self.run} {cell}", "gives it up"))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for --json."""
        return {
            **vars(self), "artifacts": [one.as_dict() for one in self.artifacts],
            "states": [one.as_dict() for one in self.states],
            "commands": [{"command": command, "does": does} for command, does in self.commands],
        }  # fmt: skip

    def words(self, now_unix: float) -> list[str]:
        """Describe it line by line."""
        cells = f"cell {self.cells[0]}" if len(self.cells) == 1 else f"{len(self.cells)} cells"
        said = [f"{self.run} ({self.state}): {cells} without a receipt. At home without one:"]
        said += [f"  {line}" for line in lines(self.artifacts, self.states, now_unix)]
        with_state = {one.cell for one in self.states}
        missing = [cell for cell in self.cells if cell not in with_state]
        if missing and self.checkpoints:
            which = "no state is home" if not with_state else f"no state of {', '.join(missing[:3])} is home"
            said.append(f"  {which}")
        said += [f"  {line}" for line in self.refuge]
        said.append(f"  a waiver gives up {self._loss()}")
        said += [f"  next: {command}   {does}" for command, does in self.commands]
        return said

    def _loss(self) -> str:
        what = "its promised results; " if self.artifacts else ""
        if self.lost_s is None:
            return f"{what}how much training only the box has was never measured"
        money = f", {self.money}" if self.money else ""
        covered = len(self.states) == len(self.cells)
        since = "since the newest state that is home" if covered else "that no state at home has"
        since = "that neither home nor a refuge has" if self.refuge else since
        return f"{what}about {ago(self.lost_s)} of training {since}{money}{self._steps()}"

    def _steps(self) -> str:
        known = [one.step for one in self.states if one.step is not None]
        if self.step is None or len(self.cells) > 1:
            return ""
        return f" (steps {known[0]:,} to {self.step:,})" if known and known[0] < self.step else f" (step {self.step:,})"


def given_up(home: Home, lease: Lease, record: RunRecord, present: Present | None = None) -> GivenUp | None:
    """Read what of a run's owed cells is home; None where nothing is owed, or it never began.

    present: the stats of its promised files on the box now, if it was asked.
    """
    owed = tuple(record.owed())
    if not owed or (record.state == "planned" and record.seq == 0):
        return None
    plan = plan_from_dict(json.loads(record.plan_json))
    folders, place = Folders(Path(record.results), record.run), HomePlace(home.ledger, record)
    copy = copy_of(record, "")
    if present is not None:
        known = artifacts_beside(record, plan, folders, present)
    else:
        known = artifacts_known(record, plan, folders, copy.taken_unix if copy is not None else 0.0)
    states = {one.cell: one for one in states_at_home(plan, folders, owed)}
    for cell in owed:
        kept = place.newest(cell)
        if kept is not None and (cell not in states or states[cell].made_unix <= kept.state.made_unix):
            states[cell] = at_home(place, kept)
    lost_s, step = _lost(record, owed, states)
    price = HourlyPrice.parse(lease.price) if lease.price else None
    money = price.money.times(lost_s / 3600).spelled if price is not None and lost_s else ""
    artifacts = tuple(one for one in known if one.cell in owed)
    found = tuple(states.values())
    off_box = (json.loads(record.work_json) if record.work_json else {}).get("refuge") or {}
    saves, refuge = bool(plan.job.checkpoint.path), tuple(say_refuge(off_box)) if off_box.get("places") else ()
    return GivenUp(record.run, record.state, owed, artifacts, found, lost_s, money, step, saves, refuge)


def _lost(record: RunRecord, owed: tuple[str, ...], states: dict[str, StateAtHome]) -> tuple[float | None, int | None]:
    """Return the trained time that is on the box alone, as last reported, and the last step; None for unknown."""
    if not record.work_json:
        return None, None
    said = json.loads(record.work_json)
    only_here = max(0.0, float(said["trained_s"]) - record.home_s())
    step = (said.get("progress") or {}).get("step")
    off_box = said.get("refuge") or {}
    if off_box.get("places"):
        only_here = min(only_here, float(off_box.get("lost_s", only_here)))
    if len(states) < len(owed):
        return only_here, step
    heard = float(said.get("until_unix") or said.get("heard_unix") or time.time())
    return min(only_here, sum(max(0.0, heard - one.made_unix) for one in states.values())), step
