"""Choose a fast cipher if the user has set none: AES-GCM in hardware is over twice as fast as ssh's first choice."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path

from leasehold.kit.files.atomic import write_atomic

_FAST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_ASK_AGAIN_S = 600.0
_CPUINFO = Path("/proc/cpuinfo")
_CONFIGS = ("~/.ssh/config", "/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d", "~/.ssh/config.d")


def remembered(ssh: tuple[str, ...], target: tuple[str, ...], memory: Path) -> str:
    """Answer as `preferred` does, from a cache of its last answer while the config files are unchanged.

    After ten minutes ssh is asked again in the background: a change in an included file takes effect the next time.
    """
    key = [list(ssh), list(target), [_state(os.path.expanduser(path)) for path in _config_files(ssh)]]
    known = _read(memory, key)
    if known is None:
        return _noted(ssh, target, memory, key)
    if time.time() - memory.stat().st_mtime > _ASK_AGAIN_S:
        threading.Thread(target=_noted, args=(ssh, target, memory, key), daemon=True).start()
    return known


def preferred(ssh: tuple[str, ...], target: tuple[str, ...]) -> str:
    """Return ssh's own list with the fast ones first; empty if the user set `Ciphers`, or no fast one would help.

    A value is set if it differs from that of ssh without any config file.
    """
    from . import ssh_config

    if not _aes_in_hardware():
        return ""
    listed = ssh_config.said(ssh, target).get("ciphers", "")
    if not listed or listed != ssh_config.unset(ssh).get("ciphers", ""):
        return ""
    chosen = listed.split(",")
    fast = [name for name in _FAST if name in chosen]
    return ",".join(fast + [name for name in chosen if name not in fast]) if fast else ""


def _noted(ssh: tuple[str, ...], target: tuple[str, ...], memory: Path, key: list[object]) -> str:
    found = preferred(ssh, target)
    with contextlib.suppress(OSError):  # a home that cannot write asks each time
        write_atomic(str(memory), json.dumps({"of": key, "ciphers": found}).encode(), durable=False)
    return found


def _read(memory: Path, key: list[object]) -> str | None:
    try:
        kept = json.loads(memory.read_bytes())
        return str(kept["ciphers"]) if kept["of"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _config_files(ssh: tuple[str, ...]) -> list[str]:
    """List the files that usually decide: ssh's own, or the one that the command names."""
    named = [ssh[at + 1] for at, word in enumerate(ssh[:-1]) if word == "-F"]
    return [*named, *(word[2:] for word in ssh if word.startswith("-F") and len(word) > 2)] or list(_CONFIGS)


def _state(path: str) -> list[int]:
    try:
        info = os.stat(path)
    except OSError:
        return []
    return [info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino]


def _aes_in_hardware() -> bool:
    """Return whether AES is in hardware; without it ChaCha20 is faster. If unknown, assume a recent machine: yes."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        return True
    flags = [line for line in text.splitlines() if line.lower().startswith(("flags", "features"))]
    return not flags or "aes" in flags[0].split()
