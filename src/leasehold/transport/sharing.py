"""A shared connection for short requests: ssh's own master, in a folder of ours, gone after a minute without use.

Tasks that need a separate connection (a launch, whose detachment must survive a real logout; bulk) open one.
The user's own `ControlPath` for a host is used as it is, and never becomes ours: we start no master there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from leasehold.errors import LinkError

from .contract import Link, Transport
from .openssh import SshTransport, quote_option

T = TypeVar("T")

_IDLE_S = 60  # some platforms count an open connection as use and delay their idle stop
_JOIN_S = 4.0  # how long a master that looks alive may stay silent
_SOCKET_BYTES = 103  # sun_path on macOS, less the terminating zero
_TEMPORARY = 17  # what ssh appends to the name while it creates the socket
_NAME = 20


@dataclass(frozen=True)
class Way:
    """One connection to try, and its time limit; the last of several may use the remaining time."""

    transport: Transport
    patience_s: float
    socket: Path | None = None  # ours, and to be forgotten if it fails


class SharedSsh:
    """An SshTransport whose links use a master's connection if there is one."""

    def __init__(self, transport: SshTransport, options: Mapping[str, str]) -> None:
        self.name = transport.name
        self._transport = transport
        self._options = options

    def open(self, command: str) -> Link:
        """Start command on the box; without a master, one is left behind if the options say so."""
        return self._transport.open_with(command, self._options)


def ways(transport: Transport, patience_s: float) -> list[Way]:
    """List the connections for a short request: a shared one first, then a separate one."""
    alone = Way(transport, patience_s)
    if not isinstance(transport, SshTransport) or transport.links is None or os.name == "nt":
        return [alone]
    config = transport.config()
    theirs = config.get("controlpath", "none")
    if theirs != "none":
        if not _is_socket(Path(theirs)):
            return [alone]
        return [Way(SharedSsh(transport, {"ControlPath": quote_option(theirs), "ControlMaster": "no"}), _JOIN_S), alone]
    master = _place(transport, config)
    if master is None:
        return [alone]
    options = {
        "ControlPath": quote_option(str(master)),
        "ControlMaster": "auto",
        "ControlPersist": str(_IDLE_S),
        "ServerAliveInterval": "5",  # a master whose box is gone ends itself within 15 s
        "ServerAliveCountMax": "2",
        "ForwardAgent": "no",  # a connection left open unattended holds no key
    }
    shared = SharedSsh(transport, options)
    if not _is_socket(master):
        return [Way(shared, patience_s)]
    return [Way(shared, _JOIN_S, master), alone]


def first_answer(known: list[Way], ask: Callable[[Way], T]) -> T:
    """Try each connection in turn until one answers; the result of the last one is final."""
    *before, last = known
    for way in before:
        try:
            return ask(way)
        except LinkError:
            if way.socket is not None:
                way.socket.unlink(missing_ok=True)  # its master ends by itself; nobody else must wait for it
    return ask(last)


def _place(transport: SshTransport, config: Mapping[str, str]) -> Path | None:
    """Name the socket after everything that decides where a connection goes and whom it trusts."""
    links = transport.links
    if links is None or len(os.fsencode(links)) + 1 + _NAME + _TEMPORARY > _SOCKET_BYTES or not _private(links):
        return None
    pinned = transport.pins.read_bytes() if transport.pinned else b""
    parts = [socket.gethostname(), *transport.target(), str(transport.pins), repr(sorted(config.items()))]
    name = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape") + b"\0" + pinned).hexdigest()
    return links / name[:_NAME]


def _private(place: Path) -> bool:
    """Create the folder; return whether it is ours alone."""
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(place)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return False


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
