"""Open the files of a checkpoint folder by names that are plain and not links."""

from __future__ import annotations

import json
import os
from typing import Container, Dict, List

from leasehold.kit.files.paths import check_name
from leasehold.kit.readers.base.bounded_file import Source, open_source
from leasehold.kit.readers.base.result import Unreadable, legible

_MAX_INDEX_BYTES = 64 << 20
_BESIDE = "not looked at, beside the weights: "
_HOLD_NO_CODE = (".json", ".jsonl", ".txt", ".md", ".csv", ".safetensors", ".model")
_MOST_NAMED = 5


def open_shard(path: str, name: str) -> Source:
    """Open a file of the folder; every refusal contains its name."""
    place = os.path.join(path, name)
    if os.path.islink(place):
        raise Unreadable("%s is a link" % legible(name))
    try:
        return open_source(place)
    except Unreadable as problem:
        raise Unreadable("%s %s" % (legible(name), problem.reason)) from problem


def plain_name(name: str) -> str:
    """Return the name if it can only mean a file of this folder."""
    try:
        return check_name(name.lstrip("_"), "shard") and name
    except ValueError as problem:
        raise Unreadable("names a shard that is not a plain file name: %s" % legible(str(problem))) from problem


def shard_json(path: str, name: str) -> Dict[str, object]:
    """Read a file of the folder as a JSON object."""
    with open_shard(path, name) as source:
        if source.size > _MAX_INDEX_BYTES:
            raise Unreadable("%s has %d bytes; at most %d are read" % (name, source.size, _MAX_INDEX_BYTES))
        try:
            value = json.loads(source.read_at(0, source.size).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise Unreadable("%s is not JSON: %s" % (name, legible(str(error)))) from error
    if not isinstance(value, dict):
        raise Unreadable("%s is not a JSON object" % name)
    return value


def unread_beside(path: str, read: Container[str]) -> List[str]:
    """List the files beside the weights that may hold code: optimizer.pt, training_args.bin, a model's own modules."""
    others = sorted(name for name in os.listdir(path) if name not in read and not name.endswith(_HOLD_NO_CODE))
    if not others:
        return []
    more = " and %d more" % (len(others) - _MOST_NAMED) if len(others) > _MOST_NAMED else ""
    return [_BESIDE + ", ".join(map(legible, others[:_MOST_NAMED])) + more]
