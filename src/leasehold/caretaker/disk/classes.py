"""Classify a file or folder by its place and name: caches, checkpoints, images, dumps, our own. Rules as data."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import Dict, List, Mapping, Optional, Tuple

# class -> (the variable that moves it, its default place)
KNOWN_PLACES: Tuple[Tuple[str, str, str], ...] = (
    ("cache.pip", "PIP_CACHE_DIR", "~/.cache/pip"),
    ("cache.uv", "UV_CACHE_DIR", "~/.cache/uv"),
    ("cache.conda", "CONDA_PKGS_DIRS", "~/.conda/pkgs"),
    ("cache.huggingface", "HF_HOME", "~/.cache/huggingface"),
    ("cache.huggingface", "HF_HUB_CACHE", ""),
    ("cache.torch", "TORCH_HOME", "~/.cache/torch"),
    ("cache.modelscope", "MODELSCOPE_CACHE", "~/.cache/modelscope"),
    ("cache.wandb", "WANDB_CACHE_DIR", "~/.cache/wandb"),
    ("cache.npm", "npm_config_cache", "~/.npm"),
    ("cache.apt", "", "/var/cache/apt/archives"),
    ("trash", "", "~/.local/share/Trash"),
)
_BELOW_CACHE = {  # name of a folder right below one called cache or .cache
    "pip": "cache.pip",
    "uv": "cache.uv",
    "huggingface": "cache.huggingface",
    "torch": "cache.torch",
    "modelscope": "cache.modelscope",
    "wandb": "cache.wandb",
    "yarn": "cache.npm",
}
_OURS = {  # folders right below our root
    "caretaker": "ours.parcels",
    "trees": "ours.trees",
    "blobs": "ours.trees",
    "data": "ours.data",
    "inputs": "ours.inputs",
    "quarantine": "ours.quarantine",
}
_TRANSPARENT = ("active", "cache")  # below our root: their contents are classified one by one
BESIDE = ".leasehold-quarantine"  # the quarantine of a target that lies on another disk than our root
_TRASH = (".Trash", ".Trash-*")
_PACKAGES = ("site-packages", "dist-packages", "node_modules")
_PYTHON_LIB = re.compile(r"python\d+\.\d+\Z")
_PARTS = ("models--*", "datasets--*", "spaces--*")  # parts of the Hugging Face cache that can be deleted separately
_CHECKPOINT_FOLDER = re.compile(r"(?:checkpoint|ckpt|global_step|step|epoch|iter)[-_=.]?\d+\Z", re.IGNORECASE)
_CHECKPOINT_FILE = (".pt", ".pth", ".ckpt", ".safetensors")
_IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".crdownload", ".aria2", ".incomplete")
_DATA = (".tar", ".tgz", ".gz", ".zip", ".zst", ".7z", ".parquet", ".arrow", ".h5", ".hdf5", ".mdb", ".tfrecord")
_CORE = re.compile(r"core(?:\.\d+)?\Z")
_STEP = re.compile(r"(?:global_step|steps?|epochs?|iters?|iterations?|checkpoint|ckpt|ep)[-_=.]?(\d+)", re.IGNORECASE)
_METRIC = re.compile(r"(?:loss|acc|score|bleu|fid|map|auc|ppl|f1|reward|metric)\w*[-_=]?\d", re.IGNORECASE)
_KEPT_WORDS = re.compile(r"(?:\b|_)(?:best|last|latest|final|ema)(?:\b|_|\d)", re.IGNORECASE)
_WORTH_BYTES = 1 << 20  # a small .pth is no checkpoint, and a small .part no download
_DATA_MIN_BYTES = 256 << 20


def known_places(environ: Mapping[str, str], home: str) -> Dict[str, str]:
    """Map the real paths of caches, links followed, to their classes."""
    found: Dict[str, str] = {}
    for kind, variable, usual in KNOWN_PLACES:
        for place in (environ.get(variable, "") if variable else "", usual):
            path = os.path.join(home, place[2:]) if place.startswith("~/") else place
            if path.startswith("/") and os.path.isdir(path):
                found.setdefault(os.path.realpath(path), kind)
    return found


def cache_links(home: str, known: Mapping[str, str]) -> List[Dict[str, str]]:
    """List caches that are links to elsewhere: they are counted at their real path."""
    found = []
    for kind, _, usual in KNOWN_PLACES:
        path = os.path.join(os.path.realpath(home), usual[2:]) if usual.startswith("~/") else usual
        real = os.path.realpath(path)
        if path and real != path and os.path.isdir(real):
            found.append({"path": path, "real": real, "class": known.get(real, kind)})
    return found


def folder_class(path: str, root: str) -> str:
    """Return a folder's class by its name and place; empty when these do not show one."""
    above, name = os.path.split(path)
    near = os.path.basename(above)
    if above == root and name not in _TRANSPARENT:
        return _OURS.get(name, "ours.other")
    if above == os.path.join(root, "active"):
        return "ours.run"
    if near in ("cache", ".cache") and name in _BELOW_CACHE:
        return _BELOW_CACHE[name]
    if name == "_cacache" and near == ".npm":
        return "cache.npm"
    if name == "pkgs" and os.path.isdir(os.path.join(above, "conda-meta")):
        return "cache.conda"
    if name in _PACKAGES or near == "lib" and _PYTHON_LIB.match(name):
        return "environment"
    if name == BESIDE:
        return "ours.quarantine"
    if any(fnmatch.fnmatch(name, pattern) for pattern in _TRASH):
        return "trash"
    if name == "wandb" and os.path.lexists(os.path.join(path, "latest-run")):
        return "wandb"
    return ""


def part_of_cache(kind: str, name: str) -> bool:
    """Return whether a folder inside a cache is a unit of its own: one model, one data set."""
    return kind == "cache.huggingface" and any(fnmatch.fnmatch(name, pattern) for pattern in _PARTS)


def is_checkpoint_folder(name: str) -> bool:
    """Return whether a folder is one saved step, as trainers write them."""
    return _CHECKPOINT_FOLDER.match(name) is not None


def file_class(name: str, size: int) -> str:
    """Return a file's class by its name and size; empty when these do not show one."""
    low = name.lower()
    if low.endswith(_IMAGES):
        return "images"
    if "tfevents" in low:
        return "tensorboard"
    if size < _WORTH_BYTES:
        return ""
    if low.endswith(_CHECKPOINT_FILE):
        return "checkpoint"
    if low.endswith(_UNFINISHED):
        return "temp"
    if _CORE.match(name):
        return "core"
    return "dataset" if size >= _DATA_MIN_BYTES and low.endswith(_DATA) else ""


def is_core(path: str) -> bool:
    """Return whether a file is a core dump of a crashed process."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        head = os.read(fd, 18)
    finally:
        os.close(fd)
    return len(head) == 18 and head[:4] == b"\x7fELF" and head[16] == 4


def step_of(name: str) -> Optional[int]:
    """Return the step of a checkpoint; None where its name shows none, or another reason to keep it."""
    if _KEPT_WORDS.search(name) or _METRIC.search(name):
        return None
    found = _STEP.findall(name)
    return int(found[-1]) if found else None


def family_of(name: str) -> str:
    """Return the name without its numbers: checkpoints of one series differ only in those."""
    return re.sub(r"\d+", "#", name)


def says_best(name: str) -> bool:
    """Return whether a checkpoint's name marks it as one to keep for its quality."""
    return bool(re.search(r"best", name, re.IGNORECASE) or _METRIC.search(name))
