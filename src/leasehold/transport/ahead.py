"""Call a box ahead of need: ssh shakes hands while this program still imports, parses and hashes."""

from __future__ import annotations

from typing import Any

from leasehold.errors import LinkError

from .contract import Link
from .openssh import SshTransport
from .parcel import boot_command


class CalledAhead:
    """An SshTransport whose first link is already on its way; every further open is an ordinary one."""

    def __init__(self, transport: SshTransport) -> None:
        self.name = transport.name
        self.called = transport
        self._link: Link | None = None
        try:
            self._link = transport.open(boot_command())
        except LinkError:  # the real open will fail the same way, and explain it
            return

    def open(self, command: str) -> Link:
        """Hand over the link that was called, if its process still lives; else open another."""
        link, self._link = self._link, None
        if link is not None and command == boot_command() and not getattr(link, "over", False):
            return link
        if link is not None:
            link.close()
        return self.called.open(command)

    def hang_up(self) -> None:
        """End a call that nobody took."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.called, name)
