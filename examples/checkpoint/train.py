"""A training that may be killed at any moment: run the same command again and it goes on, bit for bit.

Needs nothing but Python. With torch, hand over model, optimizer, scheduler, scaler and ema in the same way
(docs/checkpoints.md).
"""

from __future__ import annotations

import os
import random

from leasehold.checkpoint import Checkpointer, Keep, ResumableSampler, seed_everything

STEPS = int(os.environ.get("STEPS", "2000"))


def main() -> None:
    """Fit a line to noisy points."""
    seed_everything(7)
    state = {"slope": 0.0, "offset": 0.0}
    sampler = ResumableSampler(length=400, batch=8, seed=7)
    with Checkpointer("ckpt", keep=Keep(last=2), total=STEPS) as ckpt:
        step = ckpt.restore(state=state, sampler=sampler).step
        while step < STEPS:
            for batch in sampler:
                if step >= STEPS:
                    break
                loss = descend(state, batch)
                ckpt.step(step, metrics={"loss": loss}, epoch=sampler.epoch)
                step += 1


def descend(state: dict[str, float], batch: list[int]) -> float:
    """Take one step; return the loss before it."""
    points = [(number / 400, 3 * number / 400 + 1 + random.gauss(0, 0.05)) for number in batch]
    errors = [state["slope"] * x + state["offset"] - y for x, y in points]
    state["slope"] -= 0.1 * sum(error * x for error, (x, _) in zip(errors, points, strict=True)) / len(batch)
    state["offset"] -= 0.1 * sum(errors) / len(batch)
    return sum(error**2 for error in errors) / len(batch)


if __name__ == "__main__":
    main()
