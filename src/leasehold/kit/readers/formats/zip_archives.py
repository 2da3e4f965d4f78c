"""Zip archives: every name safe, every member's size and CRC right."""

from __future__ import annotations

from typing import Dict, List

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import KeyList, Limits, Reading
from leasehold.kit.readers.zips.zip_records import Record, check_record, open_archive


def read_zip(source: Source, limits: Limits) -> Reading:
    """Decompress every member against its CRC; the members' contents are not examined."""
    records = open_archive(source, limits, folders=True)
    files, keys = checked(source, records), KeyList(limits)
    keys.extend(files)
    notes = ["%d files, every CRC right; what is in them is not looked at" % len(files), *keys.notes()]
    return Reading("zip", source.size, 0, len(files), keys.names(), (), tuple(notes))


def checked(source: Source, records: List[Record]) -> Dict[str, Record]:
    """Read every member against its CRC; return those that are files."""
    for record in records:
        check_record(source, record)
    return {record.name: record for record in records if not record.name.endswith("/")}
