import argparse
import json
import os

from toylab.train import train


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output-dir", default="runs/digits")
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", default="", help="a checkpoint to go on from")
    args = parser.parse_args()
    os.makedirs(args.output_dir, exist_ok=True)
    train(args)
    with open(os.path.join(args.output_dir, "summary.json"), "w") as file:
        json.dump({"steps": args.steps, "hidden": args.hidden}, file)


if __name__ == "__main__":
    main()
