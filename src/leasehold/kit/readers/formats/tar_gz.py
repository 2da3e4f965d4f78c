"""Compressed tars (.tar.gz, .tgz, .tar.bz2, .tar.xz): the stream's checksums, then the tar in it."""

from __future__ import annotations

from dataclasses import replace

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import Limits, Reading, Unreadable
from leasehold.kit.readers.plain.tar import read_tar

from .inflated import BZIP2, GZIP, XZ, Inflated

_PACKINGS = ((b"\x1f\x8b", GZIP), (b"BZh", BZIP2), (b"\xfd7zXZ", XZ))


def read_tar_gz(source: Source, limits: Limits) -> Reading:
    """Decompress the stream to its end, and walk its tar; the members' contents are not examined."""
    head = source.read_at(0, min(source.size, 6))
    packing = next((packing for magic, packing in _PACKINGS if head.startswith(magic)), None)
    if packing is None:
        raise Unreadable("is not a tar compressed by gzip, bzip2 or xz: it begins with %r" % head)
    inflated = Inflated(source, packing, limits)
    found = read_tar(inflated, limits)
    notes = ["%s: inflates to %d bytes" % (packing.name, inflated.size), *found.notes]
    notes.append("members' contents are not looked at")
    return replace(found, kind="tar.gz", bytes=source.size, notes=tuple(notes))
