"""Which parts of the system a test can count on here; each answer is None or the reason to skip."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from typing import Optional

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
