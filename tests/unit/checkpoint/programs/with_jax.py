"""A training with jax and optax that is killed at a step; started again it goes on."""

import os
import signal
import sys

import jax
import jax.numpy as jnp
import optax

from leasehold.checkpoint import Checkpointer


def main(folder: str, steps: int, leave_at: int) -> None:
    x = jax.random.normal(jax.random.PRNGKey(0), (64, 8))
    params = {"w": jnp.zeros(8), "half": jnp.ones(3, jnp.bfloat16)}
    descent = optax.adamw(1e-1)
    state = {"params": params, "opt": descent.init(params), "key": jax.random.PRNGKey(7)}

    @jax.jit
    def update(state):
        key, now = jax.random.split(state["key"])

        def cost(params):
            noise = 0.1 * jax.random.normal(now, (64,))
            return jnp.mean((x @ params["w"] - 1 + noise) ** 2) + params["half"].astype(jnp.float32).sum() ** 2

        loss, slope = jax.value_and_grad(cost)(state["params"])
        moves, opt = descent.update(slope, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], moves), "opt": opt, "key": key}, loss

    with Checkpointer(folder, total=steps, every_steps=10**9) as ckpt:
        for step in range(ckpt.restore(state=state).step, steps):
            new, loss = update(state)
            state.update(new)
            print(f"LOSS {step} {float(loss).hex()}", flush=True)
            ckpt.step(step, metrics={"loss": loss})
            if step == leave_at:
                ckpt.save()
            if step == leave_at + 2 and leave_at >= 0:
                os.kill(os.getpid(), signal.SIGKILL)
    print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
