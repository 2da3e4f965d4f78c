"""Loopback ports that nobody listens on."""

from __future__ import annotations

import secrets
import socket
from typing import List, Set

_GIVEN: Set[int] = set()  # who was given one may bind it only later


def free_ports(count: int) -> int:
    """Find so many loopback ports in a row; not among those that a box's sshd may choose meanwhile, see sshd.py."""
    for _ in range(100):
        first = 11000 + secrets.randbelow(8900)
        if _GIVEN.intersection(range(first, first + count)):
            continue
        held: List[socket.socket] = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
            _GIVEN.update(range(first, first + count))
            return first
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise RuntimeError("no free ports in a row")
