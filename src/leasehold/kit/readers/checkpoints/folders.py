"""Checkpoints that are folders: Hugging Face's index with shards, torch's DCP, and our own sharded ones.

Checked: all shards exist, no others do, their sizes add up, and each loads by itself.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Dict, List

from leasehold.kit.files.checkpoint_folder import INDEXES, WEIGHTS, folder_kind
from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import DEFAULT_LIMITS, KeyList, Limits, Reading, Unreadable, legible
from leasehold.kit.readers.plain.safetensors import spans_and_metadata

from .checkpoint_files import read_checkpoint
from .dcp import read_dcp
from .shard_files import open_shard, plain_name, shard_json, unread_beside


def read_folder(path: str, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read a checkpoint folder as its kind, or raise Unreadable."""
    kind = folder_kind(path)
    if not kind:
        known = ", ".join((*WEIGHTS[:4], *INDEXES[:1]))
        raise Unreadable("is a folder without .metadata (torch DCP) and without weights of Hugging Face (%s)" % known)
    return read_dcp(path, limits) if kind == "dcp" else _read_hf(path, limits)


def _read_hf(path: str, limits: Limits) -> Reading:
    name = next((name for name in INDEXES if os.path.exists(os.path.join(path, name))), "")
    if not name:
        return _read_lone(path, limits)
    index = shard_json(path, name)
    weights, metadata = index.get("weight_map"), index.get("metadata")
    if not isinstance(weights, dict) or not weights or not all(isinstance(shard, str) for shard in weights.values()):
        raise Unreadable("%s has no weight_map from tensors to files" % name)
    wanted: Dict[str, List[str]] = {}
    for tensor, shard in weights.items():
        wanted.setdefault(plain_name(shard), []).append(tensor)
    size = bytes_read = tensors = numel = 0
    opaque: List[str] = []
    notes: List[str] = []
    for shard, names in sorted(wanted.items()):
        with open_shard(path, shard) as source:
            reading = read_checkpoint(source, limits)
            size += _shard_bytes(source, reading, names, shard, limits)
            bytes_read += reading.bytes
        tensors, numel = tensors + reading.tensors, numel + reading.numel
        opaque += reading.opaque
        notes += ["%s (%s)" % (note, shard) for note in reading.notes if note.startswith("NOT FINITE")]
    claimed = metadata.get("total_size") if isinstance(metadata, dict) else None
    if size and isinstance(claimed, int) and claimed != size:
        raise Unreadable("the index claims %d bytes of tensors, the shards hold %d" % (claimed, size))
    keys = KeyList(limits)
    keys.extend(sorted({tensor.partition(".")[0] for tensor in weights}))
    if not notes and size:
        notes.append("finite: all of %d shards" % len(wanted))
    notes.insert(0, "%d shards, all there%s" % (len(wanted), ", sizes add up" if size and claimed else ""))
    notes += unread_beside(path, wanted)
    return Reading("hf", bytes_read, tensors, numel, keys.names(), tuple(sorted(set(opaque))), tuple(notes))


def _read_lone(path: str, limits: Limits) -> Reading:
    """Read the one file of weights of a small model."""
    name = next(name for name in WEIGHTS if os.path.exists(os.path.join(path, name)))
    with open_shard(path, name) as source:
        reading = read_checkpoint(source, limits)
    keys = KeyList(limits)
    keys.extend(sorted({key.partition(".")[0] for key in reading.keys}))
    notes = ("all in %s" % name, *reading.notes, *unread_beside(path, (name,)))
    return replace(reading, kind="hf", keys=keys.names(), notes=notes)


def _shard_bytes(source: Source, reading: Reading, names: List[str], shard: str, limits: Limits) -> int:
    """Check that the shard holds exactly what the index lists; return its tensors' bytes (0 for a torch file)."""
    if reading.kind == "torch":
        missing = set(names) - set(reading.keys) if len(reading.keys) < limits.max_keys else set()
        held = len(reading.keys)
        size = 0
    else:
        spans, _ = spans_and_metadata(source, limits)
        missing, held = set(names) - {span.name for span in spans}, len(spans)
        size = sum(span.bytes for span in spans)
    if missing:
        raise Unreadable("%s lacks %d tensors of the index, such as %s" % (shard, len(missing), legible(min(missing))))
    if held > len(names):
        raise Unreadable("%s holds %d tensors, the index names %d" % (shard, held, len(names)))
    return size
