"""From a box's name to a way in: `local`, or `ssh:[user@]host[:port]`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from leasehold.errors import UserError
from leasehold.model.lease import Lease
from leasehold.platforms.engines.caretaker import CaretakerEngine
from leasehold.transport.contract import Transport
from leasehold.transport.openssh import SshAddress, SshTransport
from leasehold.transport.process import LocalTransport
from leasehold.transport.wire import Wire, ask_status

from .home import Home


@dataclass(frozen=True)
class Box:
    """A reachable machine: its name, platform, our root folder on it, and how to get there."""

    name: str
    platform: str
    root: str
    transport: Transport
    python_hint: str = ""

    def connect(self) -> CaretakerEngine:
        """Open one wire; raises LinkError when the box cannot be reached."""
        return CaretakerEngine(Wire(self.transport, self.root, self.python_hint))

    def status_lines(self) -> list[tuple[int, str]]:
        """Ask the boot line for every run's status.json and its age in seconds."""
        return ask_status(self.transport, self.root)


def find_box(home: Home, name: str, *, root: str = "", rehearse: bool = False) -> Box:
    """Resolve what --on says."""
    if name == "local":
        where = home.box_root("rehearsal" if rehearse else "local")
        if rehearse and root not in ("", str(where)):  # `down` deletes a rehearsal's folder: never one of yours
            raise UserError("box.no_rehearsal", "--rehearse and --root do not go together", hint="leave --root out")
        platform = "rehearsal" if rehearse else "local"
        return Box("local", platform, root or str(where), LocalTransport(), sys.executable)
    if rehearse:
        raise UserError("box.no_rehearsal", "only --on local can be rehearsed", hint="lease run --on local --rehearse")
    if name.startswith("ssh:"):
        address = SshAddress.parse(name[4:])
        return Box(f"ssh:{address}", "generic-ssh", root, SshTransport(address, home.pins(str(address))))
    raise UserError(
        "box.unknown", f"no box {name!r}", hint="write --on local, --on ssh:ALIAS or --on ssh:user@host:port"
    )


def box_of(home: Home, lease: Lease) -> Box:
    """Find the box of a lease again."""
    return find_box(home, lease.box, root=lease.root, rehearse=lease.platform == "rehearsal")
