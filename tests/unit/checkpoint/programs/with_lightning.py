"""A training under Lightning that is told to leave at a step; started again it goes on."""

import os
import signal
import sys

import lightning.pytorch as pl
import torch

from leasehold.checkpoint import ResumableSampler
from leasehold.checkpoint.lightning import lightning_callback


class Net(pl.LightningModule):
    def __init__(self, leave_at: int) -> None:
        super().__init__()
        self.net, self.leave_at = torch.nn.Linear(8, 1), leave_at

    def training_step(self, batch, number):
        loss = (self.net(batch[0]) - 1).square().mean()
        print(f"LOSS {self.global_step} {loss.item().hex()}", flush=True)
        if self.global_step == self.leave_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-2)


def main(folder: str, steps: int, leave_at: int, every_steps: int = 0) -> None:
    torch.set_num_threads(1)
    pl.seed_everything(3, verbose=False)
    x = torch.randn(16 * steps, 8, generator=torch.Generator().manual_seed(0))
    sampler = ResumableSampler(16 * steps, 16, seed=4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_sampler=sampler)
    guard = lightning_callback(folder, sampler=sampler, every_steps=every_steps or None)
    trainer = pl.Trainer(
        max_steps=steps, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[guard],
    )  # fmt: skip
    trainer.fit(Net(leave_at), loader, ckpt_path=guard.newest())
    if trainer.global_step == steps:
        print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *map(int, sys.argv[4:]))
