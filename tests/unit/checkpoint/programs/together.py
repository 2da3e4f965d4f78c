"""Two processes train one network: replicated (DDP) or split over both (FSDP). Prints LOSS lines of its own rank."""

import os
import signal
import sys

import torch
import torch.distributed as dist

from leasehold.checkpoint import Checkpointer, ResumableSampler, seed_everything


def main(folder: str, rank: int, meeting: str, way: str, steps: int, end_at: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=2)
    seed_everything(5)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 2))
    model = wrapped(model, way)
    seed_everything(100 + rank)  # each process draws numbers of its own
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    sampler = ResumableSampler(64, 8, seed=3, rank=rank, world=2)
    with Checkpointer(folder, keep=2, total=steps, every_steps=3, sharded=way == "split") as ckpt:
        step = ckpt.restore(model=model, optimizer=optimizer, sampler=sampler).step
        while step < steps:
            for batch in sampler:
                if step >= steps:
                    break
                loss = (model(x[batch]) - x[batch][:, :2]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"LOSS {step} {loss.item().hex()}", flush=True)
                ckpt.step(step, metrics={"loss": loss})
                step += 1
                if step == end_at - 2:
                    ckpt.save()  # so that there is something whole, however slow this machine is
                if step == end_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == -end_at and rank == 1:
                    os.kill(os.getpid(), signal.SIGTERM)  # one process is told; all must leave
    print("DONE", flush=True)
    dist.destroy_process_group()


def wrapped(model, way: str):
    if way == "replicated":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=init_device_mesh("cpu", (2,)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))
