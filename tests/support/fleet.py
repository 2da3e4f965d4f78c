"""Many boxes at once: a real sshd for each, on 127.0.1.N and one port, with the same keys."""

from __future__ import annotations

import json
import os
import pwd
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Dict, List, Optional, Sequence, Type

from tests.support import processes
from tests.support.parts import find_program
from tests.support.sshd import free_port, make_key

_SERVER = """\
HostKey "{folder}/host_key"
AuthorizedKeysFile "{folder}/client_key.pub"
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserRC no
PrintMotd no
UseDNS no
SetEnv "HOME={folder}/home"
{more}
"""
_CLIENT = """\
Host 127.0.1.* gw*
Port {port}
User {user}
IdentityFile "{folder}/client_key"
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile "{folder}/known_hosts"
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
BatchMode yes
{more}
"""


class Fleet:
    """Sshds that differ by their address; server and client take further lines of config.

    quick_kex leaves out the post-quantum key exchange, 90 ms a connection; a bench wants it in.
    """

    def __init__(self, folder: Path, count: int, server: str = "", client: str = "", quick_kex: bool = True) -> None:
        self.folder = folder
        self.addresses = ["127.0.1.%d" % (number + 1) for number in range(count)]
        self.config = folder / "ssh_config"
        self.port = 0
        self._server = server + ("\nKexAlgorithms curve25519-sha256" if quick_kex else "")
        self._client = client
        self._sshds: Dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "home").mkdir(exist_ok=True)
        make_key(folder / "host_key")
        make_key(folder / "client_key")

    def __enter__(self) -> Fleet:
        self.port = free_port()
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        names = {"folder": self.folder, "port": self.port, "user": pwd.getpwuid(os.geteuid()).pw_name}
        (self.folder / "sshd_config").write_text(_SERVER.format(more=self._server, **names), encoding="utf-8")
        self.config.write_text(_CLIENT.format(more=self._client, **names), encoding="utf-8")
        key = (self.folder / "host_key.pub").read_text(encoding="utf-8")
        lines = ["[%s]:%d %s" % (address, self.port, key) for address in self.addresses]
        (self.folder / "known_hosts").write_text("".join(lines), encoding="utf-8")
        for address in self.addresses:
            self._start(address)
        for address in self.addresses:
            self._await(address)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        processes.end(self._sessions)
        for sshd in self._sshds.values():
            sshd.kill()
            sshd.wait()

    def log(self, address: str) -> str:
        """Read what one sshd said."""
        return (self.folder / ("sshd.%s.log" % address)).read_text(encoding="utf-8", errors="replace")

    def logins(self, address: str) -> int:
        """Count the connections that logged in at an address."""
        return self.log(address).count("Accepted publickey for ")

    def sessions(self, address: str) -> List[int]:
        """List the processes of open connections at an address."""
        return processes.descendants(self._sshds[address].pid, lambda process: process.name.startswith("sshd"))

    def _sessions(self) -> List[int]:
        return [pid for address in self._sshds for pid in self.sessions(address)]

    def _start(self, address: str) -> None:
        words = [find_program("sshd") or "sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")]
        words += ["-o", "ListenAddress=%s:%d" % (address, self.port)]
        with (self.folder / ("sshd.%s.log" % address)).open("wb") as log:
            self._sshds[address] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _await(self, address: str) -> None:
        deadline = time.monotonic() + 60.0
        while "Server listening on" not in self.log(address):
            if time.monotonic() > deadline or self._sshds[address].poll() is not None:
                raise RuntimeError("sshd did not start at %s: %s" % (address, self.log(address)[-500:]))
            time.sleep(0.005)


def settle(ledger_file: Path, box: str, root: Path, runs: Sequence[str]) -> None:
    """Write runs that have finished on a box: into the ledger as planned, and into status files as the box has them."""
    from leasehold.ledger import books
    from leasehold.ledger.store import Ledger
    from leasehold.model.job.job import Artifact, Job
    from leasehold.model.run.plan import Plan

    ledger = Ledger(ledger_file, clock=lambda: time.time() - 3600)
    lease = books.open_lease(ledger, box, "generic-ssh", str(root), "1.98USD/h")
    job = Job("train", "python train.py", (Artifact("best.pt", "torch"),))
    for run in runs:
        plan = Plan(run, job, "0" * 64, "generic-ssh", ("setsid",)).as_dict()
        where = {"box": box, "project": "/p", "results": "/p/lease-results"}
        ledger.append("run_planned", lease=lease.id, run=run, plan=plan, name="train", **where)
        status = root / "active" / run / "status.json"
        status.parent.mkdir(parents=True)
        status.write_text(json.dumps({"run": run, "state": "finished", "seq": 6, "reason": ""}), encoding="utf-8")
    ledger.close()


class SilentHost:
    """An address that takes connections and never says a word."""

    def __init__(self, address: str, port: int) -> None:
        self._listener = socket.create_server((address, port), backlog=64)

    def __enter__(self) -> SilentHost:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
