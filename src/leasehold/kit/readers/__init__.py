"""Prove that a file loads without executing anything in it.

    reading = read("best.pt", guess_kind("best.pt"))

Every reader is bounded in memory and time by Limits, whatever the file claims, and raises Unreadable, never
another error, for a file that does not load. Opening (`open_source`) and reading (`read_source`) are separate
so that a process can drop its privileges in between.
"""

from __future__ import annotations

from typing import Callable, Dict, Tuple

from leasehold.kit.readers.base.bounded_file import Source, open_source
from leasehold.kit.readers.base.result import DEFAULT_LIMITS, Limits, Reading, Unreadable, limits_within
from leasehold.kit.readers.checkpoints.checkpoint_files import read_checkpoint
from leasehold.kit.readers.formats import FORMATS
from leasehold.kit.readers.plain.json_text import read_json
from leasehold.kit.readers.plain.line_text import read_csv, read_jsonl
from leasehold.kit.readers.plain.npy import read_npy, read_npz
from leasehold.kit.readers.plain.safetensors import read_safetensors
from leasehold.kit.readers.plain.tar import read_tar
from leasehold.kit.readers.torch.torch_zip import read_torch
from leasehold.kit.tables.file_endings import guess_kind

__all__ = [
    "KINDS",
    "Limits",
    "Reading",
    "Source",
    "Unreadable",
    "guess_kind",
    "limits_within",
    "open_source",
    "read",
    "read_source",
]


def read(path: str, kind: str, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read the whole file as `kind`, or raise Unreadable."""
    with open_source(path) as source:
        return read_source(source, kind, limits)


def read_source(source: Source, kind: str, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read an open file as `kind`, or raise Unreadable."""
    reader = _READERS.get(kind)
    if reader is None:
        raise ValueError(f"kind {kind!r} is unknown; known: {', '.join(KINDS)}")
    return reader(source, limits)


def _read_bytes(source: Source, limits: Limits) -> Reading:
    return Reading("bytes", source.size)  # open_source has refused an empty file


_READERS: Dict[str, Callable[[Source, Limits], Reading]] = {
    "json": read_json,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "npy": read_npy,
    "npz": read_npz,
    "safetensors": read_safetensors,
    "torch": read_torch,
    "checkpoint": read_checkpoint,
    "tar": read_tar,
    **FORMATS,
    "bytes": _read_bytes,
}
KINDS: Tuple[str, ...] = tuple(_READERS)
