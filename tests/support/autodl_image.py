"""What lies on a fresh AutoDL system disk, and what its cgroup says; written from outside before the first boot."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.front import smi_script

SCRIPTS = Path(__file__).with_name("autodl")
PYTHON = "/root/miniconda3/bin/python"
LOGIN_PATH = "/root/miniconda3/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
GIB = 1 << 30

_FOLDERS = (
    *("dev", "etc/ssh", "home", "init", "mnt", "opt", "proc", "run", "sys", "tmp", "usr", "var/log", "var/tmp"),
    *("root/.ssh", "root/miniconda3/bin", "root/miniconda3/lib", "root/tf-logs"),
    *("root/autodl-fs", "root/autodl-pub", "root/autodl-tmp"),
)

_SSHD = """\
ListenAddress 127.0.0.1
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile /root/.ssh/authorized_keys
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
UseDNS no
MaxStartups 500:30:1000
MaxSessions 100
KexAlgorithms curve25519-sha256
Subsystem sftp internal-sftp
"""

# The proxy is on loopback here: nothing a test starts may leave this machine.
TURBO = """\
export no_proxy=localhost,127.0.0.1,modelscope.com,aliyuncs.com,tencentyun.com,wisemodel.cn
export http_proxy=http://127.0.0.1:{port} && export https_proxy=http://127.0.0.1:{port}
export REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt
export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
"""
BROKEN_TURBO = 'echo "network_turbo: this region has no academic proxy" >&2\nreturn 1 2>/dev/null || exit 1\n'


class Size(NamedTuple):
    """What a box is given; without a card AutoDL gives half a core and 2 GB, whatever was rented."""

    memory_bytes: int
    cores: float


WITH_CARD = Size(8 * GIB, 2.0)
WITHOUT_CARD = Size(2 * GIB, 0.5)


def write_image(root: Path, host_key: Path, public_key: Path, card: str) -> None:
    """Fill an empty system disk. card is what nvidia-smi says of each: "NVIDIA GeForce RTX 4090, 24564"."""
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.islink("/" + name):
            (root / name).symlink_to(os.readlink("/" + name))
    _write_accounts(root)
    _write_shells(root)
    (root / "etc/ssh/sshd_config").write_text(_SSHD, encoding="utf-8")
    _copy(host_key, root / "etc/ssh/ssh_host_ed25519_key", 0o600)
    _copy(public_key, root / "root/.ssh/authorized_keys", 0o600)
    (root / "root/.ssh").chmod(0o700)
    for name in ("boot", "shutdown"):
        _copy(SCRIPTS / (name + ".sh"), root / "init" / (name if name == "shutdown" else "boot.sh"), 0o755)
    _program(root / "init/nvidia-smi", smi_script([card]))
    _copy(Path(os.path.realpath(_base_python())), root / PYTHON[1:], 0o755)


def python_lib() -> str:
    """The folder of the standard library that belongs to the box's Python."""
    return os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(_base_python())), "..", "lib"))


def write_cgroup(folder: Path, size: Size) -> None:
    """Write what a container reads of its limits (cgroup v1, as there). Readings only: nothing enforces them."""
    shutil.rmtree(folder, ignore_errors=True)
    figures = {
        "memory/memory.limit_in_bytes": size.memory_bytes,
        "memory/memory.usage_in_bytes": 300 << 20,
        "memory/memory.stat": "total_inactive_file 0",
        "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0",
        "cpu/cpu.cfs_quota_us": int(size.cores * 100000),
        "cpu/cpu.cfs_period_us": 100000,
    }
    for name, figure in figures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("%s\n" % figure, encoding="utf-8")


def _write_accounts(root: Path) -> None:
    accounts = ["root:x:0:0:root:/root:/bin/bash", "sshd:x:101:65534::/run/sshd:/usr/sbin/nologin"]
    accounts.append("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin")
    (root / "etc/passwd").write_text("\n".join(accounts) + "\n", encoding="utf-8")
    (root / "etc/group").write_text("root:x:0:\ntty:x:5:\nnogroup:x:65534:\n", encoding="utf-8")
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n", encoding="utf-8")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n", encoding="utf-8")


def _write_shells(root: Path) -> None:
    """A login has conda on its PATH; a command over ssh has not, and hears the message of the day."""
    profile = 'export PATH=%s\nif [ -n "$BASH_VERSION" ]; then . /root/.bashrc; fi\n' % LOGIN_PATH
    (root / "etc/profile").write_text(profile, encoding="utf-8")
    (root / "root/.bashrc").write_text(". /etc/autodl-motd\n", encoding="utf-8")
    _copy(SCRIPTS / "motd.sh", root / "etc/autodl-motd", 0o644)


def _base_python() -> str:
    return getattr(sys, "_base_executable", sys.executable)


def _copy(source: Path, target: Path, mode: int) -> None:
    shutil.copyfile(str(source), str(target))
    target.chmod(mode)


def _program(path: Path, script: str) -> None:
    path.write_text("#!/bin/sh\n" + script, encoding="utf-8")
    path.chmod(0o755)
