"""Checkpoints for training scripts: nothing to install, whole or absent, verified, resumed bit for bit.

from leasehold.checkpoint import Checkpointer

with Checkpointer("ckpt", keep=2, total=steps) as ckpt:
    state = ckpt.restore(model=model, optimizer=optimizer, scheduler=scheduler)
    for step in range(state.step, steps):
        ...
        ckpt.step(step, metrics={"loss": loss})
"""

from leasehold.checkpoint.store.restore import CheckpointError, Restored
from leasehold.checkpoint.store.shelf import Keep

from .checkpointer import Checkpointer
from .sampler import ResumableSampler
from .seeding import seed_everything, seed_worker

__all__ = [
    "CheckpointError",
    "Checkpointer",
    "Keep",
    "ResumableSampler",
    "Restored",
    "seed_everything",
    "seed_worker",
]
