"""From the command to the trainer's first act on a box behind ssh, against rsync and ssh by hand.

Both bring new code each round (one file of twenty changed). Ours is one handshake up to that moment, and a second
one afterwards that proves the detachment; by hand it is two handshakes before it and no proof.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.support.parts import missing_ssh
from tests.support.sshd import SshBox
from tests.support.tcp_proxy import TcpProxy

from .bed import Bed, Launched
from .project import Project
from .rounds import Effort, interleave
from .rows import Goal, MissingPart, Row

_ROUND_TRIP_S = 0.1
_BY_HAND = "rsync + ssh"


def measure(effort: Effort) -> Iterator[Row]:
    """Yield warm launches, the first launch on an empty box, and warm launches over a slow line."""
    _need_parts()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name:
        place = Path(name)
        with SshBox(place / "box", quick_kex=False) as box, TcpProxy(box.port, _ROUND_TRIP_S / 2) as slow:
            near = Bed(place, box, box.ssh_command, Project(place / "code"))
            far = replace(near, ssh=box.ssh_command_through(slow.port))
            yield from _warm(near, effort.choose(full=11, quick=3))
            yield from _cold(near, effort.choose(full=7, quick=2))
            yield from _far(far, effort.choose(full=7, quick=2))


def _warm(bed: Bed, rounds: int) -> Iterator[Row]:
    ours, peer = _warm_rounds(bed, rounds)
    firsts = [each.first_s for each in ours], [each.first_s for each in peer]
    ends = [each.returned_s for each in ours], [each.returned_s for each in peer]
    yield Row("launch", "to the first line, new code", "s", *firsts, _BY_HAND, Goal("ratio", "≤", 1.0))
    yield Row("launch", "to the command's return (ours: detachment proved)", "s", *ends, _BY_HAND)


def _cold(bed: Bed, rounds: int) -> Iterator[Row]:
    ways: dict[str, Callable[[], float]] = {
        "ours": lambda: bed.ours(bed.folder("home"), bed.folder("root")).first_s,
        "by hand": lambda: bed.by_hand(bed.folder("work")).first_s,
    }
    taken = interleave(ways, rounds)
    yield Row("launch", "first ever, on an empty box", "s", taken["ours"], taken["by hand"], _BY_HAND)


def _far(bed: Bed, rounds: int) -> Iterator[Row]:
    ours, peer = _warm_rounds(bed, rounds)
    firsts = [each.first_s for each in ours], [each.first_s for each in peer]
    what = f"to the first line, new code, {_ROUND_TRIP_S * 1000:.0f} ms round trip"
    yield Row("launch", what, "s", *firsts, _BY_HAND)


def _warm_rounds(bed: Bed, rounds: int) -> tuple[list[Launched], list[Launched]]:
    """Launch again and again on folders that stay; interleave's uncounted round warms both."""
    home, root, work = bed.folder("home"), bed.folder("root"), bed.folder("work")
    ways: dict[str, Callable[[], Launched]] = {
        "ours": lambda: bed.ours(home, root),
        "by hand": lambda: bed.by_hand(work),
    }
    taken = interleave(ways, rounds)
    return taken["ours"], taken["by hand"]


def _need_parts() -> None:
    problem = missing_ssh()
    if problem:
        raise MissingPart(problem)
    for name in ("rsync", "git", "setsid"):
        if shutil.which(name) is None:
            raise MissingPart(f"no {name} here")
