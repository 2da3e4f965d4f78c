"""A training under Accelerate that is told to leave at a step; started again it goes on."""

import os
import signal
import sys

import torch
from accelerate import Accelerator

from leasehold.checkpoint import seed_everything
from leasehold.checkpoint.accelerate import AccelerateCheckpoints


def main(folder: str, steps: int, leave_at: int) -> None:
    torch.set_num_threads(1)
    seed_everything(3)
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-2))
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    ckpt = AccelerateCheckpoints(accelerator, folder, total=steps)
    for step in range(ckpt.restore(), steps):
        loss = (model(x[step : step + 16]) - 1).square().mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        print(f"LOSS {step} {loss.item().hex()}", flush=True)
        if step == leave_at:
            os.kill(os.getpid(), signal.SIGTERM)
        ckpt.step(step, metrics={"loss": loss})
    print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
