"""The user's own ssh config for a host: ssh itself is asked, so that Host, Match and Include count."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping
from types import MappingProxyType

_LIMIT_S = 10.0  # a `Match exec` may run anything
_NOTHING: Mapping[str, str] = MappingProxyType({})


@functools.cache
def said(ssh: tuple[str, ...], target: tuple[str, ...]) -> Mapping[str, str]:
    """Return the output of `ssh -G` for a target, by key; empty if it does not answer in time."""
    try:
        done = subprocess.run(
            [*ssh, "-G", *target],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return _NOTHING
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return MappingProxyType({key: value.strip() for key, _, value in lines})


@functools.cache
def unset(ssh: tuple[str, ...]) -> Mapping[str, str]:
    """Return ssh's values without any config file."""
    return said((*ssh, "-F", "none"), ("--", "localhost"))


def gateway(config: Mapping[str, str]) -> str:
    """Name what carries the first hop: the jump host, the proxy command, or the host itself."""
    jump = config.get("proxyjump", "none")
    if jump != "none":
        return f"jump {jump.partition(',')[0]}"
    command = config.get("proxycommand", "none")
    return f"command {command}" if command != "none" else config.get("hostname", "").lower()
