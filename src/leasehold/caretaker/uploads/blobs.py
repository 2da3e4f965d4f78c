"""Code files by content: each is stored once, however many trees have it; many small ones that came at once, in packs.

A blob gets its name when its bytes have the hash, and is hashed again whenever a run's copy is made of it. One that
was damaged in between is deleted then, and the next push sends it again.
"""

from __future__ import annotations

import contextlib
import os
from _thread import get_ident  # threading itself would cost every task of a sweep
from functools import partial
from typing import TYPE_CHECKING, Dict, Iterable, List, Optional, Set, Tuple

from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.atomic import replacing, write_all
from leasehold.kit.files.sha256 import blocks, hash_blocks

if TYPE_CHECKING:  # packs are loaded where there are any: most projects are small
    from .packs import Packing, Packs

_GONE = "a file of the code is gone from the box; the next push sends it again"
_SPOILED = "a file of the code was changed on the box; the next push sends it again"
_OTHER = "a file arrived different from its hash; did it change while it was sent?"
_SMALL_BYTES = 64 << 10
_MANY = 100  # fewer that come at once are files of their own
_HEX = frozenset("0123456789abcdef")


class BlobStore:
    """The folder root/blobs. Two connections may fill it at once: equal names are equal bytes."""

    def __init__(self, root: str) -> None:
        self._folder = os.path.join(root, "blobs")
        self._pack_folder = os.path.join(self._folder, "packs")
        self._made: Set[str] = set()  # folders that exist
        self._packing: Optional[Packing] = None
        self._packs: Optional[Packs] = None

    def path(self, name: str) -> str:
        """Return the path of the blob of this name."""
        return os.path.join(self._folder, name[:2], name)

    def lacking(self, names: Iterable[str]) -> List[str]:
        """Return which of these are not here; looks into each folder once, not at each file."""
        folders: Dict[str, Set[str]] = {}
        missing = []
        for name in names:
            here = folders.get(name[:2])
            if here is None:
                here = folders[name[:2]] = self._in_folder(name[:2])
            if name not in here:
                missing.append(name)
        packed = self._in_packs().names() if missing else ()
        return [name for name in missing if name not in packed]

    def _in_folder(self, start: str) -> Set[str]:
        try:
            return set(os.listdir(os.path.join(self._folder, start)))
        except OSError:
            return set()

    def arriving(self, name: str, size: int) -> "Arriving":
        """Open a blob that home is about to send."""
        _check(name, size)
        return Arriving(self._place_for(name), name, size)

    def expect(self, sizes: Iterable[int]) -> None:
        """Receive the sizes of the next ones: many small ones go into packs."""
        if self._packing is None and sum(map(_is_small, sizes)) >= _MANY:
            from .packs import MOST_PACKS, Packing, count_packs

            if count_packs(self._pack_folder) < MOST_PACKS:
                self._packing = Packing(self._pack_folder)

    def keep(self, name: str, whole: memoryview) -> None:
        """Store a blob that came in one piece, as most do."""
        import hashlib

        _check(name, len(whole))
        if hashlib.sha256(whole).hexdigest() != name[:64]:
            raise Refused("code.tree_differs", _OTHER)
        if self._packing is not None and _is_small(len(whole)):
            return self._packing.add(name, whole)
        path = self._place_for(name)
        with replacing(path, _beside(path), durable=False, mode=_mode(name)) as fd:
            write_all(fd, whole)
        return None

    def settle(self) -> None:
        """Complete what came so far, even if the rest will not come."""
        packing, self._packing = self._packing, None
        if packing is not None:
            packing.close()
            self.close()

    def close(self) -> None:
        """Close files, and look again at the next request."""
        if self._packs is not None:
            self._packs.close()

    def _in_packs(self) -> Packs:
        from .packs import Packs

        if self._packs is None:
            self._packs = Packs(self._pack_folder)
        return self._packs

    def _place_for(self, name: str) -> str:
        if name[:2] not in self._made:
            os.makedirs(os.path.join(self._folder, name[:2]), exist_ok=True)
            self._made.add(name[:2])
        return self.path(name)

    def copy(self, name: str, target: str) -> None:
        """Copy a blob to a file of its own, hashed on the way; refuse one whose bytes changed."""
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _mode(name))
        try:
            digest = self._pour(name, fd)
        except FileNotFoundError:
            raise Refused("code.tree_missing", _GONE) from None
        finally:
            os.close(fd)
        if digest != name[:64]:
            with contextlib.suppress(OSError):
                os.unlink(self.path(name))
            self._in_packs().drop_with(name)
            raise Refused("code.tree_differs", _SPOILED)

    def _pour(self, name: str, fd: int) -> str:
        """Write a blob's bytes to a file and return their hash; once one is not a file, packs are tried first."""
        write = partial(write_all, fd)
        if self._packs is not None or not os.path.exists(self.path(name)):
            packed = self._in_packs().fetch(name)
            if packed is not None:
                return hash_blocks([packed], len(packed), write)[1]
        with open(self.path(name), "rb", buffering=0) as blob:
            return hash_blocks(blocks(blob.read), os.fstat(blob.fileno()).st_size, write)[1]

    def drop_cut_short(self, sizes: Iterable[Tuple[str, int]]) -> None:
        """Remove blobs whose size differs from a list's."""
        for name, size in sizes:
            with contextlib.suppress(OSError):
                if os.stat(self.path(name)).st_size != size:
                    os.unlink(self.path(name))

    def drop_unused(self, used: Set[str], older_than_unix: float, dry_run: bool) -> Dict[str, int]:
        """Remove blobs that no tree has; return how many and their size."""
        count, size = self._in_packs().drop_unused(used, older_than_unix, dry_run)
        for folder, _, names in os.walk(self._folder):
            for name in names if folder != self._pack_folder else ():
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    info = os.lstat(path)
                    if name not in used and info.st_ctime < older_than_unix:
                        if not dry_run:
                            os.unlink(path)
                        count, size = count + 1, size + info.st_size
        return {"blobs": count, "bytes": size}


def _check(name: str, size: int) -> None:
    digits = name[:-1] if name.endswith("x") else name
    if len(digits) != 64 or not _HEX.issuperset(digits) or size < 0:
        raise Refused("wire.bad_request", "a blob is a sha256 and a size")


def _is_small(size: int) -> bool:
    return size <= _SMALL_BYTES


def _beside(path: str) -> str:
    return "%s.%d-%x.tmp" % (path, os.getpid(), get_ident())


def _mode(name: str) -> int:
    return 0o755 if name.endswith("x") else 0o644


class Arriving:
    """One blob on its way in; it gets its name when its bytes have the hash."""

    def __init__(self, path: str, name: str, size: int) -> None:
        import hashlib

        self.missing = size
        self._path = path
        self._name = name
        self._temp = _beside(path)
        self._sha = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        self._fd: Optional[int] = os.open(self._temp, flags, _mode(name))

    def write(self, chunk: bytes) -> None:
        """Append bytes."""
        assert self._fd is not None
        self._sha.update(chunk)
        self.missing -= len(chunk)
        write_all(self._fd, chunk)

    def finish(self) -> None:
        """Check the hash and give the blob its name; refuse a file that changed at home meanwhile."""
        self._close()
        if self._sha.hexdigest() != self._name[:64]:
            self.abandon()
            raise Refused("code.tree_differs", _OTHER)
        os.rename(self._temp, self._path)

    def abandon(self) -> None:
        """Discard what came."""
        self._close()
        with contextlib.suppress(OSError):
            os.unlink(self._temp)

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None
