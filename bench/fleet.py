"""`lease status --refresh` over 100 boxes, cold and warm, against plain `ssh true` to the same hosts, 20 at a time."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.fleet import Fleet, settle
from tests.support.parts import find_program

from .rounds import LEASE, Effort, user_environment
from .rows import Goal, MissingPart, Row

_WIDE = "20"


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the cold and the warm row."""
    if find_program("sshd") is None:
        raise MissingPart("no sshd here (Debian: apt-get install openssh-server)")
    count = effort.choose(full=100, quick=20)
    with (
        tempfile.TemporaryDirectory(prefix="lhb-") as place,
        Fleet(Path(place) / "far", count, quick_kex=False) as fleet,
    ):
        yield from _rows(_Home(Path(place), fleet), effort.choose(full=5, quick=2))


def _rows(home: _Home, rounds: int) -> Iterator[Row]:
    try:
        ways = {"1 plain": home.plain, "2 cold": home.cold, "3 warm": home.refresh}  # a cold one leaves what warms
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-1, rounds):
            for name in ways:
                value = ways[name]()
                if number >= 0:
                    taken[name].append(value)
        peer = (taken["1 plain"], f"ssh true, {_WIDE} at once")
        count = len(home.fleet.addresses)
        yield Row("fleet", f"status of {count} boxes, cold", "s", taken["2 cold"], *peer, Goal("ratio", "≤", 1.2))
        yield Row("fleet", f"status of {count} boxes, warm", "s", taken["3 warm"], *peer, Goal("ratio", "≤", 0.2))
    finally:
        home.hang_up()


class _Home:
    """A ledger that knows a run on every box, and status files there."""

    def __init__(self, place: Path, fleet: Fleet) -> None:
        self.fleet = fleet
        self._ssh = ["ssh", "-F", str(fleet.config)]
        self._links = place / "l"
        self._environment = user_environment(
            LEASEHOLD_HOME=str(place / "home"), LEASEHOLD_SSH=shlex.join(self._ssh), LEASEHOLD_LINKS=str(self._links)
        )
        for number, address in enumerate(fleet.addresses):
            root = place / f"box{number}"
            settle(place / "home" / "ledger.sqlite", f"ssh:{address}", root, [f"train-{number:010d}"])
        self._expect = len(fleet.addresses)

    def plain(self) -> float:
        """Run `ssh true` on every host."""
        words = ["xargs", "-P", _WIDE, "-I{}", *self._ssh, "{}", "true"]
        begun = time.perf_counter()
        subprocess.run(words, input="\n".join(self.fleet.addresses), text=True, check=True, capture_output=True)
        return time.perf_counter() - begun

    def cold(self) -> float:
        """Refresh with no connection left open."""
        self.hang_up()
        deadline = time.monotonic() + 10
        while self._links.is_dir() and os.listdir(self._links):
            if time.monotonic() > deadline:
                raise RuntimeError("a connection is still open: this would not be cold")
            time.sleep(0.01)
        return self.refresh()

    def refresh(self) -> float:
        """Refresh; every box must have answered."""
        begun = time.perf_counter()
        words = [LEASE, "status", "--refresh", "--json"]
        done = subprocess.run(words, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        took_s = time.perf_counter() - begun
        boxes = json.loads(done.stdout)["boxes"]
        if boxes["answered"] != self._expect:
            raise RuntimeError(f"only {boxes}")
        return took_s

    def hang_up(self) -> None:
        """End every connection that is kept open."""
        for name in os.listdir(self._links) if self._links.is_dir() else ():
            words = ["ssh", "-F", "none", f"-oControlPath={self._links / name}", "-O", "exit", "x"]
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
