"""Recognize checkpoints that are folders by the names of their files."""

from __future__ import annotations

import os

WEIGHTS = (
    "model.safetensors", "pytorch_model.bin", "diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.bin",
    "adapter_model.safetensors", "adapter_model.bin",
)  # fmt: skip


INDEXES = tuple(name + ".index.json" for name in WEIGHTS[:4])


def folder_kind(path: str) -> str:
    """Return the kind of checkpoint that a folder is; empty if it is none we know."""
    names = set(os.listdir(path))
    if ".metadata" in names:
        return "dcp"
    return "hf" if names & {*INDEXES, *WEIGHTS} else ""
