"""The same random numbers on every start: one seed for all libraries, one for each DataLoader worker."""

from __future__ import annotations

import random
import sys


def seed_everything(seed: int) -> None:
    """Seed Python, and numpy and torch where they are in use."""
    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed(seed % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)  # every cuda device, too


def seed_worker(worker: int) -> None:
    """Seed a DataLoader worker's libraries from the seed torch gave it: worker_init_fn=seed_worker."""
    import torch

    seed = int(torch.initial_seed()) % 2**32
    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed(seed)
