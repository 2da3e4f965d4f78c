"""A rented box's ssh door: a real OpenSSH server on loopback, run by this user, with a HOME of its own.

The server is a foreground child of the test. Every session gets the box's HOME (any name a folder can have),
starts there, and carries a mark in its environment, so that whatever it left running, detached or not, is
found and killed by pid when the box closes.
"""

from __future__ import annotations

import os
import pwd
import random
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Dict, List, Mapping, Optional, Type

import pytest

from tests.support import processes
from tests.support.parts import find_program, missing_ssh

HOST = "box"
MARK = "LEASEHOLD_TEST_BED"

_SFTP_SERVERS = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
)


class SshBox:
    """One box behind one sshd. A context manager: started on entry, everything on it killed on exit."""

    def __init__(
        self,
        folder: Path,
        home: Optional[Path] = None,
        environment: Optional[Mapping[str, str]] = None,
        quick_kex: bool = True,
        sftp: bool = True,
        door: str = "",
    ) -> None:
        """Prepare a box whose keys, configs and log lie in folder.

        home may have any name and environment any values.
        Without sftp the server refuses that subsystem. door is a script that answers whatever is asked for, as a
        provider's relay does: commands and subsystems never reach the box.
        quick_kex leaves out the post-quantum key exchange, 90 ms a connection; a bench wants it in.
        Skips the test where sshd is missing, so that a test without the marker real_ssh cannot fail for that.
        """
        lacks = missing_ssh()
        if lacks is not None:
            pytest.skip(lacks)
        folder = Path(os.path.abspath(folder))
        if set(str(folder)) & set('"%\n'):
            raise ValueError("OpenSSH config files cannot name the bed's folder: %r" % str(folder))
        self.folder = folder
        self.home = Path(os.path.abspath(home if home is not None else folder / "home"))
        self.port = 0
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.config = folder / "ssh_config"
        self.known_hosts = folder / "known_hosts"
        self.log = folder / "sshd.log"
        self._mark = "%s-%d-%d" % (folder.name, os.getpid(), random.SystemRandom().getrandbits(32))
        self._environment = {MARK: self._mark, **(environment or {})}
        self._quick_kex = quick_kex
        self._sftp = sftp
        self._door = door
        self._server: Optional[subprocess.Popen[bytes]] = None
        folder.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        make_key(folder / "host_key")
        make_key(folder / "client_key")

    def __enter__(self) -> SshBox:
        self._start_on_a_free_port()
        self._trust_host_key()
        self.config.write_text(self._client_config(self.port), encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    @property
    def ssh_command(self) -> List[str]:
        """The start of an ssh command line; the host's name is "box"."""
        return ["ssh", "-F", str(self.config)]

    def ssh_command_through(self, port: int) -> List[str]:
        """The same, through a proxy on another loopback port; the host key stays the box's."""
        config = self.folder / ("ssh_config.%d" % port)
        config.write_text(self._client_config(port), encoding="utf-8")
        return ["ssh", "-F", str(config)]

    def run(self, command: str, stdin: bytes = b"", timeout_s: float = 60.0) -> subprocess.CompletedProcess[bytes]:
        """Run one shell command on the box over a fresh connection."""
        words = [*self.ssh_command, HOST, command]
        return subprocess.run(words, input=stdin, capture_output=True, timeout=timeout_s, check=False)

    def handshakes(self) -> int:
        """Count the connections that logged in since the box was made."""
        return self.log.read_text(encoding="utf-8", errors="replace").count("Accepted publickey for ")

    def connections(self) -> int:
        """Count the connections that are open now."""
        live = processes.snapshot().values()
        return sum(1 for process in live if process.parent == self._pid() and _is_sshd(process))

    def cut(self) -> int:
        """Drop every open connection; the server stays up and what the sessions started lives on.

        Returns how many connections were dropped.
        """
        dropped = self.connections()
        processes.end(self._session_pids)
        return dropped

    def stop(self) -> None:
        """Take the server down: connections drop, new ones are refused. Stopping twice is stopping once."""
        server = self._server
        if server is None:
            return
        server.send_signal(signal.SIGSTOP)  # no new session between the listing and the kill
        processes.end(self._session_pids)
        server.kill()
        server.wait()
        self._server = None

    def start(self) -> None:
        """Bring the server up again on the same port. Starting twice is starting once."""
        if self._server is None and not self._start():
            raise RuntimeError("sshd did not start on port %d: %s" % (self.port, self._log_tail()))

    def freeze(self) -> None:
        """Hang the server and its sessions: TCP still connects, nothing answers. Work on the box goes on."""
        processes.send([self._pid(), *self._session_pids()], signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        processes.send([*self._session_pids(), self._pid()], signal.SIGCONT)

    def change_host_key(self) -> None:
        """Become a machine with another host key on the same port, which a careful client must refuse."""
        self.stop()
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink()
        make_key(self.folder / "host_key")
        self.start()

    def leftovers(self) -> List[int]:
        """List the processes that sessions of this box started and that still run."""
        return processes.marked("%s=%s" % (MARK, self._mark), os.path.realpath(self.home))

    def close(self) -> None:
        """Kill the server and everything that ran on the box."""
        self.stop()
        processes.end(self.leftovers)

    def _start_on_a_free_port(self) -> None:
        for _ in range(20):
            self.port = free_port()
            if self._start():
                return
        raise RuntimeError("sshd did not start: %s" % self._log_tail())

    def _start(self) -> bool:
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # the packaged service makes it; nobody else does
        (self.folder / "session.sh").write_text(self._session_script(), encoding="utf-8")
        (self.folder / "sshd_config").write_text(self._server_config(), encoding="utf-8")
        words = self._server_words()
        with self.log.open("ab") as log:
            written = log.tell()
            self._server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if self._listens(self._server, written):
            return True
        self._server.kill()
        self._server.wait()
        self._server = None
        return False

    def _server_words(self) -> List[str]:
        return [find_program("sshd") or "sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")]

    def _listens(self, server: subprocess.Popen[bytes], written: int) -> bool:
        deadline = time.monotonic() + 60.0
        with self.log.open("rb") as log:
            while time.monotonic() < deadline and server.poll() is None:
                log.seek(written)
                if b"Server listening on" in log.read():
                    return True
                time.sleep(0.005)
        return False

    def _server_config(self) -> str:
        sftp = next((path for path in _SFTP_SERVERS if os.path.exists(path)), "internal-sftp")
        lines = [
            "ListenAddress 127.0.0.1:%d" % self.port,
            'HostKey "%s"' % (self.folder / "host_key"),
            'AuthorizedKeysFile "%s"' % (self.folder / "client_key.pub"),
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "PermitUserRC no",
            "PrintMotd no",
            "UseDNS no",
            "MaxStartups 500:30:1000",
            "MaxSessions 100",
            # A separate sftp server, since ForceCommand below would turn internal-sftp away.
            *(["Subsystem sftp %s" % sftp] if self._sftp else []),
            # HOME here decides which rc files the login shell reads; a config line cannot hold every name
            # a folder can have, so it is a link, and the session then sets the true one.
            'SetEnv "HOME=%s"' % self._home_link(),
            "ForceCommand . %s" % shlex.quote(str(self.folder / "session.sh")),
        ]
        if self._quick_kex:
            lines.append("KexAlgorithms curve25519-sha256")
        return "\n".join(lines) + "\n"

    def _home_link(self) -> Path:
        link = self.folder / "home.link"
        if not link.is_symlink():
            link.symlink_to(self.home)
        return link

    def _session_script(self) -> str:
        """What the login shell reads in place of the user's command, which it then runs itself.

        sshd would start the command in the passwd home with that HOME; a box of its own needs its own.
        """
        variables: Dict[str, str] = {**self._environment, "HOME": str(self.home)}
        exports = ["export %s=%s" % (name, shlex.quote(value)) for name, value in variables.items()]
        lines = [
            *exports,
            'cd "$HOME" || exit 1',
            "unset OLDPWD",
            *([self._door, "exit 0"] if self._door else []),
            'if [ -n "${SSH_ORIGINAL_COMMAND+set}" ]; then',
            "  bed_command=$SSH_ORIGINAL_COMMAND",
            "  unset SSH_ORIGINAL_COMMAND",
            '  eval "$bed_command"',
            "else",
            '  exec "$SHELL" -l',
            "fi",
        ]
        return "\n".join(lines) + "\n"

    def _client_config(self, port: int) -> str:
        lines = [
            "Host %s" % HOST,
            "HostName 127.0.0.1",
            "Port %d" % port,
            "User %s" % self.user,
            'IdentityFile "%s"' % (self.folder / "client_key"),
            "IdentitiesOnly yes",
            "IdentityAgent none",
            'UserKnownHostsFile "%s"' % self.known_hosts,
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
            "BatchMode yes",
            "ConnectTimeout 10",
        ]
        if port != self.port:
            lines.append("HostKeyAlias [127.0.0.1]:%d" % self.port)
        return "\n".join(lines) + "\n"

    def _trust_host_key(self) -> None:
        key = (self.folder / "host_key.pub").read_text(encoding="utf-8")
        self.known_hosts.write_text("[127.0.0.1]:%d %s" % (self.port, key), encoding="utf-8")

    def _pid(self) -> int:
        if self._server is None:
            raise RuntimeError("the server of this box is stopped")
        return self._server.pid

    def _session_pids(self) -> List[int]:
        return processes.descendants(self._pid(), _is_sshd)

    def _log_tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-2000:]


def _is_sshd(process: processes.Process) -> bool:
    return process.name.startswith("sshd")  # sshd-session and sshd-auth since OpenSSH 9.8


def make_key(path: Path) -> None:
    """Make an ed25519 key pair without a passphrase; one that is there stays."""
    if not path.exists():
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def free_port(other_than: int = 0) -> int:
    """Pick a port below those the kernel gives to clients, so that a stopped server finds it free again."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20000, 32768)
        if port == other_than:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
