"""Guess the kind of another library's file from its name. The readers of these kinds are in `readers/formats`."""

from __future__ import annotations

from typing import Dict

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


def guess_format(path: str) -> str:
    """Return the kind that a file's name suggests; empty if none of these."""
    name = path.rsplit("/", 1)[-1].lower()
    for dot in (at for at, sign in enumerate(name) if sign == "." and len(name) - at < _LONGEST):
        found = ENDINGS.get(name[dot:])
        if found:
            return found
    return "tfevents" if "tfevents." in name else ""
