"""A simulated landlord: its boxes are folders on this machine, and releasing one really deletes it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from leasehold.model.lease.lease import Lease
from leasehold.model.platform.profile import Verb
from leasehold.platforms.contract import BoxState

MARKER = "rehearsal-box"


class SimulatedLandlord:
    """Deletes the box's folder on `terminate`, as a rental would."""

    simulated = True

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        """Delete the folder; a folder that is gone counts as released."""
        root = Path(lease.root)
        if self.poll(lease) is BoxState.GONE:
            return BoxState.GONE
        doomed = root.with_name(f"{root.name}.deleting-{os.getpid()}")
        os.rename(root, doomed)  # gone at once, so that a kill leaves no half box
        shutil.rmtree(doomed)
        return self.poll(lease)

    def poll(self, lease: Lease) -> BoxState:
        """Return whether the box still exists: a folder without our mark is not a box of ours."""
        return BoxState.HELD if (Path(lease.root) / MARKER).exists() else BoxState.GONE


def furnish(root: Path) -> None:
    """Create the folder of a simulated box."""
    root.mkdir(parents=True, exist_ok=True)
    (root / MARKER).touch()
