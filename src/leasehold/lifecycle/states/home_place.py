"""The results folder as a refuge: states that came home, in the layout of every refuge, claimed for one box."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, BinaryIO

from leasehold.errors import HomeError, Refusal
from leasehold.kit.refuge.epochs import Claim, claim, epochs, highest, read_claim
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.layout import number_of
from leasehold.kit.refuge.place import FULL, PlaceError
from leasehold.kit.refuge.publishing import Fenced, prune, put_pointer, put_state
from leasehold.kit.refuge.reading import Kept, kept_states, read_pins, read_pointer, state_ids
from leasehold.kit.refuge.records import BadRecord, Pointer, State, StateFile
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.results.result_folders import Folders, private
from leasehold.model.lease.lease import RunRecord

KEEP = 2  # the newest states that stay, beside the best and those that a person pinned
_MOVES = "move_begun"


class HomePlace:
    """The states of one run that are home."""

    def __init__(self, ledger: Ledger, record: RunRecord) -> None:
        self._ledger, self._record = ledger, record
        self.folder = Folders(Path(record.results), record.run).states

    @property
    def exists(self) -> bool:
        """Return whether anything ever came here."""
        return self.folder.is_dir()

    def newest(self, cell: str) -> Kept | None:
        """Return the newest state of a cell; None if there is none."""
        return next(iter(self.kept(cell)), None)

    def kept(self, cell: str) -> list[Kept]:
        """List the states of a cell, the newest first."""
        if not self.exists:
            return []
        try:
            return list(kept_states(self._place(), self._record.run, cell))
        except (PlaceError, OSError):
            return []

    def where(self, kept: Kept) -> Path:
        """Return the folder of a state's files."""
        from leasehold.kit.refuge.layout import files_prefix

        return self.folder / files_prefix(self._record.run, kept.state.cell, kept.id)

    def epoch(self) -> int:
        """Claim the run for its box, once; return the epoch. Refused where the run was moved to another box."""
        private(self.folder)
        place, run, mine = self._place(), self._record.run, self._first()
        top = highest(place, run)
        if top > mine:
            said = read_claim(place, run, top)
            if said is None or said.box != self._record.box:
                raise _moved(run, self._record.box, said.box if said else "")
            return top
        if top < mine:
            record = self._record
            nonce = os.urandom(12).hex()
            claim(place, run, Claim(mine, nonce, self._ledger.home_id, record.box, record.lease, time.time()))
        return mine

    def mirror(self, kept: Kept, claimed: Claim, files: dict[str, Path]) -> Kept:
        """Keep a state of another refuge under its own name and epoch, and point to it."""
        private(self.folder)
        claim(self._place(), self._record.run, claimed)
        mine = self.put(kept.state, files)
        self.publish(mine)
        return mine

    def number(self, cell: str, step: int | None) -> int:
        """Return a state's place in the sequence: its step, else the next number."""
        if step is not None:
            return step
        manifests, _ = state_ids(self._place(), self._record.run, cell)
        return max((number_of(one) for one in manifests), default=0) + 1

    def put(self, state: State, files: dict[str, Path]) -> Kept:
        """Keep a state; each file is read back from the disk."""

        def opened(one: StateFile) -> BinaryIO:
            return open(files[one.path], "rb")

        try:
            return put_state(self._place(), state, opened)
        except PlaceError as error:
            raise _unwritable(error) from None

    def publish(self, kept: Kept, value: float | None = None, mode: str = "min") -> list[str]:
        """Point to a state as the newest, then remove those that nothing names; return their names.

        value: the job's metric of it; the best by that stays.
        """
        place, state = self._place(), kept.state
        before = read_pointer(place, state.run, state.cell, state.epoch)
        pinned = self._pinned(state.cell)
        best, best_value = (before.best, before.best_value) if before is not None else ("", None)
        if value is not None and (best_value is None or (value > best_value if mode == "max" else value < best_value)):
            best, best_value = kept.id, value
        pointer = Pointer(
            state.epoch, kept.id, kept.manifest_sha256, state.step, state.made_unix, state.copied_unix, best, pinned,
            best_value,
        )  # fmt: skip
        try:
            put_pointer(place, state.run, state.cell, pointer)
        except Fenced:
            raise _moved(state.run, self._record.box, "") from None
        except PlaceError as error:
            raise _unwritable(error) from None
        return self.tidy(state.cell)

    def tidy(self, cell: str) -> list[str]:
        """Remove the states that no pointer or pin names and that are not among the newest; return their names."""
        place, run, kept = self._place(), self._record.run, self.kept(cell)
        named = [read_pointer(place, run, cell, number) for number in epochs(place, run)]
        newest = sorted(kept, key=lambda one: (one.state.epoch, one.state.made_unix), reverse=True)[:KEEP]
        keep = {one.id for one in (*newest, *kept[:1])} | {name for one in named if one for name in one.keeps}
        return prune(place, run, cell, {*keep, *self._pinned(cell)}, lambda name: True)

    def _pinned(self, cell: str) -> tuple[str, ...]:
        try:
            return tuple(read_pins(self._place(), self._record.run).get(cell, ()))
        except BadRecord as error:
            text = f"the list of pinned states in {self.folder} cannot be read: {error}"
            raise HomeError("home.bad_pins", text, hint="nothing was pruned; mend it, or remove pins.json") from None

    def _first(self) -> int:
        """Return the epoch of this box, if this home moved the run there, else 1."""
        moves = [one.data for one in self._ledger.events(run=self._record.run, kind=_MOVES)]
        return max((_epoch(one) for one in moves if one.get("to") == self._record.box), default=1)

    def _place(self) -> FolderPlace:
        return FolderPlace(str(self.folder), writer=f"home-{os.getpid()}")


def _epoch(data: dict[str, Any]) -> int:
    found = data.get("epoch")
    return found if isinstance(found, int) and found > 0 else 1


def _moved(run: str, box: str, to: str) -> Refusal:
    where = f"to {to}" if to else "to another box"
    return Refusal(
        "state.moved",
        f"{run} was moved {where}: what {box} saves since is not taken as its newest state",
        hint=f"lease show {run} lists its moves",
    )


def _unwritable(error: PlaceError) -> HomeError:
    code = "home.disk_short" if error.kind == FULL else "home.unwritable"
    return HomeError(code, f"a state cannot be kept here: {error}", hint="free some space; the older state stays valid")
