"""Folders written by torch's DCP: a pickled list of places, and shards that hold one torch file after another.

Every part that the list (dcp_metadata.py) names is a torch file and is read by that reader, so checksums, opaque
classes and NaN are checked here, too.
"""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Set, Tuple

from leasehold.kit.files.sha256 import hash_blocks
from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Finding
from leasehold.kit.readers.base.result import KeyList, Limits, NumberTally, Reading, Unreadable, legible
from leasehold.kit.readers.plain.safetensors import read_safetensors_numbers
from leasehold.kit.readers.torch.torch_zip import read_torch_numbers

from .checkpoint_files import finite_note, is_torch
from .dcp_metadata import Part, read_listing
from .shard_files import open_shard, plain_name, shard_json, unread_beside

OUR_LIST = "leasehold.json"
_LIST = ".metadata"
_HEAD_BYTES = 32
_MOST_UNREAD = 8  # parts reported as not examined


class _Tally:
    """The combined contents of the parts of all shards."""

    def __init__(self, opaque: Iterable[str]) -> None:
        self.tensors = self.numel = self.checked_bytes = self.unread = 0
        self.plain, self.infinite = 0, 0
        self.numbers = NumberTally()
        self.opaque: Set[str] = set(opaque)
        self._unread_inside: Dict[str, None] = {}

    def add(self, name: str, reading: Reading, found: Finding) -> None:
        self.tensors += reading.tensors
        self.numel += reading.numel
        self.opaque.update(reading.opaque)
        self.checked_bytes += found.checked_bytes
        self.plain, self.infinite = self.plain + found.plain[0], self.infinite + found.plain[1]
        self.numbers.add(name, found.numbers.nan, found.numbers.inf)
        if found.numbers.unread and len(self._unread_inside) < _MOST_UNREAD:
            self._unread_inside["%s in %s" % (found.numbers.unread, legible(name))] = None

    def found(self) -> Finding:
        """Return what is known of the numbers of all parts."""
        unread = ["%d parts that an extension changed" % self.unread] if self.unread else []
        self.numbers.unread = ", ".join([*unread, *self._unread_inside])
        return Finding(self.checked_bytes, self.numbers.numbers(), (self.plain, self.infinite))

    def notes(self) -> List[str]:
        return [finite_note(self.found())]


def read_dcp(path: str, limits: Limits) -> Reading:
    """Read the list, then every part of every shard that it names."""
    with open_shard(path, _LIST) as source:
        if source.size > limits.max_pickle_bytes:
            raise Unreadable(".metadata has %d bytes; at most %d are read" % (source.size, limits.max_pickle_bytes))
        data = source.read_at(0, source.size)
    parts, names, opaque = read_listing(data, limits)
    total, tally = len(data), _Tally(opaque)
    for shard, listed in sorted(parts.items()):
        with open_shard(path, plain_name(shard)) as source:
            _read_shard(source, shard, listed, tally, limits)
            total += source.size
    extra = sorted(set(_shards(path)) - set(parts))
    notes = ["%d shards, all there, every byte accounted for" % len(parts), *tally.notes()]
    if extra:
        notes.append("%d shards are not named by .metadata, such as %s" % (len(extra), legible(extra[0])))
    if os.path.exists(os.path.join(path, OUR_LIST)):
        notes.append(_check_our_list(path))
    notes += unread_beside(path, {_LIST, *parts})
    keys = KeyList(limits)
    keys.extend(sorted({name.partition(".")[0] for name in names}))
    opaque = tuple(sorted(tally.opaque))[: limits.max_opaque]
    count = tally.tensors or len(names)
    return Reading(
        "dcp", total, count, tally.numel, keys.names(), opaque, tuple(notes + keys.notes()), tally.found().numbers
    )


def _read_shard(source: Source, shard: str, parts: List[Part], tally: _Tally, limits: Limits) -> None:
    """Prove that the parts fill the shard without overlap or gap, and read each."""
    at = 0
    for part in sorted(parts, key=_place_of):
        if part.offset < at:
            raise Unreadable("%s: %s begins inside the part before it" % (shard, legible(part.name)))
        if part.offset > at:
            raise Unreadable("%s: %d bytes before %s belong to no part" % (shard, part.offset - at, legible(part.name)))
        at = part.offset + part.length
    if source.size != at:
        raise Unreadable("%s has %d bytes, .metadata accounts for %d" % (shard, source.size, at))
    for part in sorted(parts, key=_place_of):
        try:
            _read_part(source, part, tally, limits)
        except Unreadable as problem:
            raise Unreadable("%s in %s %s" % (legible(part.name), shard, problem.reason)) from problem


def _read_part(source: Source, part: Part, tally: _Tally, limits: Limits) -> None:
    """Read a part as the file that it is; one changed by a torch extension counts as unread."""
    head = source.read_at(part.offset, min(part.length, _HEAD_BYTES))
    if part.transformed:
        tally.unread += 1
        return
    window = source.window(part.offset, part.length)
    if is_torch(head):
        reading, found = read_torch_numbers(window, limits)
    elif part.numel is not None and head[8:9] == b"{":
        reading, found = read_safetensors_numbers(window, limits)
    else:
        raise Unreadable("is no torch file: it begins with %r" % head[:8])
    if part.numel is not None and reading.tensors == 1 and reading.numel != part.numel:
        raise Unreadable("holds %d numbers, .metadata says %d" % (reading.numel, part.numel))
    if part.numel is not None and not reading.tensors and not reading.opaque:
        raise Unreadable("holds no tensor, .metadata says that it is one")
    tally.add(part.name, reading, found)


def _place_of(part: Part) -> Tuple[int, int]:
    return part.offset, part.length


def _check_our_list(path: str) -> str:
    listed = shard_json(path, OUR_LIST).get("files")
    if not isinstance(listed, dict):
        raise Unreadable("%s lists no files" % OUR_LIST)
    for name, facts in sorted(listed.items()):
        if not isinstance(facts, dict):
            raise Unreadable("%s describes %s by something that is no object" % (OUR_LIST, legible(name)))
        with open_shard(path, name if name == _LIST else plain_name(name)) as source:
            if hash_blocks(source.pieces(0, source.size), source.size) != (facts.get("bytes"), facts.get("sha256")):
                raise Unreadable("%s is damaged: it is not what %s says" % (legible(name), OUR_LIST))
    return "digest: every file is as leasehold.checkpoint wrote it"


def _shards(path: str) -> List[str]:
    return [name for name in os.listdir(path) if name.endswith(".distcp")]
