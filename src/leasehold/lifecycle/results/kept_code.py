"""A run's original code, kept at home: its file list, and the files themselves unless they are too large.

`lease resume` continues with it and `lease run` reports what has changed since, whatever the folder contains now.
"""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.files.code_tree import read_tree_text
from leasehold.lifecycle.project.code_tree import CodeTree

if TYPE_CHECKING:
    from leasehold.ledger.store import Ledger

MOST_BYTES = 64 << 20  # of one project's files; of a larger one only the list is kept
_MOST_ALL_BYTES = 1 << 30
_MOST_LIST_BYTES = 256 << 20
_LIST, _FILES = ".list", ".tar.gz"


def keep(ledger: Ledger, tree: CodeTree) -> None:
    """Keep the list and the files of a project's code; a full or read-only home keeps none."""
    folder = _folder(ledger)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / (tree.sha256 + _LIST)).exists():
            write_atomic(str(folder / (tree.sha256 + _LIST)), zlib.compress(tree.text, 1), durable=False)
        files = folder / (tree.sha256 + _FILES)
        if tree.total_bytes <= MOST_BYTES and not files.exists():
            _pack(tree, files)
            _make_room(folder, files)


def entries_of(ledger: Ledger, tree: str) -> tuple[dict[str, Any], ...] | None:
    """Return the list of files with this hash, or None if it is not known here."""
    try:
        packed = (_folder(ledger) / (tree + _LIST)).read_bytes()
        return tuple(read_tree_text(zlib.decompressobj().decompress(packed, _MOST_LIST_BYTES), tree))
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        return None


def archive_of(ledger: Ledger, tree: str) -> Path | None:
    """Return the archive of a tree's files, if they were kept."""
    path = _folder(ledger) / (tree + _FILES)
    return path if path.is_file() else None


@contextlib.contextmanager
def unpacked(ledger: Ledger, tree: str, project: Path) -> Iterator[CodeTree]:
    """Unpack a kept tree; if its files are not known here, yield an empty one that stands for the project."""
    entries, archive = entries_of(ledger, tree), archive_of(ledger, tree)
    if entries is None or archive is None:
        yield CodeTree(project, ())
        return
    with TemporaryDirectory(prefix="lease-code-") as place:
        try:
            with tarfile.open(archive, "r:gz") as packed:
                # Debian's 3.11.2 knows no filter; this home wrote the archive itself, into a folder of its own.
                options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                packed.extractall(place, **options)
        except (OSError, tarfile.TarError, zlib.error, EOFError):
            yield CodeTree(project, ())
            return
        yield CodeTree(Path(place), entries, laid_out_for=project)


def _folder(ledger: Ledger) -> Path:
    return ledger.path.parent / "code"


def _pack(tree: CodeTree, target: Path) -> None:
    """Write the files into an archive, unless one of them no longer has its hash."""
    staging = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        with tarfile.open(staging, "w:gz", compresslevel=1) as packed:
            for entry in tree.entries:
                info = tarfile.TarInfo(str(entry["path"]))
                if "link" in entry:
                    info.type, info.linkname = tarfile.SYMTYPE, str(entry["link"])
                    packed.addfile(info)
                    continue
                data = b"".join(tree.read(entry))
                if sha256(data).hexdigest() != entry["sha256"]:
                    return  # edited meanwhile: the box has the right ones
                info.size, info.mode = len(data), 0o755 if entry.get("exec") else 0o644
                packed.addfile(info, io.BytesIO(data))
        os.replace(staging, target)
    finally:
        staging.unlink(missing_ok=True)


def _make_room(folder: Path, newest: Path) -> None:
    """Delete the oldest archives while the total is too large; their lists stay."""
    found = sorted(((path.stat().st_mtime_ns, path) for path in folder.glob("*" + _FILES)), reverse=True)
    total = 0
    for _, path in found:
        total += path.stat().st_size
        if total > _MOST_ALL_BYTES and path != newest:
            path.unlink(missing_ok=True)
