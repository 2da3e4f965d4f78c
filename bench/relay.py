"""A long way in userspace: two network interfaces joined by delay, loss and a rate. SIGUSR1 cuts and heals it.

python bench/relay.py IF_A IF_B DELAY_MS LOSS MBIT, as root of a network namespace; the kernel here has no netem.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import sys
import time
from collections import deque

_ALL_PROTOCOLS = 3
_PACKET_OUTGOING = 4
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_QUEUE_BYTES = 4 << 20  # what a router holds before it drops
_BURST = 64


class Side:
    """One interface, and what waits to leave it towards the other."""

    def __init__(self, name: str) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        self.socket.bind((name, _ALL_PROTOCOLS))
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        with contextlib.suppress(OSError):
            self.socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        self.waiting: deque[tuple[float, bytes]] = deque()  # in order of leaving: the delay is the same for all
        self.waiting_bytes = 0
        self.free_at = 0.0


def main() -> None:
    """Carry packets until killed."""
    near, far = Side(sys.argv[1]), Side(sys.argv[2])
    delay_s, loss, bytes_per_s = float(sys.argv[3]) / 1e3, float(sys.argv[4]), float(sys.argv[5]) * 1e6 / 8
    cut = [False]
    signal.signal(signal.SIGUSR1, lambda *_: cut.__setitem__(0, not cut[0]))
    other = {near: far, far: near}
    with contextlib.suppress(OSError):
        os.nice(-15)  # a wire is not slowed by what its ends compute
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        for side, target in other.items():
            while side.waiting and side.waiting[0][0] <= now:
                _, packet = side.waiting.popleft()
                side.waiting_bytes -= len(packet)
                if not cut[0]:
                    with contextlib.suppress(OSError):
                        target.socket.send(packet)
        dues = [side.waiting[0][0] for side in other if side.waiting]
        wait_s = max(0.0, min(dues) - time.monotonic()) if dues else None
        ready, _, _ = select.select([near.socket, far.socket], [], [], wait_s)
        for side in other:
            if side.socket in ready:
                _take(side, delay_s, bytes_per_s, 1.0 if cut[0] else loss)


def _take(side: Side, delay_s: float, bytes_per_s: float, loss: float) -> None:
    for _ in range(_BURST):
        try:
            packet, address = side.socket.recvfrom(65600)
        except BlockingIOError:
            return
        if address[2] == _PACKET_OUTGOING or random.random() < loss or side.waiting_bytes > _QUEUE_BYTES:
            continue
        side.free_at = max(time.monotonic(), side.free_at) + len(packet) / bytes_per_s
        side.waiting_bytes += len(packet)
        side.waiting.append((side.free_at + delay_s, packet))


if __name__ == "__main__":
    main()
