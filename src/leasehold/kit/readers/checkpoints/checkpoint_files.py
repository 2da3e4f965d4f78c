"""Inspect a checkpoint of any kind: its contents, whether its numbers are finite, its digest if it has one."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Dict, List, Tuple

from leasehold.kit.files.checkpoint_file import CHUNK_BYTES, PICKLED, SCHEMA, root_digest
from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Finding, Span
from leasehold.kit.readers.base.result import Limits, Reading, Unreadable, legible
from leasehold.kit.readers.plain.npy import NPY_MAGIC, read_npy, read_npz
from leasehold.kit.readers.plain.safetensors import read_safetensors_numbers, spans_and_metadata
from leasehold.kit.readers.torch.torch_legacy import HEAD_BYTES, magic_bytes
from leasehold.kit.readers.torch.torch_zip import read_torch_numbers
from leasehold.kit.readers.zips.zip_records import open_archive

_MOST_NAMED = 5
_OURS = {"digest", "schema", "parts", "rng", "step", "run", "metrics"}  # what Checkpointer writes
_MANY = 4


def read_checkpoint(source: Source, limits: Limits) -> Reading:
    """Detect the kind by the first bytes, read the file as that, then scan its numbers."""
    head = source.read_at(0, min(source.size, HEAD_BYTES))
    if head.startswith(NPY_MAGIC) or (head.startswith(b"PK") and _is_npz(source, limits)):
        arrays = (read_npy if head.startswith(NPY_MAGIC) else read_npz)(source, limits)
        return _with_notes(arrays, _array_notes(arrays))
    if is_torch(head):
        reading, found = read_torch_numbers(source, limits)
        return _with_notes(reading, [finite_note(found)])
    if head[8:9] != b"{":
        raise Unreadable("is not a known checkpoint format: it begins with %r" % head[:8])
    reading, found = read_safetensors_numbers(source, limits)
    spans, metadata = spans_and_metadata(source, limits)
    finite = finite_note(found)
    if metadata.get("schema") != SCHEMA:
        _refuse_almost_ours(metadata)
        return _with_notes(reading, [finite])
    _check_digest(source, metadata.get("digest", ""))
    return _ours(reading, metadata, spans, finite)


def is_torch(head: bytes) -> bool:
    """Return whether a file begins as torch.save writes it, now or before 1.6."""
    return head.startswith(b"PK\x03\x04") or magic_bytes(head) > 0


def _is_npz(source: Source, limits: Limits) -> bool:
    return all(record.name.endswith(".npy") for record in open_archive(source, limits, any_names=True))


def _array_notes(reading: Reading) -> List[str]:
    """Describe the known facts about the numbers in NumPy arrays."""
    if reading.numbers is None:
        return ["its numbers were not looked at: a type that is not known here"]
    if reading.numbers.bad:
        return [finite_note(Finding(0, reading.numbers))]
    unread = "; not looked at: %s" % reading.numbers.unread if reading.numbers.unread else ""
    return ["finite: all arrays of floating-point numbers%s" % unread]


def _refuse_almost_ours(metadata: Dict[str, str]) -> None:
    """Refuse a file of ours whose schema is unknown: a bit of it has flipped, or a later version wrote it."""
    if len(_OURS & metadata.keys()) >= _MANY or re.fullmatch("[0-9a-f]{64}", metadata.get("digest", "")):
        seen = legible(metadata.get("schema", "none"), 40)
        raise Unreadable("is a checkpoint of ours by its facts and not by its schema (%s): damaged, or newer" % seen)


def _ours(reading: Reading, facts: Dict[str, str], spans: List[Span], finite: str) -> Reading:
    parts, rng = _names(facts, "parts"), _names(facts, "rng")
    place = [name for name in ("step", "epoch", "best") if name == "step" or facts.get(name)]
    keys = (*parts, *place, *("rng." + name for name in rng))
    pickled = [span.name[len(PICKLED) :] for span in spans if span.name.startswith(PICKLED)]
    notes = [
        "step %s, written by leasehold.checkpoint for %s"
        % (_fact(facts, "step"), _fact(facts, "run") or "no run of ours"),
        "digest: every byte is as it was written",
        finite,
        "metrics: %s" % _fact(facts, "metrics"),
    ]
    opaque = tuple("a pickle in %s" % legible(name) for name in pickled[:100])
    said = (*notes, *reading.notes)
    return replace(reading, kind="checkpoint", keys=keys, opaque=opaque, notes=said)


def _check_digest(source: Source, digest: str) -> None:
    data_at = 8 + int.from_bytes(source.read_at(0, 8), "little")
    raw = source.read_at(0, data_at).replace(digest.encode("utf-8"), b"0" * 64, 1)
    chunks = []
    for begin in range(data_at, source.size, CHUNK_BYTES):
        hashed = hashlib.sha256()
        for piece in source.pieces(begin, min(CHUNK_BYTES, source.size - begin)):
            hashed.update(piece)
        chunks.append(hashed.digest())
    if len(digest) != 64 or root_digest(raw, chunks) != digest:
        raise Unreadable("is damaged: its bytes do not have the digest it was written with")


def _names(facts: Dict[str, str], key: str) -> Tuple[str, ...]:
    try:
        found = json.loads(facts.get(key, "[]"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) > 1000:
        raise Unreadable("its metadata's %s is no list of names" % key)
    return tuple(legible(str(name), 100) for name in found)


def _fact(facts: Dict[str, str], key: str) -> str:
    return legible(facts.get(key, ""), 200)


def finite_note(found: Finding) -> str:
    """Describe the result of a scan."""
    unread = "; not looked at: %s" % found.numbers.unread if found.numbers.unread else ""
    if found.numbers.bad:
        named = ", ".join(name for name, _ in found.numbers.where[:_MOST_NAMED])
        return "NOT FINITE: %d NaN or infinite, in %s%s" % (found.numbers.bad, named, unread)
    read = ["all of %d bytes of floating-point numbers" % found.checked_bytes] if found.checked_bytes else []
    plain, infinite = found.plain
    if plain:
        read.append(
            "%d plain numbers%s" % (plain, " (%d of them infinite, as bounds are)" % infinite if infinite else "")
        )
    return "finite: %s%s" % (" and ".join(read) or "nothing to check", unread)


def _with_notes(reading: Reading, notes: List[str]) -> Reading:
    return replace(reading, notes=(*notes, *reading.notes))
