"""What the cards say, through one long-lived `nvidia-smi`: the way where the driver's library cannot be opened."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from typing import Any, Dict, List, Optional

from .nvml import CannotAsk, reasons_of

FIELDS = (  # newer drivers say clocks_event_reasons, and still know the older name
    "index",
    "name",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "clocks.sm",
    "clocks.max.sm",
    "power.draw",
    "temperature.gpu",
    "clocks_throttle_reasons.active",
    "ecc.errors.uncorrected.volatile.total",
)
_MIB = 1 << 20
_READ_BYTES = 1 << 16


class Smi:
    """A running nvidia-smi that prints a line per card and period; the newest of each card is what we know."""

    hears_xids = False

    def __init__(self, every_s: int, tool: str = "nvidia-smi") -> None:
        path = shutil.which(tool)
        if path is None:
            raise CannotAsk("%s is not installed" % tool)
        asked = ["--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader,nounits", "-l", str(every_s)]
        try:
            self._child = subprocess.Popen(
                [path, *asked], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise CannotAsk("%s could not be started: %s" % (path, error.strerror or error)) from None
        assert self._child.stdout is not None
        self._fd = self._child.stdout.fileno()
        os.set_blocking(self._fd, False)
        self._rest = b""
        self._newest: Dict[int, Dict[str, Any]] = {}

    def describe(self) -> List[Dict[str, Any]]:
        """Nothing beforehand: the lines themselves say what the cards are."""
        return []

    def sample(self, deep: bool = True) -> List[Dict[str, Any]]:
        """Return the newest line of each card; CannotAsk when the tool has ended."""
        self._hear()
        if self._child.poll() is not None:
            raise CannotAsk("nvidia-smi ended with code %d" % self._child.returncode)
        return [self._newest[index] for index in sorted(self._newest)]

    def xids(self) -> List[Any]:
        """The tool does not tell of them."""
        return []

    def close(self) -> None:
        """End the tool."""
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGKILL)
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                chunk = os.read(self._fd, _READ_BYTES)
                if not chunk:
                    return
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                self._rest = self._rest[-_READ_BYTES:]
                for line in lines:
                    card = parse(line.decode("utf-8", "replace"))
                    if card is not None:
                        self._newest[card["index"]] = card


def parse(line: str) -> Optional[Dict[str, Any]]:
    """Read one line of the tool; what it does not know ("[N/A]") is absent."""
    words = [word.strip() for word in line.split(",")]
    if len(words) != len(FIELDS) or not words[0].isdigit():
        return None
    said = dict(zip(FIELDS, words))
    card: Dict[str, Any] = {"index": int(words[0]), "name": said["name"]}
    for name, field, unit in (
        ("util_percent", "utilization.gpu", 1),
        ("memory_used_bytes", "memory.used", _MIB),
        ("memory_total_bytes", "memory.total", _MIB),
        ("sm_mhz", "clocks.sm", 1),
        ("sm_mhz_max", "clocks.max.sm", 1),
        ("temperature_c", "temperature.gpu", 1),
        ("ecc_uncorrected", "ecc.errors.uncorrected.volatile.total", 1),
    ):
        if said[field].isdigit():
            card[name] = int(said[field]) * unit
    with contextlib.suppress(ValueError):
        card["power_w"] = float(said["power.draw"])
    with contextlib.suppress(ValueError):
        card["reasons"] = reasons_of(int(said["clocks_throttle_reasons.active"], 16))
    return card
