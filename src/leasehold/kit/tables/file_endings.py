"""Guess the kind of a file from its name. The readers of other libraries' kinds are in `readers/formats`."""

from __future__ import annotations

import re
from typing import Dict

_TORCH_BIN = re.compile(
    r"((diffusion_)?pytorch_model|adapter_model|training_args|optimizer|scheduler)\b.*\.bin\Z", re.IGNORECASE
)
# A bare .tar is not among them: PyTorch's examples save checkpoints under that name.
_COMMON: Dict[str, str] = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".pt.tar", ".pth.tar", ".ckpt.tar"), "torch"),
    ".safetensors": "safetensors",
    ".npy": "npy",
    ".npz": "npz",
    ".json": "json",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".csv": "csv",
}
ENDINGS: Dict[str, str] = {
    **dict.fromkeys((".pkl", ".pickle"), "pickle"),
    ".joblib": "joblib",
    ".zip": "zip",
    **dict.fromkeys((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tbz2", ".txz"), "tar.gz"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    ".gguf": "gguf",
    ".onnx": "onnx",
    ".parquet": "parquet",
    **dict.fromkeys((".h5", ".hdf5"), "hdf5"),
    ".keras": "keras",
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
}
_LONGEST = 64  # no ending is longer


def guess_kind(path: str) -> str:
    """Return the kind that a file's name suggests; "bytes" when it suggests none."""
    name = path.rsplit("/", 1)[-1].lower()
    if _TORCH_BIN.match(name):  # .bin is a suffix of many formats; torch's by the names that its libraries use
        return "torch"
    return guess_format(name) or _match(name, _COMMON) or "bytes"


def guess_format(path: str) -> str:
    """Return the kind of another library's file that a name suggests; empty if it is none of these."""
    name = path.rsplit("/", 1)[-1].lower()
    return _match(name, ENDINGS) or ("tfevents" if "tfevents." in name else "")


def _match(name: str, endings: Dict[str, str]) -> str:
    for dot in (at for at, sign in enumerate(name) if sign == "." and len(name) - at < _LONGEST):
        found = endings.get(name[dot:])
        if found:
            return found
    return ""
