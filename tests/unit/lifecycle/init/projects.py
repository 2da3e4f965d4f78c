"""Projects as people have them; laid out by the tests, never run."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping


def place(files: Mapping[str, str], name: str, needle: str) -> str:
    """Say where a text stands in a project's file, as file:line."""
    lines = textwrap.dedent(files[name]).lstrip("\n").splitlines()
    return f"{name}:{next(number for number, line in enumerate(lines, 1) if needle in line)}"


PLAIN_TORCH = {
    "train.py": """
        import argparse
        import json
        import os
        from pathlib import Path

        import torch
        import wandb

        from model import Net


        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--output_dir", default="runs/exp1")
            parser.add_argument("--epochs", type=int, default=90)
            parser.add_argument("--batch-size", type=int, default=256)
            parser.add_argument("--workers", type=int, default=8)
            parser.add_argument("--device", default="cuda")
            parser.add_argument("--data", required=True)
            parser.add_argument("--resume", action="store_true")
            args = parser.parse_args()
            out = Path(args.output_dir)
            last = out / "last.pt"
            start = 0
            if last.exists():
                start = torch.load(last)["epoch"]
            for epoch in range(start, args.epochs):
                state = {"model": Net().state_dict(), "optimizer": {}, "epoch": epoch}
                torch.save(state, last)
                torch.save(Net().state_dict(), out / f"epoch_{epoch:03d}.pt")
            with open(os.path.join(args.output_dir, "metrics.json"), "w") as file:
                json.dump({"accuracy": 0.9}, file)


        if __name__ == "__main__":
            main()
    """,
    "model.py": "import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n",
    "evaluate.py": """
        import argparse
        import torch

        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--checkpoint", required=True)
            torch.save({}, "evaluated.pt")
    """,
    "requirements.txt": "torch==2.1.0\nwandb\n",
    "requirements-dev.txt": "pytest\n",
}

HF_TRAINER = {
    "run_clm.py": """
        from dataclasses import dataclass, field
        from typing import Optional

        from datasets import load_dataset
        from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
        from transformers.trainer_utils import get_last_checkpoint


        @dataclass
        class DataTrainingArguments:
            dataset_name: Optional[str] = field(default="wikitext", metadata={"help": "name"})
            max_train_samples: Optional[int] = field(default=None)


        def main():
            parser = HfArgumentParser((DataTrainingArguments, TrainingArguments))
            data_args, training_args = parser.parse_args_into_dataclasses()
            data = load_dataset("wikitext", "wikitext-2-raw-v1")
            model = AutoModelForCausalLM.from_pretrained("gpt2")
            last = get_last_checkpoint(training_args.output_dir)
            trainer = Trainer(model=model, args=training_args, train_dataset=data)
            result = trainer.train(resume_from_checkpoint=last)
            trainer.save_model()
            trainer.save_metrics("train", result.metrics)


        if __name__ == "__main__":
            main()
    """,
    "pyproject.toml": '[project]\nname = "clm"\nversion = "0"\n',
    "README.md": "# clm\n\n```bash\n$ python run_clm.py --dataset_name wikitext --num_train_epochs 3\n```\n",
}

LIGHTNING_HYDRA = {
    "src/train.py": """
        import hydra
        import lightning as L
        from lightning.pytorch.callbacks import ModelCheckpoint
        from lightning.pytorch.loggers import CSVLogger, WandbLogger
        from omegaconf import DictConfig


        @hydra.main(version_base="1.3", config_path="../configs", config_name="train")
        def main(cfg: DictConfig) -> None:
            folder = f"{cfg.paths.output_dir}/checkpoints"
            saver = ModelCheckpoint(dirpath=folder, filename="{epoch:03d}", save_last=True)
            logger = WandbLogger(project="x")
            trainer = L.Trainer(callbacks=[saver], logger=logger, max_epochs=cfg.trainer.max_epochs)
            trainer.fit(object(), ckpt_path="last")


        if __name__ == "__main__":
            main()
    """,
    "configs/train.yaml": "defaults:\n  - trainer: default\nseed: 12345\n",
    "configs/trainer/default.yaml": "min_epochs: 1\nmax_epochs: 10\naccelerator: gpu\n",
    "configs/data/mnist.yaml": "batch_size: 128\nnum_workers: 4\ndata_dir: data/\n",
    "configs/scheduler/cosine.yaml": "max_epochs: 10\n",
    "environment.yaml": "name: x\ndependencies: [python=3.11]\n",
}

NANO_GPT = {
    "train.py": """
        import os
        import torch

        out_dir = 'out'
        max_iters = 600000
        batch_size = 12
        device = 'cuda'
        exec(open('configurator.py').read())
        init_from = 'scratch'
        checkpoint = {'model': 1, 'optimizer': 2, 'config': config}
        torch.save(checkpoint, os.path.join(out_dir, 'ckpt.pt'))
    """,
    "configurator.py": "import sys\n",
}

KERAS_FIXED_PATHS = {
    "main.py": """
        import keras
        import pandas as pd

        model = keras.Sequential()
        saver = keras.callbacks.ModelCheckpoint("checkpoints/weights-{epoch:02d}.keras")
        history = model.fit([], callbacks=[saver])
        pd.DataFrame(history.history).to_csv("history.csv", index=False)

        if __name__ == "__main__":
            pass
    """,
    "setup.py": "from setuptools import setup\nsetup(name='x')\n",
}

READS_LEASE_OUT = {
    "train.py": """
        import json
        import os

        import jax
        import numpy as np

        OUT = os.environ.get("LEASE_OUT", ".")

        if __name__ == "__main__":
            np.savez(os.path.join(OUT, "params"), w=[1])
            with open(OUT + "/log.jsonl", "a") as file:
                file.write(json.dumps({}) + "\\n")
            token = os.environ["HF_TOKEN"]
    """,
}
