"""Checkpoints that are folders: Hugging Face's index with shards, torch's DCP, and our own sharded ones.

All shards are there, none is too many, their sizes add up, and each loads by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Dict, List, Tuple

from leasehold.kit.paths import check_name
from leasehold.kit.readers.checkpoints import read_checkpoint
from leasehold.kit.readers.pickle_ops import operations
from leasehold.kit.readers.reading import DEFAULT_LIMITS, KeyList, Limits, Reading, Unreadable, legible
from leasehold.kit.readers.safetensors import spans_and_metadata
from leasehold.kit.readers.source import Source, open_source

OUR_LIST = "leasehold.json"
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_MAX_INDEX_BYTES = 64 << 20


def folder_kind(path: str) -> str:
    """Say what kind of checkpoint a folder is; empty when it is none we know."""
    names = set(os.listdir(path))
    if ".metadata" in names:
        return "dcp"
    return "hf" if names & set(_INDEXES) else ""


def read_folder(path: str, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read a checkpoint folder as what it is, or raise Unreadable."""
    kind = folder_kind(path)
    if not kind:
        raise Unreadable("is a folder without .metadata (torch DCP) or %s (Hugging Face)" % " or ".join(_INDEXES))
    return _read_dcp(path, limits) if kind == "dcp" else _read_hf(path, limits)


# ---------------------------------------------------------------- Hugging Face


def _read_hf(path: str, limits: Limits) -> Reading:
    name = next(name for name in _INDEXES if os.path.exists(os.path.join(path, name)))
    index = _json(path, name)
    weights, metadata = index.get("weight_map"), index.get("metadata")
    if not isinstance(weights, dict) or not weights or not all(isinstance(shard, str) for shard in weights.values()):
        raise Unreadable("%s has no weight_map from tensors to files" % name)
    wanted: Dict[str, List[str]] = {}
    for tensor, shard in weights.items():
        wanted.setdefault(_plain_name(shard), []).append(tensor)
    size = bytes_read = tensors = numel = 0
    opaque: List[str] = []
    notes: List[str] = []
    for shard, names in sorted(wanted.items()):
        with _open(path, shard) as source:
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
    return Reading("hf", bytes_read, tensors, numel, keys.names(), tuple(sorted(set(opaque))), tuple(notes))


def _shard_bytes(source: Source, reading: Reading, names: List[str], shard: str, limits: Limits) -> int:
    """Check that the shard holds exactly what the index says; return its tensors' bytes (0 for a torch file)."""
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


# ---------------------------------------------------------------- torch's DCP


def _read_dcp(path: str, limits: Limits) -> Reading:
    with _open(path, ".metadata") as source:
        if source.size > limits.max_pickle_bytes:
            raise Unreadable(".metadata has %d bytes; at most %d are read" % (source.size, limits.max_pickle_bytes))
        data = source.read_at(0, source.size)
    ends, names = _storage_ends(data, limits)
    if not ends:
        raise Unreadable(".metadata names no shard")
    total = len(data)
    for shard, end in sorted(ends.items()):
        with _open(path, _plain_name(shard)) as source:
            if source.size != end:
                raise Unreadable("%s has %d bytes, .metadata accounts for %d" % (shard, source.size, end))
            total += source.size
    extra = sorted(set(_shards(path)) - set(ends))
    notes = ["%d shards, all there, sizes add up" % len(ends)]
    if extra:
        notes.append("%d shards are not named by .metadata, such as %s" % (len(extra), legible(extra[0])))
    if os.path.exists(os.path.join(path, OUR_LIST)):
        notes.append(_check_our_list(path))
    keys = KeyList(limits)
    keys.extend(sorted({name.partition(".")[0] for name in names}))
    return Reading("dcp", total, len(names), 0, keys.names(), (), tuple(notes + keys.notes()))


