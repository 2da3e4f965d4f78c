"""A box behind the system's OpenSSH: the user's config, keys, agents and jump hosts just work.

Host keys are strict. A first contact is pinned in a file of our own, never in ~/.ssh; a changed key refuses.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from leasehold.errors import LinkError, UserError

from .process import ProcessLink
from .ssh import ciphers, ssh_config

_ADDRESS = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(?P<port>[0-9]{1,5}))?\Z"
)


class SshAddress(NamedTuple):
    """The destination of ssh: an alias of the user's config, or user, host and port; and its key file."""

    host: str
    user: str = ""
    port: int = 0
    identity: str = ""

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


_NOTHING: Mapping[str, str] = {}


class SshTransport:
    """Opens ssh processes to one address; LEASEHOLD_SSH replaces `ssh`, as GIT_SSH_COMMAND does."""

    def __init__(
        self,
        address: SshAddress,
        pins: Path,
        *,
        name: str = "",
        only_pins: bool = False,
        links: Path | None = None,
        moves: tuple[Callable[[], SshAddress], str] | None = None,
    ) -> None:
        """Prepare; name is the box's in the book, only_pins keeps the user's own known_hosts out of a first contact.

        links is the folder of connections that short requests may share; none are shared without it. moves is for a box
        whose address changes: what to ask before each connection, and the name under which its host key is pinned.
        """
        self.name = name or f"ssh:{address}"
        self.address = address
        self.pins = pins
        self.links = links
        self.proven = False  # it ran a command for this process
        self._met = pins.with_name(pins.name + ".met")
        self._only_pins = only_pins or moves is not None
        self._locate = moves[0] if moves else None
        self._alias = moves[1] if moves else ""
        self._ssh = shlex.split(os.environ.get("LEASEHOLD_SSH", "ssh"))

    @property
    def stays(self) -> bool:
        """Return whether its address is always the same, so that a command line can be used again later."""
        return self._locate is None

    def _find(self) -> None:
        """Ask where the box is now; LinkError if it is nowhere."""
        if self._locate is not None:
            self.address = self._locate()

    def open(self, command: str) -> ProcessLink:
        """Start the boot line on the box."""
        self._find()
        return ProcessLink(self.argv(command), os.environ, self._explain, brisk=True)

    def open_with(self, command: str, options: Mapping[str, str]) -> ProcessLink:
        """Start command with additional ssh options."""
        self._find()
        words = [*self._words(more=options), "--", self.address.host, command]
        return ProcessLink(words, os.environ, self._explain)

    def open_subsystem(self, name: str) -> ProcessLink:
        """Ask the box's sshd for a subsystem such as sftp."""
        self._find()
        return ProcessLink([*self._words(), "-s", "--", self.address.host, name], os.environ, self._explain)

    def open_terminal(self) -> ProcessLink:
        """Open a login session with a terminal and no command, as a person would."""
        self._find()
        return ProcessLink([*self._words("force"), "--", self.address.host], os.environ, self._explain)

    def argv(self, command: str) -> list[str]:
        """Build the ssh command line; it contains no secret."""
        return [*self._words(), "--", self.address.host, command]

    def tunnel_argv(self, near_port: int, far_port: int) -> list[str]:
        """Build an ssh command line that only forwards a local port to the box's loopback."""
        self._find()
        words = [word for word in self._words() if word != "-oClearAllForwardings=yes"]
        forward = f"127.0.0.1:{near_port}:127.0.0.1:{far_port}"
        return [*words, "-N", "-oExitOnForwardFailure=yes", "-L", forward, "--", self.address.host]

    def person_argv(self, command: str, *, terminal: bool) -> list[str]:
        """Build an ssh command line for a person's own command, or for a shell if it is empty."""
        self._find()
        end = [command] if command else []
        return [*self._words("force" if terminal else "no"), "--", self.address.host, *end]

    def target(self) -> tuple[str, ...]:
        """Return the destination, as the end of an ssh command line."""
        return (*self._place(), "--", self.address.host)

    def config(self) -> Mapping[str, str]:
        """Ask ssh for the user's own config of this host."""
        return ssh_config.said(tuple(self._ssh), self.target())

    def destination(self) -> tuple[str, str]:
        """Return host and user as the user's config has them; a user that is only ssh's default is left out."""
        config = self.config()
        user = self.address.user or config.get("user", "")
        if not self.address.user and user == ssh_config.unset(tuple(self._ssh)).get("user"):
            user = ""
        return config.get("hostname") or self.address.host, user

    def _words(self, terminal: str = "no", more: Mapping[str, str] = _NOTHING) -> list[str]:
        self.pins.parent.mkdir(parents=True, exist_ok=True)
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "15",
            "ServerAliveInterval": "10",
            "ServerAliveCountMax": "3",
            "StrictHostKeyChecking": "yes" if self.pinned else "accept-new",
            "UserKnownHostsFile": " ".join(quote_option(path) for path in self._trusted_files()),
            "ControlPath": "none",  # a shared master would outlive a logout, and the detach probe prove nothing
            "RemoteCommand": "none",  # an alias that starts tmux for people would refuse a command of ours
            "ForwardX11": "no",
            "ClearAllForwardings": "yes",
            "RequestTTY": terminal,
            "LogLevel": "ERROR",
            **({"HostKeyAlias": self._alias, "CheckHostIP": "no"} if self._alias else {}),
            **more,
        }
        fast = ciphers.remembered(tuple(self._ssh), self.target(), self.pins.with_name(self.pins.name + ".ciphers"))
        if fast:
            options["Ciphers"] = fast
        words = [*self._ssh, *(f"-o{key}={value}" for key, value in options.items())]
        if self.address.identity:
            words += ["-oIdentitiesOnly=yes", "-i", os.path.expanduser(self.address.identity)]
        return words + self._place()

    def _place(self) -> list[str]:
        port = ["-p", str(self.address.port)] if self.address.port else []
        return port + (["-l", self.address.user] if self.address.user else [])

    @property
    def pinned(self) -> bool:
        """Return whether this box's host key was already met and stored."""
        return self.pins.exists() and self.pins.stat().st_size > 0

    @property
    def met(self) -> bool:
        """Return whether this server has ever run a command of ours, or its key was pinned at a contact."""
        return self.pinned or self._met.exists()

    def note_met(self) -> None:
        """Record that it did."""
        if not self.met:
            self._met.touch()

    def fingerprint(self) -> str:
        """Return the pinned key's SHA256 fingerprint; empty if ssh trusted the user's own known_hosts."""
        from .ssh import host_keys  # no connection waits for it

        return host_keys.fingerprint(self.pins)

    def pin_trusted(self) -> bool:
        """After a contact that the user's own known_hosts allowed, pin those keys. If pinned already, do nothing."""
        return not self.pinned and self._copy_trusted(self.pins)

    def trusted_fingerprint(self) -> str:
        """Return the fingerprint of the key that a connection must have: the pinned one, else the user's own."""
        if self.pinned:
            return self.fingerprint()
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            copied = Path(folder) / "key"
            from .ssh import host_keys

            return host_keys.fingerprint(copied) if self._copy_trusted(copied) else ""

    def _copy_trusted(self, to: Path) -> bool:
        from .ssh import host_keys

        said = self.config()
        alias = said.get("hostkeyalias", "")
        names = [alias] if alias else host_keys.names(said.get("hostname", self.address.host), said.get("port", "22"))
        files = [*said.get("userknownhostsfile", "").split(), *said.get("globalknownhostsfile", "").split()]
        return host_keys.copy(files, names, to)

    def _trusted_files(self) -> list[str]:
        """List the known_hosts files of a connection: our pin alone once there is one."""
        if self.pinned or self._only_pins:
            return [str(self.pins)]
        return [str(self.pins), *self.config().get("userknownhostsfile", "").split()]

    def _explain(self, code: int, said: str) -> LinkError:
        last = said.splitlines()[-1] if said else ""
        book = self.name if not self.name.startswith("ssh:") else ""
        box = f"{book} ({self.address})" if book else str(self.address)
        moved = f"lease box add {book or 'NAME'} 'ssh -p NEW …'" + (" --replace" if book else "")
        accept = f"lease box add {book} --replace --fingerprint SHA256:…" if book else f"remove {self.pins}"
        for pattern, error, message, hint in MEANINGS:
            if re.search(pattern, said):
                sent = _SENT_KEY.search(said) if error == "link.host_key_changed" else None
                seen = f"it sent {sent[2]} ({sent[1]}); pinned is {self.fingerprint() or 'none'}" if sent else last
                return LinkError(
                    error, message.format(box=box), seen=seen, hint=hint.format(accept=accept, moved=moved)
                )
        return LinkError("link.lost", f"the ssh connection to {box} ended (exit {code})", seen=last)


_SENT_KEY = re.compile(r"The fingerprint for the (\S+) key sent by the remote host is\s+(SHA256:[A-Za-z0-9+/]+)")
MEANINGS = [
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        "link.host_key_changed",
        "{box} shows another host key than before; nothing was sent",
        "was the box re-created? Compare the fingerprint with the console's; only then: {accept}",
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
        "is the box on, and is the port still the same? Ports change when a box is re-created or restarted: {moved}",
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
    (
        "(kex|ssh)_exchange_identification|banner exchange: .*(reset|closed)|Not allowed at this time",
        "link.turned_away",
        "{box} closed the connection before it sent anything",
        "too many connections at once (sshd's MaxStartups), or a firewall; wait a little and ask again",
    ),
]


def quote_option(path: str) -> str:
    """Quote a path so that ssh reads it as one word and expands nothing in it."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'
