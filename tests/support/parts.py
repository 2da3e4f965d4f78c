"""Which parts of the system a test can count on here; each answer is None or the reason to skip."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from typing import List, Optional

_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def find_program(name: str) -> Optional[str]:
    """Find a program, also where an ordinary user's PATH does not look."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":" + _SBIN)


@functools.lru_cache(maxsize=None)
def missing_ssh() -> Optional[str]:
    """Say why a real sshd cannot run here, or None."""
    for name in ("sshd", "ssh", "ssh-keygen"):
        if find_program(name) is None:
            return "no %s here (Debian: apt-get install openssh-server openssh-client)" % name
    if not os.path.isdir("/proc/self"):
        return "the ssh bed finds its sessions through /proc"
    return None


def missing_git() -> Optional[str]:
    """Return why no repository can be made here, or None."""
    return None if find_program("git") else "no git here (Debian: apt-get install git)"


@functools.lru_cache(maxsize=None)
def missing_slurm() -> Optional[str]:
    """Say why a Slurm cluster cannot run here, or None."""
    for name in ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo"):
        if find_program(name) is None:
            return "no %s here (Debian: apt-get install slurm-wlm munge)" % name
    return None


@functools.lru_cache(maxsize=None)
def missing_slurm_books() -> Optional[str]:
    """Say why Slurm's accounting cannot run here, or None."""
    for name in ("slurmdbd", "mariadbd", "mariadb-install-db", "sacct"):
        if find_program(name) is None:
            return "no %s here (Debian: apt-get install slurmdbd mariadb-server)" % name
    return missing_slurm()


def missing_memory_cgroup() -> Optional[str]:
    """Say why Slurm cannot limit a job's memory here, or None."""
    if os.geteuid() != 0:
        return "only root may make cgroups"
    if not os.path.exists("/sys/fs/cgroup/memory/memory.use_hierarchy"):
        return "no memory cgroup of version 1 here"
    return None


@functools.lru_cache(maxsize=None)
def missing_namespaces() -> Optional[str]:
    """Say why a mount namespace cannot be made here, or None."""
    unshare = find_program("unshare")
    if unshare is None:
        return "no unshare here (Debian: apt-get install util-linux)"
    mapped = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
    tried = [unshare, *mapped, "--mount", "--", "true"]
    answer = subprocess.run(tried, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if answer.returncode == 0:
        return None
    return "the kernel refuses a mount namespace: " + answer.stderr.decode("utf-8", "replace").strip()


def box_namespaces(*kinds: str) -> List[str]:
    """Spell the prefix of a command in new namespaces of these kinds, whose mounts the host never sees."""
    return [find_program("unshare") or "unshare", *kinds, "--propagation", "private", "--"]


def joined_namespaces(pid: int) -> List[str]:
    """Spell the prefix of a command that runs in the mount namespace of this process."""
    return [find_program("nsenter") or "nsenter", "--target", str(pid), "--mount", "--"]


# The parts of a container, tried together: an overlay on /usr, a proc of its own, a pid namespace.
_TRIAL = (
    "set -eu; mount -t tmpfs tmpfs /mnt; cd /mnt; mkdir upper work m p; "
    "mount -t overlay overlay -o lowerdir=/usr,upperdir=upper,workdir=work m; mount -t proc proc p; [ -d p/1 ]"
)


@functools.lru_cache(maxsize=None)
def missing_container() -> Optional[str]:
    """Say why a whole box cannot be made of namespaces here, or None."""
    for name in ("unshare", "nsenter", "setpriv", "pivot_root", "hostname"):
        if find_program(name) is None:
            return "no %s here (Debian: apt-get install util-linux hostname)" % name
    if os.geteuid() != 0:  # ids mapped to an ordinary user cannot take programs out of the host's /usr
        return "a whole box of namespaces needs root"
    if not all(os.path.islink(place) for place in ("/bin", "/sbin", "/lib")):
        return "/bin, /sbin and /lib are not links into /usr here"
    tried = box_namespaces("--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc")
    answer = subprocess.run(
        [*tried, "sh", "-c", _TRIAL], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if answer.returncode == 0:
        return missing_ssh()
    return "the kernel refuses a container: " + answer.stderr.decode("utf-8", "replace").strip()
