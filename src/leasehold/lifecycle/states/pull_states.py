"""Pull the newest whole state of each unfinished cell home, resumable at any byte; publish it last."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError, VerifyError
from leasehold.kit.files import manifest as manifests
from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.refuge.reading import Kept
from leasehold.kit.refuge.records import State, StateFile
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.pull.list_reader import Asked, LeftOut, Place, begun_in
from leasehold.lifecycle.pull.rate import Pace
from leasehold.lifecycle.pull.session import Opened, Pulled, open_chart, pull
from leasehold.lifecycle.pull.streams import Way
from leasehold.lifecycle.results.bring_home import PullWish
from leasehold.lifecycle.results.pull_until_done import Persistent, PullOrder
from leasehold.lifecycle.results.result_folders import Folders
from leasehold.model.lease.lease import RunRecord
from leasehold.model.run.at_home import StateAtHome
from leasehold.model.run.note import Note, Report
from leasehold.model.run.plan import plan_from_dict

from .home_place import HomePlace
from .read_state import read_state
from .states_brought import StatesBrought

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import RunSeen
    from leasehold.platforms.contract import Engine

_QUIET_S = 5.0
_COMING = ".coming"
_MOST_STEP = 10**12


def pull_states(home: Home, record: RunRecord, report: Report, order: PullOrder) -> StatesBrought:
    """Bring the newest whole states home; a lost link is waited for, as by every pull."""
    _path_of(record)
    persistent = Persistent(home, record, report, order, None)
    return persistent.keep_on(lambda engine, wish: bring_states(home, record, engine, report, wish))


def bring_states(home: Home, record: RunRecord, engine: Engine, report: Report, wish: PullWish) -> StatesBrought:
    """Bring the newest whole states home over an open connection; continue one that an earlier pull began."""
    folders = Folders(Path(record.results), record.run)
    folders.make()
    with folders.one_at_a_time(report, "states"):
        bringing = _Bringing(home, record, engine, report)
        begun = begun_in(bringing.coming)
        if begun:  # it may not be the newest any more, but part of it is here, and the newest may never hold still
            bringing.bring(wish, begun)
        return bringing.bring(wish, [])


def known_states(home: Home, record: RunRecord, cells: list[str]) -> tuple[StateAtHome, ...]:
    """List the newest state of each cell that is home; asks no box."""
    place = HomePlace(home.ledger, record)
    found = [(cell, place.newest(cell)) for cell in cells]
    return tuple(at_home(place, kept) for _, kept in found if kept is not None)


def at_home(place: HomePlace, kept: Kept, loads: str = "") -> StateAtHome:
    """Describe a state that is home."""
    state = kept.state
    path = os.path.commonpath([one.path for one in state.files]) or kept.id
    return StateAtHome(
        state.cell, path, str(place.where(kept)), state.step, state.made_unix, len(state.files), state.bytes, loads
    )


def _path_of(record: RunRecord) -> str:
    path = plan_from_dict(json.loads(record.plan_json)).job.checkpoint.path
    if not path:
        raise UserError(
            "state.no_checkpoint",
            f"the job of {record.run} names no checkpoint, so what its states are is not known",
            hint="checkpoint: {path: ckpt} in the job file says where they are; lease pull brings what it promises",
        )
    return path


class _Bringing:
    """One run whose states are being brought home."""

    def __init__(self, home: Home, record: RunRecord, engine: Engine, report: Report) -> None:
        self.record, self.engine, self.report = record, engine, report
        self.ledger = home.ledger
        self.folders = Folders(Path(record.results), record.run)
        self.place = HomePlace(home.ledger, record)
        self.coming = self.folders.states / _COMING / record.run
        self.path = _path_of(record)
        self.mode = plan_from_dict(json.loads(record.plan_json)).job.checkpoint.best_mode
        self.view = f"states-{home.ledger.home_id}"

    def bring(self, wish: PullWish, begun: list[list[Any]]) -> StatesBrought:
        """Fetch, prove, keep, read, publish."""
        epoch = self.place.epoch()
        seen = self.engine.observe.look(self.record.run)
        known = json.loads(self.record.plan_json)["cells"]
        cells = [cell for cell in known if seen["cells"].get(cell, {}).get("state") != "finished"]
        if not cells:
            return self._told(seen, [], (), {})
        opened = self._open(cells, begun)
        if opened.first is None:
            opened.talk.leave()
            return self._told(seen, cells, opened.left_out, {})
        pulled = self._pull(opened, wish)
        new: dict[str, str] = {}
        entries = _entries(pulled, self.record.run)
        for cell, facts in _chosen(opened.told, cells).items():  # said at the end of the list
            files = [one for one in entries.get(cell, []) if _within(str(one["path"]), facts.path)]
            torn = [one for one in pulled.left_out if one.cell == cell and _within(one.path, facts.path)]
            if files and not [one for one in torn if one.path in facts.listed(pulled)]:
                self._keep(facts, files, _Origin(epoch, seen, pulled), new)
        shutil.rmtree(self.coming, ignore_errors=True)
        return self._told(seen, cells, pulled.left_out, new)

    def _open(self, cells: list[str], begun: list[list[Any]]) -> Opened:
        have = {
            cell: [[one.state.made_unix, one.state.bytes, len(one.state.files)] for one in self.place.kept(cell)]
            for cell in cells
        }
        live = {"view": self.view, "states": self.path, "have": have, **({"begun": begun} if begun else {})}
        return open_chart(self.engine, Asked(self.record.run, cells, [self.path], _QUIET_S, live))

    def _pull(self, opened: Opened, wish: PullWish) -> Pulled:
        limit = wish.limit_bytes_per_s
        way = Way(self.record.run, wish.more, opened.round_trip_s, limit, lenient=True, view=self.view)

        def check_room(folder: Path, need_bytes: int, need_files: int) -> None:
            """Check for twice as much: a state is copied from where it arrives to where it is kept."""
            self.folders.check_room(folder, 2 * need_bytes, 2 * need_files)

        place = Place(self.coming, (), check_room)
        return pull(self.engine, opened, place, way, wish.pace or Pace(self.report), self.report)

    def _keep(self, facts: _Facts, entries: list[dict[str, Any]], origin: _Origin, new: dict[str, str]) -> None:
        """Keep one state and publish it; one that does not load never takes the place of one that does."""
        names = {file.path: Path(file.target) for file in origin.pulled.files if file.cell == facts.cell}
        files = tuple(StateFile(str(one["path"]), int(one["bytes"]), str(one["sha256"])) for one in entries)
        same = next((one for one in self.place.kept(facts.cell) if one.state.files == files), None)
        if same is not None:
            return
        reading = read_state([names[one.path] for one in files])
        cell = origin.seen["cells"].get(facts.cell, {})
        number = self.place.number(facts.cell, facts.step)
        kind = "file" if len(files) == 1 and files[0].path == facts.path else "folder"
        state = State(
            self.record.run, facts.cell, origin.epoch, self.record.box, int(cell.get("attempt") or 0), facts.step,
            number, facts.made_unix, round(time.time(), 3), kind, "", files,
        )  # fmt: skip
        kept = self.place.put(state, names)
        doubtful = reading.damaged and self._newest_loads(facts.cell)
        gone = self.place.tidy(facts.cell) if doubtful else self.place.publish(kept, facts.value, self.mode)
        new[facts.cell] = reading.words
        self.ledger.append(
            "state_home", lease=self.record.lease, run=self.record.run, cell=facts.cell, state=kept.id, step=facts.step,
            bytes=state.bytes, made_unix=facts.made_unix, loads=reading.words, damaged=reading.damaged,
            pruned=len(gone),
        )  # fmt: skip
        words = at_home(self.place, kept, reading.words).words(time.time())
        data = {"cell": facts.cell, "state": kept.id}
        self.report(Note("state_home", f"state is home: {words}", data))
        if reading.damaged:
            stays = "; the state before it stays the newest, and this one is kept beside it" if doubtful else ""
            self.report(Note("warning", f"{facts.cell}: {facts.path} does not load: {reading.damaged}{stays}", data))

    def _newest_loads(self, cell: str) -> bool:
        """Return whether the readers found no damage in the state that is the newest at home now."""
        newest = self.place.newest(cell)
        found = [one.data for one in self.ledger.events(run=self.record.run, kind="state_home")]
        return newest is not None and any(one.get("state") == newest.id and not one.get("damaged") for one in found)

    def _told(self, seen: RunSeen, cells: list[str], left: tuple[LeftOut, ...], new: dict[str, str]) -> StatesBrought:
        found, lacking = [], []
        for cell in cells:
            kept = self.place.newest(cell)
            if kept is None:
                lacking.append(cell)
            else:
                found.append(at_home(self.place, kept, new.get(cell, "")))
        return StatesBrought(self.record.run, str(seen["state"]), tuple(found), tuple(new), left, tuple(lacking))


@dataclass(frozen=True)
class _Facts:
    """A state as the box names it."""

    cell: str
    path: str
    step: int | None
    made_unix: float
    value: float | None = None  # the job's metric

    def listed(self, pulled: Pulled) -> set[str]:
        """Return the files that the box listed for it."""
        return {file.path for file in pulled.files if file.cell == self.cell}


@dataclass(frozen=True)
class _Origin:
    epoch: int
    seen: RunSeen
    pulled: Pulled


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")


def _chosen(told: dict[str, Any], cells: list[str]) -> dict[str, _Facts]:
    """Check what an untrusted box says of the states that it listed."""
    found: dict[str, _Facts] = {}
    said = told.get("states")
    for one in said if isinstance(said, list) else ():
        with contextlib.suppress(ValueError, TypeError, UnsafePath):
            cell, path, step, made, value = one
            measured = float(value) if isinstance(value, int | float) and math.isfinite(value) else None
            usable = step is None or (type(step) is int and 0 <= step < _MOST_STEP)
            if cell in cells and usable and math.isfinite(made) and 0 <= made < 1e11:
                found[cell] = _Facts(str(cell), check_relative(path), step, float(made), measured)
    return found


def _entries(pulled: Pulled, run: str) -> dict[str, list[dict[str, Any]]]:
    """Check the box's manifest; return the entries of what was proved, by cell."""
    if not pulled.sums:
        return {}
    try:
        cells = manifests.parse(json.loads(pulled.manifest), run)["cells"]
    except (ValueError, RecursionError, manifests.ManifestError) as error:
        raise VerifyError("artifact.bad_manifest", f"the box's manifest cannot be trusted: {error}") from None
    proved: dict[str, list[dict[str, Any]]] = {}
    for cell, entries in cells.items():
        for entry in entries:
            if pulled.sums.get(f"{cell}/{entry['path']}") == entry["sha256"]:
                proved.setdefault(cell, []).append(entry)
    return proved
