"""Stay out of the trainer's way: the lowest priority for processor and disk, and a limit of bytes a second."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Callable

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273, "s390x": 282, "riscv64": 30}
_IDLE = 3 << 13  # IOPRIO_CLASS_IDLE
_LOWEST = 19
_BURST_S = 1.0


def yield_to_trainer() -> None:
    """Give this process the lowest priorities that the system has; one that refuses is no reason not to copy."""
    with contextlib.suppress(OSError):
        os.nice(_LOWEST)
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is None:
        return
    with contextlib.suppress(
        Exception
    ):  # no ctypes, no libc, another kernel: the copy is then as polite as nice makes it
        import ctypes

        ctypes.CDLL(None, use_errno=True).syscall(number, 1, 0, _IDLE)


class Throttle:
    """Lets so many bytes a second pass; 0 is unlimited."""

    def __init__(
        self,
        bytes_per_s: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = bytes_per_s, clock, sleep
        self._left = bytes_per_s * _BURST_S
        self._at = clock()

    def __call__(self, count: int) -> None:
        """Count bytes that have passed; wait until the next may."""
        if not self._rate:
            return
        now = self._clock()
        self._left = min(self._left + (now - self._at) * self._rate, self._rate * _BURST_S) - count
        self._at = now
        if self._left < 0:
            self._sleep(-self._left / self._rate)
