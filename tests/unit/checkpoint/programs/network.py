"""A training with torch: dropout, batch norm, AdamW, a schedule, a loader with workers, EMA, and a gradient scaler."""

import sys

import torch

from leasehold.checkpoint import Checkpointer, ResumableSampler, seed_everything, seed_worker


class Ema:
    """A moving average of the weights."""

    def __init__(self, model) -> None:
        self.shadow = {name: value.detach().clone() for name, value in model.named_parameters()}

    def update(self, model) -> None:
        for name, value in model.named_parameters():
            self.shadow[name].mul_(0.9).add_(value.detach(), alpha=0.1)

    def state_dict(self):
        return self.shadow

    def load_state_dict(self, state) -> None:
        self.shadow = {name: value.clone() for name, value in state.items()}


def main(folder: str, steps: int, every: int, workers: int) -> None:
    torch.set_num_threads(1)
    seed_everything(5)
    norm, drop = torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), norm, torch.nn.ReLU(), drop, torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=steps + 1)
    scaler, ema = torch.amp.GradScaler("cpu"), Ema(model)
    x = torch.randn(96, 8, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    sampler, draws = ResumableSampler(96, 8, seed=3), torch.Generator().manual_seed(1)
    loader = torch.utils.data.DataLoader(
        data, batch_sampler=sampler, num_workers=workers, worker_init_fn=seed_worker, generator=draws
    )
    with Checkpointer(folder, keep=2, total=steps, every_steps=every) as ckpt:
        parts = {"model": model, "optimizer": optimizer, "scheduler": schedule, "scaler": scaler, "ema": ema}
        step = ckpt.restore(**parts, sampler=sampler).step
        while step < steps:
            for inputs, targets in loader:
                if step >= steps:
                    break
                loss = torch.nn.functional.mse_loss(model(inputs), targets)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                schedule.step()
                ema.update(model)
                mark = float(loss) + float(sum(value.sum() for value in ema.shadow.values()))
                print(f"LOSS {step} {mark.hex()}", flush=True)
                sys.stdin.readline()  # the test's word: nothing here depends on how fast anything is
                ckpt.step(step, metrics={"loss": loss}, epoch=sampler.epoch)
                step += 1
    print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
