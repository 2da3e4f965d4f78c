"""A box behind the system's OpenSSH: the user's config, keys, agents and jump hosts just work.

Host keys are strict. A first contact is pinned in a file of our own, never in ~/.ssh; a changed key refuses.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from leasehold.errors import LinkError, UserError

from .process import ProcessLink

_ADDRESS = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(?P<port>[0-9]{1,5}))?\Z"
)


@dataclass(frozen=True)
class SshAddress:
    """Where ssh should go: an alias of the user's config, or user, host and port."""

    host: str
    user: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> SshAddress:
        """Read [user@]host[:port] or an alias; a leading dash or odd character is refused."""
        found = _ADDRESS.match(text)
        port = int(found["port"] or 0) if found else 0
        if not found or text.startswith("-") or port > 65535:
            raise UserError(
                "box.bad_address",
                f"{text!r} is not an ssh address",
                hint="write ssh:[user@]host[:port], or ssh:ALIAS with an alias of your ssh config",
            )
        return cls(found["host"].strip("[]"), found["user"] or "", port)

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{user}{host}" + (f":{self.port}" if self.port else "")


class SshTransport:
    """Opens ssh processes to one address; LEASEHOLD_SSH replaces `ssh`, as GIT_SSH_COMMAND does."""

    def __init__(self, address: SshAddress, pins: Path, *, alive_s: int = 10) -> None:
        self.name = f"ssh:{address}"
        self._address = address
        self._pins = pins
        self._alive_s = alive_s
        self._ssh = shlex.split(os.environ.get("LEASEHOLD_SSH", "ssh"))

    def open(self, command: str) -> ProcessLink:
        """Start the boot line on the box."""
        return ProcessLink(self.argv(command), os.environ, self._explain)

    def argv(self, command: str) -> list[str]:
        """Spell the ssh command line; nothing secret is in it."""
        self._pins.parent.mkdir(parents=True, exist_ok=True)
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "15",
            "ServerAliveInterval": str(self._alive_s),
            "ServerAliveCountMax": "3",
            "StrictHostKeyChecking": "yes" if self.pinned else "accept-new",
            "UserKnownHostsFile": " ".join(_quote_option(path) for path in [str(self._pins), *self._known_hosts()]),
            "ControlPath": "none",  # a shared master would outlive a logout, and the detach probe prove nothing
            "ForwardX11": "no",
            "ClearAllForwardings": "yes",
            "RequestTTY": "no",
            "LogLevel": "ERROR",
        }
        words = [*self._ssh, *(f"-o{key}={value}" for key, value in options.items())]
        if self._address.port:
            words += ["-p", str(self._address.port)]
        if self._address.user:
            words += ["-l", self._address.user]
        return [*words, "--", self._address.host, command]

    @property
    def pinned(self) -> bool:
        """Whether this box's host key was already met and kept."""
        return self._pins.exists() and self._pins.stat().st_size > 0

    def fingerprint(self) -> str:
        """Say the pinned key's SHA256 fingerprint; empty when ssh trusted the user's own known_hosts."""
        if not self.pinned:
            return ""
        asked = ["ssh-keygen", "-l", "-f", str(self._pins)]
        lines = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
        return " ".join(lines[-1].split()[1:2] + lines[-1].split()[-1:]) if lines else ""

    def _known_hosts(self) -> list[str]:
        """Ask ssh which known_hosts files the user's own config names for this host."""
        asked = [*self._ssh, "-G", "--", self._address.host]
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        for line in said.splitlines():
            if line.startswith("userknownhostsfile "):
                return line.split()[1:]  # printed unquoted
        return []

    def _explain(self, code: int, said: str) -> LinkError:
        last = said.splitlines()[-1] if said else ""
        for pattern, error, message, hint in MEANINGS:
            if re.search(pattern, said):
                return LinkError(error, message.format(box=self._address), seen=last, hint=hint.format(pins=self._pins))
        return LinkError("link.lost", f"the ssh connection to {self._address} ended (exit {code})", seen=last)


MEANINGS = [
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        "link.host_key_changed",
        "{box} shows another host key than before; nothing was sent",
        "was the box re-created? Compare the fingerprint with the console's; only then remove {pins}",
    ),
    (
        "Permission denied",
        "link.auth_failed",
        "{box} refused our key",
        "try `ssh` by hand; register your public key, or name user and IdentityFile in ~/.ssh/config",
    ),
    (
        "Connection refused",
        "link.refused",
        "nothing listens at {box}",
        "is the box on, and is the port still the same? Ports change when a box is re-created",
    ),
    (
        "Could not resolve hostname",
        "link.no_such_host",
        "the name of {box} does not resolve",
        "check the spelling, or your ssh config's alias",
    ),
    (
        "timed out|No route to host|Network is unreachable|not responding",
        "link.timeout",
        "{box} does not answer",
        "look at the provider's console: power, balance, preemption",
    ),
]


def _quote_option(path: str) -> str:
    """Spell a path so that ssh reads it as one word and expands nothing in it."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'
