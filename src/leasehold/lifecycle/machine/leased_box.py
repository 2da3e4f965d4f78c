"""The box of a lease, open or closed."""

from __future__ import annotations

from dataclasses import replace

from leasehold.lifecycle.home.home import Home
from leasehold.model.lease.box import LOCAL
from leasehold.model.lease.lease import Lease

from .box import Box, find_box
from .heard_again import ClosedBox, hush_closed, note_heard


def box_of(home: Home, lease: Lease) -> Box:
    """Find the box of a lease again; its folder there stays what it was when the lease was opened."""
    rehearse = lease.platform == "rehearsal" and lease.box == LOCAL  # a book once took ssh boxes for rehearsals
    box = replace(find_box(home, lease.box, root=lease.root, rehearse=rehearse), root=lease.root)
    if lease.open:
        return box
    return ClosedBox(
        **vars(box),
        answered=lambda runs: note_heard(home, lease, runs),
        hush=lambda engine: hush_closed(home, lease, engine),
    )
