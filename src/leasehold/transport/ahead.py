"""Open the ssh connection to a box early: ssh shakes hands while this program still imports, parses and hashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.errors import LinkError

from .openssh import SshTransport
from .parcel import boot_command
from .process import ProcessLink


class CalledAhead:
    """An SshTransport whose first link is already being opened; every further open is an ordinary one."""

    def __init__(self, transport: SshTransport, remember: Callable[[list[str]], None] | None = None) -> None:
        """Start the connection; `remember` receives the command line of one that succeeded."""
        self._remember = remember
        self.name = transport.name
        self.called = transport
        self._link: ProcessLink | None = None
        self._given: ProcessLink | None = None
        self.ended = False  # no longer wanted
        try:
            self._link = transport.open(boot_command())
        except LinkError:  # the real open will fail the same way, and explain it
            return

    def open(self, command: str) -> ProcessLink:
        """Return the early link, if its process still lives; else open another."""
        link, self._link = self._link, None
        if self.ended:
            raise LinkError("link.closed", f"the call to {self.name} was ended")
        if link is not None and command == boot_command() and not link.over:
            self._given = link
            return link
        if link is not None:
            link.close()
        self._given = self.called.open(command)
        return self._given

    def note_answer(self) -> None:
        """Record that the box answered our protocol over this connection."""
        if self._remember is not None:
            self._remember(self.called.argv(boot_command()))
            self._remember = None

    def hang_up(self) -> None:
        """End an early connection that was not used."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def cut(self) -> None:
        """End it in whatever state it is; a reader that is greeting the box sees the stream end."""
        self.ended = True
        self.hang_up()
        if self._given is not None:
            self._given.kill()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.called, name)
