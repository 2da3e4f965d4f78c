import os
import time

import torch

from toylab.model import make_model


def save_checkpoint(state, path):
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def train(args):
    torch.manual_seed(args.seed)
    model = make_model(args.hidden)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begin = 0
    if args.resume:
        state = torch.load(args.resume)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["step"]
    for step in range(begin + 1, args.steps + 1):
        x = torch.randn(args.batch_size, 8)
        loss = torch.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.03)
        print(f"step {step}/{args.steps} loss {loss.item():.4f}", flush=True)
        if step % args.save_every == 0 or step == args.steps:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            save_checkpoint(state, os.path.join(args.output_dir, "last.pt"))
