"""Who has the run now: what a person is told when this box lost it."""

from __future__ import annotations

from typing import Callable, Dict, Optional, Protocol

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.refuge.epochs import read_claim
from leasehold.kit.refuge.place import Place, PlaceError

from .opened_place import open_place


class Named(Protocol):
    """A refuge by its word in the plan."""

    spec: str


def owner_of(
    place: Optional[Place], folder: RunFolder, epoch: int, slot: Named, tick: Callable[[int], None]
) -> Dict[str, str]:
    """Return the box and home of a claim, as far as the refuge says it."""
    try:
        found = read_claim(place or open_place(slot.spec, folder, tick), folder.run, epoch)
    except PlaceError:
        return {}
    return {} if found is None else {"box": found.box, "home": found.home}
