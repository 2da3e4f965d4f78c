"""A fast cipher where the user has set none: AES-GCM in hardware moves over twice what ssh's first choice does."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path

_FAST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_CPUINFO = Path("/proc/cpuinfo")


@functools.cache
def preferred(ssh: tuple[str, ...], target: tuple[str, ...]) -> str:
    """Return ssh's own list with the fast ones first; empty when the user set `Ciphers`, or no fast one would help.

    Set is what differs from what ssh says without any config file; ssh itself is asked, so that Host, Match and
    Include count as they do in a connection.
    """
    if not _aes_in_hardware():
        return ""
    chosen = _said([*ssh, "-G", *target])
    if not chosen or chosen != _said([*ssh, "-F", "none", "-G", *target]):
        return ""
    fast = [name for name in _FAST if name in chosen]
    return ",".join(fast + [name for name in chosen if name not in fast]) if fast else ""


def _said(asked: Sequence[str]) -> list[str]:
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL).stdout
    except OSError:
        return []
    for line in answer.splitlines():
        key, _, value = line.partition(" ")
        if key == "ciphers":
            return value.strip().split(",")
    return []


def _aes_in_hardware() -> bool:
    """Without it ChaCha20 is the fast one; where nobody says, a machine of this decade has it."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        return True
    flags = [line for line in text.splitlines() if line.lower().startswith(("flags", "features"))]
    return not flags or "aes" in flags[0].split()
