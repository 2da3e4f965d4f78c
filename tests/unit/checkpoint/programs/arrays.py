"""A training with numpy: momentum descent with noise from the global generator and from one of its own."""

import sys

import numpy as np

from leasehold.checkpoint import Checkpointer, seed_everything


def main(folder: str, steps: int, every: int) -> None:
    seed_everything(5)
    own = np.random.default_rng(11)
    x = np.random.RandomState(0).normal(size=(64, 8))
    y = x @ np.arange(8.0)
    state = {"w": np.zeros(8), "v": np.zeros(8, np.float32), "count": np.int64(0), "half": np.ones(3, np.float16)}
    with Checkpointer(folder, keep=2, total=steps, every_steps=every) as ckpt:
        begin = ckpt.restore(state=state, own_generator=own).step
        for step in range(begin, steps):
            rows = own.integers(0, 64, 16)
            error = x[rows] @ state["w"] - y[rows] + 0.01 * np.random.normal(size=16)
            state["v"] = (0.9 * state["v"] - 0.05 * (x[rows].T @ error) / 16).astype(np.float32)
            state["w"] = state["w"] + state["v"]
            state["count"] = state["count"] + 1
            loss = float(np.mean(error**2))
            print(f"LOSS {step} {loss.hex()}", flush=True)
            sys.stdin.readline()  # the test's word: nothing here depends on how fast anything is
            ckpt.step(step, metrics={"loss": loss})
    assert int(state["count"]) == steps
    print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
