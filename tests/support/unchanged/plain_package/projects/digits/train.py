import argparse
import os

from toylib.train import train


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output-dir", default="runs/digits")
    parser.add_argument("--width", type=int, default=2)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--resume", default="", help="a checkpoint to go on from")
    args = parser.parse_args()
    os.makedirs(args.output_dir, exist_ok=True)
    train(args)


if __name__ == "__main__":
    main()