def _storage_ends(data: bytes, limits: Limits) -> Tuple[Dict[str, int], List[str]]:
    """Find each shard's last byte, and the saved names, in the order of the pickle's plain values; nothing is built."""
    atoms = _atoms(data, limits)
    ends: Dict[str, int] = {}
    names: Dict[str, None] = {}
    for at, word in enumerate(atoms):
        if word == "relative_path" and at + 5 < len(atoms):
            shard, offset, length = atoms[at + 1], atoms[at + 3], atoms[at + 5]
            if (atoms[at + 2], atoms[at + 4]) != ("offset", "length"):
                continue
            if not isinstance(shard, str) or not isinstance(offset, int) or not isinstance(length, int):
                raise Unreadable(".metadata describes a shard by something that is no name and numbers")
            if offset < 0 or length < 0 or offset + length > 2**62:
                raise Unreadable(".metadata gives %s an impossible place" % legible(shard))
            ends[shard] = max(ends.get(shard, 0), offset + length)
        elif word == "fqn" and at + 1 < len(atoms) and isinstance(atoms[at + 1], str):
            names[str(atoms[at + 1])] = None
    return ends, list(names)


def _atoms(data: bytes, limits: Limits) -> List[object]:
    """List the text and numbers a pickle pushes, in order, following its memo for them alone."""
    atoms: List[object] = []
    memo: Dict[int, object] = {}
    last: object = None
    for code, argument, _ in operations(data, limits):
        name = chr(code)
        if name in "hjg":  # BINGET, LONG_BINGET, GET
            last = memo.get(int(str(argument)))
            atoms += [last] if last is not None else []
        elif name in "qrp":  # BINPUT, LONG_BINPUT, PUT
            memo[int(str(argument))] = last
        elif code == 0x94:  # MEMOIZE
            memo[len(memo)] = last
        elif isinstance(argument, (str, int)) and name not in "\x80\x95cR":
            last = argument
            atoms.append(argument)
        else:
            last = None
    return atoms


def _check_our_list(path: str) -> str:
    listed = _json(path, OUR_LIST).get("files")
    if not isinstance(listed, dict):
        raise Unreadable("%s lists no files" % OUR_LIST)
    for name, facts in sorted(listed.items()):
        if not isinstance(facts, dict):
            raise Unreadable("%s describes %s by something that is no object" % (OUR_LIST, legible(name)))
        with _open(path, name if name == ".metadata" else _plain_name(name)) as source:
            digest = hashlib.sha256()
            for piece in source.pieces(0, source.size):
                digest.update(piece)
            if (source.size, digest.hexdigest()) != (facts.get("bytes"), facts.get("sha256")):
                raise Unreadable("%s is damaged: it is not what %s says" % (legible(name), OUR_LIST))
    return "digest: every file is as leasehold.checkpoint wrote it"


def _shards(path: str) -> List[str]:
    return [name for name in os.listdir(path) if name.endswith(".distcp")]


def _plain_name(name: str) -> str:
    try:
        return check_name(name.lstrip("_"), "shard") and name
    except ValueError as problem:
        raise Unreadable("names a shard that is no plain file name: %s" % legible(str(problem))) from problem


def _open(path: str, name: str) -> Source:
    place = os.path.join(path, name)
    if os.path.islink(place):
        raise Unreadable("%s is a link" % legible(name))
    try:
        return open_source(place)
    except Unreadable as problem:
        raise Unreadable("%s %s" % (legible(name), problem.reason)) from problem


def _json(path: str, name: str) -> Dict[str, object]:
    with _open(path, name) as source:
        if source.size > _MAX_INDEX_BYTES:
            raise Unreadable("%s has %d bytes; at most %d are read" % (name, source.size, _MAX_INDEX_BYTES))
        try:
            value = json.loads(source.read_at(0, source.size).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise Unreadable("%s is not JSON: %s" % (name, legible(str(error)))) from error
    if not isinstance(value, dict):
        raise Unreadable("%s is not a JSON object" % name)
    return value
