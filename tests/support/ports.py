"""Loopback ports that nobody listens on."""

from __future__ import annotations

import secrets
import socket
from typing import List


def free_ports(count: int) -> int:
    """Find so many loopback ports in a row."""
    for _ in range(100):
        first = 20000 + secrets.randbelow(10000)
        held: List[socket.socket] = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise RuntimeError("no free ports in a row")
