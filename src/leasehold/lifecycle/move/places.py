"""Places that may keep states of a run, each as the one who reaches it sees it: this home, or a box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from leasehold.errors import BoxError
from leasehold.kit.files.canonical_json import canonical
from leasehold.kit.files.paths import UnsafePath
from leasehold.kit.refuge import epochs, reading
from leasehold.kit.refuge.epochs import Claim
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.layout import file_key
from leasehold.kit.refuge.place import PlaceError
from leasehold.kit.refuge.reading import kept_states, verify
from leasehold.kit.refuge.records import STATE_SCHEMA, BadRecord, State, StateFile, parse_state
from leasehold.kit.text.safe_text import one_line

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine

Cells = Sequence[tuple[str, str]]  # run and cell
STATES, BUCKET = "states", "s3://"


@dataclass(frozen=True)
class Kept:
    """A state in a place: its name, its manifest, and who can read it."""

    id: str
    state: State
    manifest_sha256: str
    place: Place
    beside: tuple[StateFile, ...] = ()  # other files that travel with it, named as $LEASE_OUT has them

    @property
    def files(self) -> tuple[StateFile, ...]:
        """Return all files as $LEASE_OUT will have them."""
        root = f"{self.state.root}/" if self.state.root else ""
        own = tuple(one._replace(path=root + one.path) for one in self.state.files)
        names = {one.path for one in own}
        return (*own, *(one for one in self.beside if one.path not in names))

    def key(self) -> dict[str, str]:
        """Return what names it in its place."""
        return {"run": self.state.run, "cell": self.state.cell, "state": self.id}


class Place(Protocol):
    """A place as someone sees it."""

    where: str
    seen_by: str  # "home", or the name of the box that sees it

    def kept(self, cells: Cells) -> tuple[list[Kept], str]:
        """Return the states of these cells, and why the place could not be read, if so."""

    def claim(self, run: str, claim: Claim | None = None) -> dict[str, Any]:
        """Claim an epoch, or only read the highest: {highest, mine, claim}, or {problem}."""

    def read(self, kept: Kept, one: StateFile, offset: int) -> Iterator[bytes]:
        """Yield a file of a state from an offset on."""

    def prove(self, kept: Kept) -> list[str]:
        """Read every byte of a state; return what is wrong, nothing if it is whole."""


class HomePlace:
    """The states that came home: the results folder's own refuge."""

    seen_by = "home"

    def __init__(self, results: Path) -> None:
        self.where = str(results / STATES)

    def kept(self, cells: Cells) -> tuple[list[Kept], str]:
        """Return the states of these cells here."""
        if not Path(self.where).is_dir():
            return [], ""
        try:
            place = FolderPlace(self.where)
            return [Kept(*one, place=self) for run, cell in cells for one in kept_states(place, run, cell)], ""
        except PlaceError as error:
            return [], str(error)

    def claim(self, run: str, claim: Claim | None = None) -> dict[str, Any]:
        """Claim an epoch here, so that what comes home later is read in the right order."""
        nothing: dict[str, Any] = {"highest": 0, "mine": True if claim else None, "claim": None}
        try:
            if claim is not None:
                Path(self.where).mkdir(mode=0o700, parents=True, exist_ok=True)
            elif not Path(self.where).is_dir():
                return nothing
            place = FolderPlace(self.where)
            mine = epochs.claim(place, run, claim) if claim else None
            highest = epochs.highest(place, run)
            said = epochs.read_claim(place, run, claim.epoch if claim else highest) if highest else None
        except (PlaceError, OSError) as error:
            return {**nothing, "problem": str(error)}
        return {"highest": highest, "mine": mine, "claim": said._asdict() if said else None}

    def read(self, kept: Kept, one: StateFile, offset: int) -> Iterator[bytes]:
        """Read a file of a state."""
        return FolderPlace(self.where).get(
            file_key(kept.state.run, kept.state.cell, kept.id, _inner(kept, one)), offset
        )

    def prove(self, kept: Kept) -> list[str]:
        """Read every byte of a state."""
        try:
            return verify(FolderPlace(self.where), reading.Kept(kept.id, kept.state, kept.manifest_sha256))
        except PlaceError as error:
            return [str(error)]


