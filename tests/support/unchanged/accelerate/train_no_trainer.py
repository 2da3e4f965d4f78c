import argparse
import json
import os
import time

import torch
from accelerate import Accelerator


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", type=str, default=None, help="Where to store the final model.")
    parser.add_argument("--max_train_steps", type=int, default=240)
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--checkpointing_steps", type=str, default=None, help="every n steps, or 'epoch'")
    parser.add_argument("--resume_from_checkpoint", type=str, default=None, help="a checkpoint folder")
    return parser.parse_args()


def main():
    args = parse_args()
    accelerator = Accelerator()
    if args.output_dir is not None:
        os.makedirs(args.output_dir, exist_ok=True)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    model, optimizer = accelerator.prepare(model, optimizer)
    completed_steps = 0
    if args.resume_from_checkpoint:
        accelerator.print(f"Resumed from checkpoint: {args.resume_from_checkpoint}")
        accelerator.load_state(args.resume_from_checkpoint)
        path = os.path.basename(args.resume_from_checkpoint)
        completed_steps = int(path.replace("step_", ""))
    while completed_steps < args.max_train_steps:
        x = torch.randn(args.per_device_train_batch_size, 8, device=accelerator.device)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.03)
        completed_steps += 1
        print(f"step {completed_steps}/{args.max_train_steps} loss {loss.item():.4f}", flush=True)
        if args.checkpointing_steps is not None and completed_steps % int(args.checkpointing_steps) == 0:
            output_dir = f"step_{completed_steps}"
            if args.output_dir is not None:
                output_dir = os.path.join(args.output_dir, output_dir)
            accelerator.save_state(output_dir)
    if args.output_dir is not None:
        accelerator.save_model(model, args.output_dir)
        with open(os.path.join(args.output_dir, "all_results.json"), "w") as f:
            json.dump({"loss": loss.item()}, f)


if __name__ == "__main__":
    main()
