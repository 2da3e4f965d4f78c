"""When the box cannot be reached: what of a run is home, what its refuges hold, and the newest state from there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leasehold.errors import LeaseholdError
from leasehold.kit.files.paths import join_checked
from leasehold.kit.files.sha256 import hash_file
from leasehold.kit.refuge.layout import file_key
from leasehold.kit.refuge.place import PlaceError
from leasehold.kit.refuge.reading import Kept
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.pull.rate import Limiter
from leasehold.lifecycle.results.at_home import artifacts_known, states_at_home
from leasehold.lifecycle.results.home_copy import copy_of
from leasehold.lifecycle.results.result_folders import Folders
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import plan_from_dict

from .home_place import HomePlace
from .pull_states import at_home
from .read_state import read_state
from .refuge_places import claim_of, look_into
from .states_brought import OutOfReach, RefugeSeen

_COMING = ".from-refuge"


def out_of_reach(
    home: Home, record: RunRecord, error: LeaseholdError, report: Report, limit_bytes_per_s: float = 0.0
) -> OutOfReach:
    """Report what is home; fetch the newest state of each cell from a refuge that can be read from here."""
    plan = plan_from_dict(json.loads(record.plan_json))
    folders, place = Folders(Path(record.results), record.run), HomePlace(home.ledger, record)
    owed = record.owed()
    seen = look_into(plan, owed, os.environ)
    came = []
    for cell in owed:
        fetching = _Fetching(place, folders, report, Limiter(limit_bytes_per_s))
        found = [(one, kept) for one in seen for kept in one.kept if kept.state.cell == cell]
        for refuge, kept in sorted(found, key=lambda pair: _age(pair[1]), reverse=True):
            here = place.newest(cell)
            if here is not None and _age(here) >= _age(kept):
                break
            if fetching.fetch(refuge, kept):
                came.append(cell)
                break
    copy = copy_of(record, "")
    as_of_unix = copy.taken_unix if copy is not None else 0.0
    artifacts = artifacts_known(record, plan, folders, as_of_unix)
    kept_here = [kept for kept in (place.newest(cell) for cell in owed) if kept is not None]
    states = {one.cell: one for one in states_at_home(plan, folders, owed)}
    for kept in kept_here:
        one = at_home(place, kept)
        if one.cell not in states or states[one.cell].made_unix <= one.made_unix:
            states[one.cell] = one
    refuges, found_states = tuple(seen), tuple(states.values())
    where = str(folders.evacuated) if folders.evacuated.is_dir() else ""
    return OutOfReach(record.run, record.state, error, artifacts, found_states, refuges, tuple(came), where)


def _age(kept: Kept) -> tuple[int, float]:
    return kept.state.epoch, kept.state.made_unix


class _Fetching:
    """Fetches states from a refuge; what came of a file is continued at its last byte."""

    def __init__(self, place: HomePlace, folders: Folders, report: Report, limiter: Limiter) -> None:
        self._place, self._folders, self._report, self._limiter = place, folders, report, limiter

    def fetch(self, refuge: RefugeSeen, kept: Kept) -> bool:
        """Fetch, prove, read and keep a state; return whether it is home."""
        state = kept.state
        where = self._folders.states / _COMING / state.run / kept.id
        size = state.bytes
        try:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folders.check_room(where, 2 * size, 2 * len(state.files))
            files = {one.path: self._file(refuge, kept, one.path, where) for one in state.files}
            wrong = [one.path for one in state.files if hash_file(str(files[one.path])) != one.sha256]
            if wrong:
                for name in wrong:
                    files[name].unlink()
                raise PlaceError(
                    "lying", f"{wrong[0]} of state {kept.id} in {refuge.where} has other bytes than its hash"
                )
            reading = read_state(list(files.values()))
            self._place.mirror(kept, claim_of(refuge, kept), files)
        except PlaceError as error:
            self._report(Note("warning", f"state {kept.id} cannot be had from {refuge.where}: {error}"))
            return False
        for arrived in files.values():
            arrived.unlink(missing_ok=True)
        words = at_home(self._place, kept, reading.words).words(time.time())
        data: Mapping[str, Any] = {"cell": state.cell, "state": kept.id}
        self._report(Note("state_home", f"from {refuge.where}: {words}", dict(data)))
        return True

    def _file(self, refuge: RefugeSeen, kept: Kept, path: str, where: Path) -> Path:
        assert refuge.place is not None
        target = Path(join_checked(str(where), path))
        target.parent.mkdir(parents=True, exist_ok=True)
        wanted = next(one.bytes for one in kept.state.files if one.path == path)
        here = target.stat().st_size if target.exists() else 0
        if here > wanted:
            target.unlink()
            here = 0
        if here == wanted and target.exists():
            return target
        with open(target, "ab") as file:
            for part in refuge.place.get(file_key(kept.state.run, kept.state.cell, kept.id, path), here):
                self._limiter.pass_through(len(part))
                file.write(part)
        return target
