import json
import os
import time


def save(state, path):
    with open(path + ".tmp", "w") as file:
        json.dump(state, file)
    os.replace(path + ".tmp", path)


def train(args):
    state = {"step": 0, "weights": [1.0] * args.width}
    if args.resume:
        with open(args.resume) as file:
            state = json.load(file)
    while state["step"] < args.steps:
        state["step"] += 1
        state["weights"] = [weight * 0.99 for weight in state["weights"]]
        time.sleep(0.03)
        print(f"step {state['step']}/{args.steps} loss {state['weights'][0]:.4f}", flush=True)
        if state["step"] % args.save_every == 0 or state["step"] == args.steps:
            save(state, os.path.join(args.output_dir, "state.json"))
