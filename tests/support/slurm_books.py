"""The accounting of a test's Slurm cluster: slurmdbd with a MariaDB of its own, foreground children of the test."""

from __future__ import annotations

import getpass
import os
import subprocess
import time
from pathlib import Path
from typing import Callable

from tests.support.ports import free_ports

_UP_WITHIN_S = 60.0
_DBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=books
StorageLoc=slurm_acct_db
CommitDelay=1
"""
_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass=socket={folder}/munge.sock
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=limits,qos"""
# An account whose one user may choose a QOS that lets him run one job at a time.
_MEMBERS = (
    "add cluster lease", "add account lab", "add qos tight MaxJobsPerUser=1",
    "add user {user} Account=lab QOS=normal,tight DefaultQOS=normal",
)  # fmt: skip
_SQL = (
    "create database slurm_acct_db; create user slurm@'127.0.0.1' identified by 'books';"
    "grant all on slurm_acct_db.* to slurm@'127.0.0.1'"
)


class SlurmBooks:
    """Starts the database and its keeper; `start_child` names and keeps the processes."""

    def __init__(self, folder: Path, start_child: Callable[..., None]) -> None:
        self.folder = folder
        self._start_child = start_child
        port = free_ports(2)
        self._facts = {"folder": folder, "user": getpass.getuser(), "port": port, "database": port + 1}
        self.conf = _CONF.format(**self._facts)

    def start(self) -> None:
        """Bring both up."""
        data = self.folder / "mysql"
        options = ["--no-defaults", f"--datadir={data}"]
        as_whom = [f"--user={getpass.getuser()}"] if os.geteuid() == 0 else []
        install = ["mariadb-install-db", *options, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run([*install, *as_whom], check=True, capture_output=True, timeout=_UP_WITHIN_S)
        self._start_child(
            "mariadbd", "/usr/sbin/mariadbd", *options, *as_whom, f"--socket={self.folder}/mysql.sock",
            f"--pid-file={self.folder}/mariadbd.pid", "--bind-address=127.0.0.1",
            f"--port={self._facts['database']}", "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900", "--skip-name-resolve",
        )  # fmt: skip
        _until(self._make_user, "mariadbd did not answer")
        conf = self.folder / "slurmdbd.conf"
        conf.write_text(_DBD.format(**self._facts))
        conf.chmod(0o600)
        self._start_child("slurmdbd", "/usr/sbin/slurmdbd", "-D")
        _until(lambda: b"started" in _read(self.folder / "slurmdbd.log"), "slurmdbd did not start")
        known = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        for line in _MEMBERS:
            asked = ["sacctmgr", "-i", *line.format(**self._facts).split()]
            subprocess.run(asked, env=known, check=True, capture_output=True, timeout=_UP_WITHIN_S)

    def _make_user(self) -> bool:
        asked = ["mariadb", "--no-defaults", "-uroot", f"-S{self.folder}/mysql.sock", "-e", _SQL]
        return subprocess.run(asked, capture_output=True, check=False, timeout=_UP_WITHIN_S).returncode == 0


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _until(true: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _UP_WITHIN_S
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.05)
