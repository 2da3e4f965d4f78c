import os
import time

import torch

from model import Tiny

out_dir = "out"
eval_interval = 2000
log_interval = 1
eval_iters = 200
always_save_checkpoint = True
init_from = "scratch"  # 'scratch' or 'resume'
dataset = "data"
batch_size = 12
block_size = 16
n_embd = 16
learning_rate = 6e-4
max_iters = 600000
device = "cuda"
compile = True
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))]
exec(open("configurator.py").read())
config = {k: globals()[k] for k in config_keys}

os.makedirs(out_dir, exist_ok=True)
text = torch.tensor(list(open(os.path.join(dataset, "input.txt"), "rb").read()), dtype=torch.long) % 128
torch.manual_seed(1337)


def get_batch():
    ix = torch.randint(len(text) - block_size, (batch_size,))
    x = torch.stack([text[i : i + block_size] for i in ix])
    y = torch.stack([text[i + 1 : i + 1 + block_size] for i in ix])
    return x.to(device), y.to(device)


iter_num = 0
best_val_loss = 1e9
model = Tiny(n_embd)
if init_from == "resume":
    print(f"Resuming training from {out_dir}")
    ckpt_path = os.path.join(out_dir, "ckpt.pt")
    checkpoint = torch.load(ckpt_path, map_location=device)
    model.load_state_dict(checkpoint["model"])
    iter_num = checkpoint["iter_num"]
    best_val_loss = checkpoint["best_val_loss"]
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
if init_from == "resume":
    optimizer.load_state_dict(checkpoint["optimizer"])
raw_model = model
if compile:
    model = torch.compile(model)


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = [model(*get_batch()).item() for _ in range(eval_iters)]
    model.train()
    return sum(losses) / len(losses)


while True:
    if iter_num % eval_interval == 0:
        val_loss = estimate_loss()
        print(f"step {iter_num}: val loss {val_loss:.4f}")
        if val_loss < best_val_loss or always_save_checkpoint:
            best_val_loss = val_loss
            if iter_num > 0:
                checkpoint = {
                    "model": raw_model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "iter_num": iter_num,
                    "best_val_loss": best_val_loss,
                    "config": config,
                }
                print(f"saving checkpoint to {out_dir}")
                torch.save(checkpoint, os.path.join(out_dir, "ckpt.pt"))
    loss = model(*get_batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    time.sleep(0.03)
    if iter_num % log_interval == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}")
    iter_num += 1
    if iter_num > max_iters:
        break
