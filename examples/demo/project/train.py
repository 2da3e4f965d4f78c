"""Train a two-layer network on a spiral, with numpy: small, real, and able to continue after any kill."""

import argparse
import csv
import json
import os
import time

import numpy as np

OUT = os.environ.get("LEASE_OUT", "out")
CHECKPOINT = os.path.join(OUT, "model.npz")
HISTORY = os.path.join(OUT, "history.csv")


def spiral(points=300, classes=3):
    rng = np.random.default_rng(7)
    radius = np.tile(np.linspace(0.05, 1, points), classes)
    label = np.repeat(np.arange(classes), points)
    angle = label * 2 * np.pi / classes + radius * 5 + rng.normal(0, 0.12, points * classes)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1), label


def fresh(hidden=64):
    rng = np.random.default_rng(0)
    weights = {"w1": rng.normal(0, 0.5, (2, hidden)), "b1": np.zeros(hidden)}
    return {**weights, "w2": rng.normal(0, 0.1, (hidden, 3)), "b2": np.zeros(3)}


def load():
    if not os.path.exists(CHECKPOINT):
        return fresh(), 0
    with np.load(CHECKPOINT) as kept:
        state = {name: kept[name] for name in kept.files}
    step = int(state.pop("step"))
    print(f"continuing from step {step}", flush=True)
    return state, step


def save(state, step):
    temp = CHECKPOINT + ".tmp"
    with open(temp, "wb") as file:
        np.savez(file, step=step, **state)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temp, CHECKPOINT)


def train_step(state, x, y, rate=1.0):
    hidden = np.maximum(0, x @ state["w1"] + state["b1"])
    scores = hidden @ state["w2"] + state["b2"]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    loss = float(-np.log(odds[np.arange(len(y)), y]).mean())
    accuracy = float((scores.argmax(axis=1) == y).mean())
    odds[np.arange(len(y)), y] -= 1
    odds /= len(y)
    behind = (odds @ state["w2"].T) * (hidden > 0)
    state["w2"] -= rate * hidden.T @ odds
    state["b2"] -= rate * odds.sum(axis=0)
    state["w1"] -= rate * x.T @ behind
    state["b1"] -= rate * behind.sum(axis=0)
    return loss, accuracy


def note(step, loss, accuracy):
    new = not os.path.exists(HISTORY)
    with open(HISTORY, "a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(["step", "loss", "accuracy"])
        writer.writerow([step, f"{loss:.5f}", f"{accuracy:.4f}"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    steps = parser.parse_args().steps
    os.makedirs(OUT, exist_ok=True)
    x, y = spiral()
    state, start = load()
    loss = accuracy = 0.0
    for step in range(start + 1, steps + 1):
        loss, accuracy = train_step(state, x, y)
        time.sleep(0.012)  # stands in for a larger model
        if step % 50 == 0 or step == steps:
            save(state, step)
            note(step, loss, accuracy)
            print(f"step {step:4d}  loss {loss:.4f}  accuracy {accuracy:.3f}", flush=True)
    with open(os.path.join(OUT, "metrics.json"), "w") as file:
        json.dump({"step": steps, "loss": loss, "accuracy": accuracy}, file)


if __name__ == "__main__":
    main()
