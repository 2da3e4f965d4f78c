"""Read logs for the matcher: from a file, a compressed file or a stream, a piece at a time."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from leasehold.errors import UserError
from leasehold.kit.failure.catalogue import Book
from leasehold.kit.failure.log_scan import scan
from leasehold.kit.failure.suspects import ReadLog

_CHUNK_BYTES = 1 << 20
_RANK_IN_NAME = re.compile(
    r"rank[._-]?(\d{1,5})|(?:^|[._-])(?:r|node|worker)[._-]?(\d{1,5})\b|^(\d{1,5})[._-](?:stderr|stdout|log)"
)
_RANK_FOLDER = re.compile(r"\d{1,5}\Z")


def read_log(book: Book, path: Path) -> ReadLog:
    """Read one log file."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as packed:
                found = scan(book, _chunks(packed))
        else:
            with path.open("rb") as file:
                found = scan(book, _chunks(file))
    except (OSError, EOFError) as error:
        raise UserError("doctor.unreadable", f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return ReadLog(str(path), rank_of(path), found)


def read_stream(book: Book, name: str, chunks: Iterator[bytes], rank: int | None = None) -> ReadLog:
    """Read a log that arrives in pieces."""
    return ReadLog(name, rank, scan(book, chunks))


def standard_input() -> Iterator[bytes]:
    """Yield the bytes of standard input."""
    return _chunks(sys.stdin.buffer)


def rank_of(path: Path) -> int | None:
    """Return the rank from a log's name: rank_3.log, 3/stderr.log, node-2.out."""
    found = _RANK_IN_NAME.search(path.name)
    if found:
        return int(next(group for group in found.groups() if group is not None))
    folder = path.parent.name
    return int(folder) if _RANK_FOLDER.match(folder) and path.stem in ("stdout", "stderr", "log") else None


def _chunks(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    while True:
        chunk = file.read(_CHUNK_BYTES)
        if not chunk:
            return
        yield chunk
