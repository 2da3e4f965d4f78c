"""A small torch job for one card: trains, checkpoints, resumes; its last line is its loss."""

import argparse
import json
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--out", default="out")
args = parser.parse_args()
os.makedirs(args.out, exist_ok=True)
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
last, step = os.path.join(args.out, "last.pt"), 0
if os.path.exists(last):
    state = torch.load(last, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
    print(f"resumed at step {step}", flush=True)


def save(path: str) -> None:
    """Write beside the name and rename, so that a kill leaves the old file or the new one."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


while step < args.steps:
    step += 1
    x = torch.randn(256, 512, device=device)
    y = (x[:, :10].argmax(1)).long()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}/{args.steps} loss {loss.item():.4f}", flush=True)
        save(last)
save(os.path.join(args.out, "best.pt"))
with open(os.path.join(args.out, "metrics.json"), "w") as file:
    json.dump({"loss": loss.item(), "device": device}, file)
