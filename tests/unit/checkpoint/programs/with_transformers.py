"""A training under Hugging Face's Trainer that is told to leave at a step; started again it goes on."""

import os
import signal
import sys

import torch
from transformers import Trainer, TrainingArguments

from leasehold.checkpoint.huggingface import trainer_callback


class Net(torch.nn.Module):
    def __init__(self, leave_at: int) -> None:
        super().__init__()
        self.net, self.leave_at, self.trainer = torch.nn.Linear(8, 1), leave_at, None

    def forward(self, x):
        loss = (self.net(x) - 1).square().mean()
        step = self.trainer.state.global_step
        print(f"LOSS {step} {loss.item().hex()}", flush=True)
        if step == self.leave_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return {"loss": loss}


def main(folder: str, steps: int, leave_at: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    x = torch.randn(4 * steps, 8, generator=torch.Generator().manual_seed(0))
    arguments = TrainingArguments(
        output_dir=folder + "-hf", max_steps=steps, per_device_train_batch_size=4, use_cpu=True, report_to=[],
        save_strategy="no", disable_tqdm=True, logging_steps=1, seed=3,
    )  # fmt: skip
    guard, model = trainer_callback(folder), Net(leave_at)
    trainer = Trainer(model, arguments, train_dataset=[{"x": row} for row in x], callbacks=[guard])
    model.trainer = trainer
    trainer.train(resume_from_checkpoint=guard.newest())
    if trainer.state.global_step == steps:
        print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
