"""The box of a lease, open or closed, and a box by its name: either way an answer on a closed lease is noticed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from leasehold.ledger import books
from leasehold.model.lease.box import LOCAL

from .box import Box, find_box
from .heard_again import ClosedBox, doubtful, hush_closed, note_heard
from .superseded import stop_superseded, unproven

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease


def box_of(home: Home, lease: Lease) -> Box:
    """Find the box of a lease again; its folder there stays what it was when the lease was opened."""
    rehearse = lease.platform == "rehearsal" and lease.box == LOCAL  # older books accepted ssh boxes as rehearsals
    box = replace(find_box(home, lease.box, root=lease.root, rehearse=rehearse), root=lease.root)
    if lease.open and unproven(home, lease.id):
        return ClosedBox(**vars(box), hush=lambda engine: stop_superseded(home, lease, engine))
    return box if lease.open else _noticed(home, lease, box)


def box_called(home: Home, name: str, *, root: str = "") -> Box:
    """Find a box by its name; if it was reported as stopped, its answer reopens its newest lease."""
    box = find_box(home, name, root=root)
    newest = next((lease for lease in books.leases(home.ledger) if lease.box == box.name), None)
    return _noticed(home, newest, box) if newest is not None and doubtful(home, newest) else box


def _noticed(home: Home, lease: Lease, box: Box) -> ClosedBox:
    return ClosedBox(
        **vars(box),
        answered=lambda runs: note_heard(home, lease, runs),
        hush=lambda engine: _settle(home, lease, engine),
    )


def _settle(home: Home, lease: Lease, engine: Engine) -> None:
    hush_closed(home, lease, engine)
    stop_superseded(home, lease, engine)
