"""Torch checkpoints (the zip format of torch.save since 1.6), read without torch."""

from __future__ import annotations

import re
from typing import Dict, List, Tuple, Union

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.count_nonfinite import Counter, Finding
from leasehold.kit.readers.base.result import KeyList, Limits, NumberTally, Reading, Unreadable
from leasehold.kit.readers.pickles.pickle_machine import run_pickle
from leasehold.kit.readers.pickles.stand_ins import Inert
from leasehold.kit.readers.zips.zip_directory import STORED
from leasehold.kit.readers.zips.zip_records import Record, check_record, open_archive

from .torch_legacy import HEAD_BYTES, magic_bytes, read_torch_legacy
from .torch_world import TorchWorld

_SMALL_BYTES = 64 * 1024
# Records beside the pickle and the storages; their contents do not affect the tensors.
_KNOWN = (
    "version",
    "byteorder",
    ".format_version",
    ".storage_alignment",
    ".data/serialization_id",
    ".data/version",
)


def read_torch(source: Source, limits: Limits) -> Reading:
    """Read the archive, the pickle in it, then every record against its CRC; or the legacy format."""
    return read_torch_numbers(source, limits)[0]


def read_torch_numbers(source: Source, limits: Limits) -> Tuple[Reading, Finding]:
    """Read the file as read_torch does; return the findings of its numbers, too."""
    if magic_bytes(source.read_at(0, min(source.size, HEAD_BYTES))):
        return read_torch_legacy(source, limits)
    _check_is_zip(source)
    records = _by_name(open_archive(source, limits, any_names=True))
    has_crc = any(record.entry.crc for record in records.values())
    world = TorchWorld(_storage_bytes(records), limits)
    root = run_pickle(_pickle(source, records, has_crc, limits), world, limits)
    notes = _check_small_records(source, records, has_crc)
    found = _check_storages(source, records, has_crc, world)
    keys = KeyList(limits)
    if isinstance(root, Inert):
        keys.extend(_key_text(key) for key in root.keys or () if isinstance(key, (str, int)))
    if not has_crc:
        notes.append("holds no CRCs (torch.serialization.set_crc32_options(False)): damage before hashing is unseen")
    notes += _world_notes(world, records) + keys.notes()
    opaque = tuple(sorted(world.opaque))
    shown = keys.names()
    said = Reading("torch", source.size, world.tensors, world.numel, shown, opaque, tuple(notes), found.numbers)
    return said, found


def _check_storages(source: Source, records: Dict[str, Record], has_crc: bool, world: TorchWorld) -> Finding:
    """Read every record but the pickle against its CRC, and count what is not finite on the way."""
    checked, tally = 0, NumberTally()
    big = "byteorder" in records and source.read_at(records["byteorder"].data_at, 3) == b"big"
    for name, record in records.items():
        if name == "data.pkl":
            continue
        key = name[len("data/") :] if name.startswith("data/") else ""
        dtype = world.float_dtype(key)
        counter = Counter(dtype, big_endian=big) if dtype else None
        check_record(source, record, has_crc=has_crc, look=counter.take if counter else None)
        if counter is not None:
            checked += record.bytes
            tally.add(world.label(key), counter.nan, counter.inf)
    return Finding(checked, world.numbers(tally.numbers()), world.plain)


def _key_text(key: Union[str, int]) -> str:
    # Python refuses to print a number of thousands of digits.
    return key if isinstance(key, str) else str(key) if abs(key) < 2**64 else "a huge number"


def _check_is_zip(source: Source) -> None:
    head = source.read_at(0, min(source.size, 8))
    if head.startswith(b"PK\x03\x04"):
        return
    raise Unreadable(f"is not a torch checkpoint: it begins with {head[:8]!r}, a zip begins with b'PK\\x03\\x04'")


def _by_name(records: List[Record]) -> Dict[str, Record]:
    """Return the records by their name inside the archive's one folder, all stored uncompressed."""
    folder = records[0].name.partition("/")[0] + "/" if records else ""
    if any(record.name == folder + "constants.pkl" for record in records):
        raise Unreadable("is a TorchScript archive, which holds code; save a state_dict instead")
    named: Dict[str, Record] = {}
    folded = set()
    for record in records:
        if record.entry.method != STORED:
            raise Unreadable(f"record {record.name!r} is compressed; torch.save stores records plainly")
        if not record.name.startswith(folder):
            raise Unreadable(f"record {record.name!r} lies outside the archive's folder {folder!r}")
        # torch ignores case in record names, so two such names would be one to it.
        if record.name.casefold() in folded:
            raise Unreadable(f"record {record.name!r} differs from another only in case")
        folded.add(record.name.casefold())
        named[record.name[len(folder) :]] = record
    if "data.pkl" not in named:
        raise Unreadable("is a zip without data.pkl, so torch.save did not write it")
    return named


def _storage_bytes(records: Dict[str, Record]) -> Dict[str, int]:
    return {name[len("data/") :]: record.bytes for name, record in records.items() if name.startswith("data/")}


def _pickle(source: Source, records: Dict[str, Record], has_crc: bool, limits: Limits) -> bytes:
    record = records["data.pkl"]
    if record.bytes > limits.max_pickle_bytes:
        raise Unreadable(f"data.pkl has {record.bytes} bytes; at most {limits.max_pickle_bytes} are read")
    return check_record(source, record, keep_bytes=record.bytes, has_crc=has_crc)


def _check_small_records(source: Source, records: Dict[str, Record], has_crc: bool) -> List[str]:
    """Check what torch reads first: the format version, and the byte order if it is given."""
    version = records.get(".data/version") or records.get("version")
    if version is None:
        raise Unreadable("has no version record, so torch refuses it")
    text = check_record(source, version, _SMALL_BYTES, has_crc)
    if not re.fullmatch(rb"[0-9]{1,4}\n?", text):
        raise Unreadable(f"its version record holds {text[:20]!r}, not a number")
    if "byteorder" not in records:
        return []
    order = check_record(source, records["byteorder"], _SMALL_BYTES, has_crc)
    if order not in (b"little", b"big"):
        raise Unreadable(f"its byteorder record holds {order[:20]!r}, neither little nor big")
    return ["was written on a big-endian machine"] if order == b"big" else []


def _world_notes(world: TorchWorld, records: Dict[str, Record]) -> List[str]:
    notes = []
    unused = len(_storage_bytes(records).keys() - world.used_keys)
    other = sorted(n for n in records if n not in _KNOWN and n != "data.pkl" and not n.startswith("data/"))
    if unused:
        notes.append(f"{unused} records under data/ are used by no storage of the pickle")
    if other:
        notes.append(f"{len(other)} records are not read, such as {other[0]!r}")
    if world.without_data:
        notes.append(f"{world.without_data} tensors are on the meta device: they have a shape and no data")
    if not world.tensors:
        notes.append("holds no tensors")
    if world.more_opaque:
        notes.append(f"only {len(world.opaque)} of the opaque classes are listed")
    return notes
