"""The interface of a transport: a duplex byte stream to a shell on the box."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from leasehold.errors import LinkError

FAR_S = 0.015  # round trip time: beyond it one TCP connection cannot fill the line


class Link(Protocol):
    """One open stream to a process on the box."""

    reader: BinaryIO
    writer: BinaryIO

    def end(self) -> None:
        """Hang up; what has arrived can still be read."""

    def close(self) -> None:
        """End the stream and reap its process. A second call does nothing."""

    def failure(self) -> LinkError:
        """Explain why the stream ended, from the transport's own output."""


class Transport(Protocol):
    """Opens links to one box. Addresses are resolved anew at each open."""

    name: str

    def open(self, command: str) -> Link:
        """Start command in the box's login shell; raise LinkError if that cannot even start."""