class BoxPlace:
    """A place that a box sees: its durable tier, a disk that several boxes share, an object store."""

    def __init__(self, engine: Engine, box: str, where: str, environ: Mapping[str, str] | None = None) -> None:
        self.engine = engine
        self.seen_by = box
        self.where = where
        bucket = where.startswith(BUCKET)  # its keys go by wire, as secrets do
        self.spec: dict[str, Any] = {"bucket": where, "environ": dict(environ or {})} if bucket else {"folder": where}

    def kept(self, cells: Cells) -> tuple[list[Kept], str]:
        """Ask the box; what it names is checked by its hash."""
        try:
            answers = self.engine.moves.kept(self.spec, cells)
        except BoxError as error:
            return [], error.message
        problem = next((one_line(str(one["problem"])) for one in answers if "problem" in one), "")
        return [kept for kept in (kept_from(one, self) for one in answers) if kept is not None], problem

    def claim(self, run: str, claim: Claim | None = None) -> dict[str, Any]:
        """Have the box read or claim."""
        try:
            return self.engine.moves.claim(self.spec, run, dict(claim._asdict()) if claim else None)
        except BoxError as error:
            return {"highest": 0, "mine": None, "claim": None, "problem": error.message}

    def read(self, kept: Kept, one: StateFile, offset: int) -> Iterator[bytes]:
        """Read a file of a state through the box."""
        return self.engine.moves.read(self.spec, kept.key(), _inner(kept, one), offset)

    def prove(self, kept: Kept) -> list[str]:
        """Have the box read every byte of a state."""
        try:
            return self.engine.moves.prove(self.spec, kept.key())
        except BoxError as error:
            return [error.message]


class BoxDisk:
    """$LEASE_OUT on the box that a run leaves: what its stopped trainer saved there."""

    def __init__(self, engine: Engine, box: str) -> None:
        self.engine = engine
        self.seen_by = box
        self.where = f"the disk of {box}"

    def kept(self, cells: Cells) -> tuple[list[Kept], str]:
        """Return nothing: what lies on the disk is hashed when it is asked for."""
        return [], ""

    def claim(self, run: str, claim: Claim | None = None) -> dict[str, Any]:
        """Return nothing: the box itself has a fence."""
        return {"highest": 0, "mine": True, "claim": None}

    def read(self, kept: Kept, one: StateFile, offset: int) -> Iterator[bytes]:
        """Read a file of the cell's output folder."""
        return self.engine.ranges.get(kept.state.run, "out", kept.state.cell, one.path, offset)

    def prove(self, kept: Kept) -> list[str]:
        """Return nothing: the box has just hashed it."""
        return []


def kept_from(answer: dict[str, Any], place: Place) -> Kept | None:
    """Check a state that a box names: its manifest must have the hash in its name. None if it is none."""
    try:
        value = dict(answer["state"], schema=STATE_SCHEMA)
        data = canonical(value)
        state = parse_state(data, str(value["run"]), str(value["cell"]), str(answer["id"]))
        beside = tuple(_file(one) for one in answer.get("beside") or ())
        return Kept(str(answer["id"]), state, str(answer["manifest_sha256"]), place, beside)
    except (BadRecord, UnsafePath, KeyError, TypeError, ValueError):
        return None


def _file(value: dict[str, Any]) -> StateFile:
    from leasehold.kit.files.paths import check_relative

    return StateFile(check_relative(value["path"]), int(value["bytes"]), str(value["sha256"]))


def _inner(kept: Kept, one: StateFile) -> str:
    root = f"{kept.state.root}/" if kept.state.root else ""
    return one.path[len(root) :]
