"""The processes of a distributed run: which one writes, and how all reach the same decision."""

from __future__ import annotations

import atexit
import glob
import sys
import time
from typing import Any, List, Optional

SYNC_S = 1.0  # how long a signal to one process may stay unknown to the others
_WORKERS = "pt_gloo"  # how torch names the threads that carry out what a gloo group is asked
_SETTLE_S = 2.0
_LOOK_EVERY_S = 0.01


class Ranks:
    """Communicates through torch.distributed if the script has set it up; alone otherwise."""

    @property
    def world(self) -> int:
        """Return how many processes train together."""
        dist = _dist()
        return int(dist.get_world_size()) if dist is not None else 1

    @property
    def rank(self) -> int:
        """Return this process's rank."""
        dist = _dist()
        return int(dist.get_rank()) if dist is not None else 0

    def highest(self, numbers: List[int]) -> List[int]:
        """Return, place by place, the highest number of any process."""
        dist = _dist()
        if dist is None:
            return numbers
        import torch

        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        together = torch.tensor(numbers, dtype=torch.int64, device=device)
        dist.all_reduce(together, op=dist.ReduceOp.MAX)
        return [int(number) for number in together.tolist()]

    def gather(self, value: Any) -> List[Any]:
        """Return the value of every process, in order."""
        dist = _dist()
        if dist is None:
            return [value]
        values: List[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def first(self, value: Any) -> Any:
        """Return the value of the first process."""
        dist = _dist()
        if dist is None:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def part_at_exit(self) -> None:
        """Destroy the group before the interpreter ends, unless the script does it: a script that obeys us exits early.

        Otherwise leftovers of the group, its threads above all, can abort a process that was about to exit with 0.
        """
        if _dist() is not None:
            atexit.register(_take_down)


class Agreement:
    """Makes all processes decide alike, and communicates only now and then: that means waiting for the device."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._until = 0

    def on(self, anyone: List[int], firsts: List[int], stride: int, now: bool = False) -> Optional[List[int]]:
        """Return the requests of any process and of the first process; None between two exchanges.

        The first process sets after how many steps to ask again; `now`, the same on every process, asks at once.
        """
        if self._ranks.world == 1:
            return [*anyone, *firsts]
        self._until -= 1
        if self._until > 0 and not now:
            return None
        first = self._ranks.rank == 0
        *wishes, self._until = self._ranks.highest(
            [*anyone, *([*firsts, stride] if first else [0] * (len(firsts) + 1))]
        )
        return wishes


def _take_down() -> None:
    dist = _dist()
    if dist is not None:
        dist.destroy_process_group()
        _let_workers_rest()


def _let_workers_rest() -> None:
    """Wait until the group's threads are idle: a model that is still referenced (DDP) keeps them beyond the group.

    One that drops its last tensor while the interpreter ends aborts the process.
    """
    idle, deadline = 0, time.monotonic() + _SETTLE_S
    while idle < 2 and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)  # they may need the interpreter for it
        idle = idle + 1 if all(_is_idle(stat) for stat in glob.glob("/proc/self/task/*/stat")) else 0


def _is_idle(stat: str) -> bool:
    try:
        with open(stat, encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
    except OSError:  # it ended
        return True
    return not name.startswith(_WORKERS) or rest.split()[:1] == ["S"]


def _dist() -> Any:
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist
