"""A training in plain Python: a line fitted by noisy descent. Prints LOSS, the step and the exact loss."""

import random
import sys

from leasehold.checkpoint import Checkpointer, Keep, ResumableSampler, seed_everything


def main(folder: str, steps: int, every: int) -> None:
    seed_everything(5)
    state = {"w": [0.0, 0.0], "velocity": (0.0, 0.0), "history": {}, "seen": {1, 2}}
    sampler = ResumableSampler(40, 4, seed=9)
    with Checkpointer(folder, keep=Keep(last=2), total=steps, every_steps=every) as ckpt:
        step = ckpt.restore(state=state, sampler=sampler).step
        while step < steps:
            for batch in sampler:
                if step >= steps:
                    break
                loss = train(state, batch)
                state["history"][step] = loss
                print(f"LOSS {step} {loss.hex()}", flush=True)
                sys.stdin.readline()  # the test's word: nothing here depends on how fast anything is
                ckpt.step(step, metrics={"loss": loss}, epoch=sampler.epoch)
                step += 1
    print("DONE", flush=True)


def train(state, batch) -> float:
    noise = random.gauss(0, 0.1)
    (a, b), (va, vb) = state["w"], state["velocity"]
    error = [(a * x + b) - (3 * x + 1) + noise for x in (n / 40 for n in batch)]
    ga = sum(e * n / 40 for e, n in zip(error, batch, strict=True)) / len(batch)
    va, vb = 0.9 * va - 0.1 * ga, 0.9 * vb - 0.1 * sum(error) / len(batch)
    state["w"], state["velocity"] = [a + va, b + vb], (va, vb)
    return sum(e * e for e in error) / len(batch)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
