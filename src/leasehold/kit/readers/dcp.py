"""Folders that torch's DCP wrote: a pickled list of what lies where, and shards that hold one torch file after another.

The list's pickle is never run: its texts and numbers are taken in order. Every part that it names is then read as the
torch file it is, by the reader that reads those, so that checksums, opaque classes and NaN are seen here, too.
"""

from __future__ import annotations

import hashlib
import os
from typing import Dict, List, NamedTuple, Set, Tuple

from leasehold.kit.readers.checkpoints import finite_note, is_torch
from leasehold.kit.readers.finite import Finding
from leasehold.kit.readers.pickle_ops import operations
from leasehold.kit.readers.reading import KeyList, Limits, NumberTally, Reading, Unreadable, legible
from leasehold.kit.readers.shards import open_shard, plain_name, shard_json
from leasehold.kit.readers.source import Source
from leasehold.kit.readers.torch_zip import read_torch_numbers

OUR_LIST = "leasehold.json"
_LIST = ".metadata"
_HEAD_BYTES = 16


class Part(NamedTuple):
    """A stretch of a shard, and the saved value that it belongs to."""

    offset: int
    length: int
    name: str


class _Tally:
    """What the parts of all shards were found to hold together."""

    def __init__(self) -> None:
        self.tensors = self.numel = self.checked_bytes = self.unread = 0
        self.numbers = NumberTally()
        self.opaque: Set[str] = set()

    def add(self, name: str, reading: Reading, found: Finding) -> None:
        self.tensors += reading.tensors
        self.numel += reading.numel
        self.opaque.update(reading.opaque)
        self.checked_bytes += found.checked_bytes
        self.numbers.add(name, found.numbers.nan, found.numbers.inf)

    def notes(self) -> List[str]:
        found = Finding(self.checked_bytes, self.numbers.numbers())
        if not self.unread or found.numbers.bad:
            return [finite_note(found)]
        return ["%d parts are no torch files, so their numbers were not looked at" % self.unread]


def read_dcp(path: str, limits: Limits) -> Reading:
    """Read the list, then every part of every shard that it names."""
    with open_shard(path, _LIST) as source:
        if source.size > limits.max_pickle_bytes:
            raise Unreadable(".metadata has %d bytes; at most %d are read" % (source.size, limits.max_pickle_bytes))
        data = source.read_at(0, source.size)
    parts, names = _parts(data, limits)
    if not parts:
        raise Unreadable(".metadata names no shard")
    total, tally = len(data), _Tally()
    for shard, listed in sorted(parts.items()):
        with open_shard(path, plain_name(shard)) as source:
            _read_shard(source, shard, listed, tally, limits)
            total += source.size
    extra = sorted(set(_shards(path)) - set(parts))
    notes = ["%d shards, all there, sizes add up" % len(parts), *tally.notes()]
    if extra:
        notes.append("%d shards are not named by .metadata, such as %s" % (len(extra), legible(extra[0])))
    if os.path.exists(os.path.join(path, OUR_LIST)):
        notes.append(_check_our_list(path))
    keys = KeyList(limits)
    keys.extend(sorted({name.partition(".")[0] for name in names}))
    opaque = tuple(sorted(tally.opaque))[: limits.max_opaque]
    count = tally.tensors or len(names)
    return Reading(
        "dcp", total, count, tally.numel, keys.names(), opaque, tuple(notes + keys.notes()), tally.numbers.numbers()
    )


def _read_shard(source: Source, shard: str, parts: List[Part], tally: _Tally, limits: Limits) -> None:
    """Prove that the parts fill the shard without overlap, and read each."""
    at = 0
    for part in sorted(parts):
        if part.offset < at:
            raise Unreadable("%s: %s begins inside the part before it" % (shard, legible(part.name)))
        at = part.offset + part.length
    if source.size != at:
        raise Unreadable("%s has %d bytes, .metadata accounts for %d" % (shard, source.size, at))
    for part in sorted(parts):
        if not is_torch(source.read_at(part.offset, min(part.length, _HEAD_BYTES))):
            tally.unread += part.length > 0
            continue
        try:
            reading, found = read_torch_numbers(source.window(part.offset, part.length), limits)
        except Unreadable as problem:
            raise Unreadable("%s in %s %s" % (legible(part.name), shard, problem.reason)) from problem
        tally.add(part.name, reading, found)


def _parts(data: bytes, limits: Limits) -> Tuple[Dict[str, List[Part]], List[str]]:
    """Find each shard's parts, and the saved names, in the order of the pickle's plain values; nothing is built."""
    atoms = _atoms(data, limits)
    parts: Dict[str, Dict[Part, None]] = {}
    names: Dict[str, None] = {}
    name = ""
    for at, word in enumerate(atoms):
        if word == "relative_path" and at + 5 < len(atoms):
            if (atoms[at + 2], atoms[at + 4]) == ("offset", "length"):
                shard, part = _part(atoms[at + 1 : at + 6 : 2], name)
                parts.setdefault(shard, {})[part] = None
        elif word == "fqn" and at + 1 < len(atoms) and isinstance(atoms[at + 1], str):
            name = str(atoms[at + 1])
            names[name] = None
    return {shard: list(listed) for shard, listed in parts.items()}, list(names)


def _part(words: List[object], name: str) -> Tuple[str, Part]:
    shard, offset, length = words
    if not isinstance(shard, str) or not isinstance(offset, int) or not isinstance(length, int):
        raise Unreadable(".metadata describes a shard by something that is no name and numbers")
    if offset < 0 or length < 0 or offset + length > 2**62:
        raise Unreadable(".metadata gives %s an impossible place" % legible(shard))
    return shard, Part(offset, length, name)


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
    listed = shard_json(path, OUR_LIST).get("files")
    if not isinstance(listed, dict):
        raise Unreadable("%s lists no files" % OUR_LIST)
    for name, facts in sorted(listed.items()):
        if not isinstance(facts, dict):
            raise Unreadable("%s describes %s by something that is no object" % (OUR_LIST, legible(name)))
        with open_shard(path, name if name == _LIST else plain_name(name)) as source:
            digest = hashlib.sha256()
            for piece in source.pieces(0, source.size):
                digest.update(piece)
            if (source.size, digest.hexdigest()) != (facts.get("bytes"), facts.get("sha256")):
                raise Unreadable("%s is damaged: it is not what %s says" % (legible(name), OUR_LIST))
    return "digest: every file is as leasehold.checkpoint wrote it"


def _shards(path: str) -> List[str]:
    return [name for name in os.listdir(path) if name.endswith(".distcp")]
