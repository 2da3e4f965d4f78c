"""A sampler with a known position: the batches that were trained on, not those prefetched."""

from __future__ import annotations

import random
from typing import Any, Dict, Iterator, List


class ResumableSampler:
    """Yields batches of indexes, shuffled by (seed, epoch) alone; pass it to DataLoader as batch_sampler.

    `Checkpointer.step` counts a batch as done. Workers that prefetch therefore do not move the position.
    """

    def __init__(self, length: int, batch: int, seed: int = 0, rank: int = 0, world: int = 1) -> None:
        self.length, self.batch, self.seed = length, batch, seed
        self.rank, self.world = rank, world
        self.epoch = self.done = 0

    def __len__(self) -> int:
        """Return the number of batches of one epoch, for this process."""
        return self._each // self.batch + bool(self._each % self.batch)

    def __iter__(self) -> Iterator[List[int]]:
        """Yield the rest of this epoch."""
        order = list(range(self.length))
        random.Random("%d/%d" % (self.seed, self.epoch)).shuffle(order)
        mine = order[self.rank : self._each * self.world : self.world]
        for number in range(self.done, len(self)):
            yield mine[number * self.batch : (number + 1) * self.batch]

    def advance(self) -> None:
        """Count a batch as trained on; after the last one the next epoch begins."""
        self.done += 1
        if self.done >= len(self):
            self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self) -> Dict[str, Any]:
        """Return the position."""
        return {"epoch": self.epoch, "done": self.done, "seed": self.seed, "batch": self.batch, "world": self.world}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Go to a position; it is not valid with another batch size or number of processes."""
        ours = (self.seed, self.batch, self.world)
        theirs = (state["seed"], state["batch"], state["world"])
        if ours != theirs:
            raise ValueError("saved with (seed, batch, world) = %r, here they are %r" % (theirs, ours))
        self.epoch, self.done = state["epoch"], state["done"]

    @property
    def _each(self) -> int:
        return self.length // self.world  # the same count for every process; the remainder is left for another epoch
