"""A fast cipher where the user has set none: AES-GCM in hardware moves over twice what ssh's first choice does."""

from __future__ import annotations

from pathlib import Path

from . import ssh_config

_FAST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_CPUINFO = Path("/proc/cpuinfo")


def preferred(ssh: tuple[str, ...], target: tuple[str, ...]) -> str:
    """Return ssh's own list with the fast ones first; empty when the user set `Ciphers`, or no fast one would help.

    Set is what differs from what ssh says without any config file.
    """
    if not _aes_in_hardware():
        return ""
    listed = ssh_config.said(ssh, target).get("ciphers", "")
    if not listed or listed != ssh_config.unset(ssh).get("ciphers", ""):
        return ""
    chosen = listed.split(",")
    fast = [name for name in _FAST if name in chosen]
    return ",".join(fast + [name for name in chosen if name not in fast]) if fast else ""


def _aes_in_hardware() -> bool:
    """Without it ChaCha20 is the fast one; where nobody says, a machine of this decade has it."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        return True
    flags = [line for line in text.splitlines() if line.lower().startswith(("flags", "features"))]
    return not flags or "aes" in flags[0].split()
