"""A state that grows until the small disk it is saved on is full; then a second start on the same disk."""

import os
import sys

from leasehold.checkpoint import Checkpointer


def main(folder: str) -> None:
    state = {"ballast": b""}
    try:
        with Checkpointer(folder, every_steps=10**9) as ckpt:
            for step in range(ckpt.restore(state=state).step, 4):
                state["ballast"] = os.urandom((step + 1) * 900_000)
                ckpt.step(step)
                if step < 2:
                    ckpt.save()
                elif step == 2:
                    ckpt.request()  # as a signal would, at the next step
    finally:
        print("LEFT", *sorted(name for name in os.listdir(folder) if "step-" in name), flush=True)
        again = {"ballast": b""}
        with Checkpointer(folder, every_steps=10**9) as ckpt:
            print("AGAIN", ckpt.restore(state=again).step, flush=True)
        assert len(again["ballast"]) == 2 * 900_000


if __name__ == "__main__":
    main(sys.argv[1])
