"""A folder as a place: a durable tier, a shared disk, a folder at home. Follows no symlink below its root."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from typing import BinaryIO, Callable, Iterator, Optional, Tuple

from leasehold.kit.files.atomic import fsync_folder, write_all
from leasehold.kit.files.paths import UnsafePath, check_relative, open_below
from leasehold.kit.files.sha256 import blocks, hash_blocks, new_sha256
from leasehold.kit.refuge.read_back import forget_cached, size_of, wait_for
from leasehold.kit.refuge.read_back import sha256_of as hash_on_disk
from leasehold.kit.testing.kill_points import pause_at

from .folder_errors import placed
from .place import LYING, UNREACHABLE, Absent, PlaceError, SourceChanged, Stored

PARTS = ".leasehold-parts"  # unfinished objects, apart from every key
_BLOCK_BYTES = 1 << 20
_SYNC_EVERY_BYTES = 32 << 20
_STALE_S = 6 * 3600.0
_TRIES = 8  # another process may remove an empty folder just before we use it
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES, errno.EXDEV)

Tick = Callable[[int], None]


class FolderPlace:
    """Keeps objects as files below a folder, which must exist.

    `writer` names the one process that writes under this name at a time: what it left unfinished is removed.
    `lag_s` is how late a shared mount may show what was written. `tick` is called with the bytes as they move.
    """

    def __init__(self, root: str, writer: str = "", lag_s: float = 0.0, tick: Tick = lambda _: None) -> None:
        self.where = root
        self._writer = writer or "%d-%s" % (os.getpid(), os.urandom(6).hex())
        self._lag_s = lag_s
        self._tick = tick
        self._swept = False
        with placed(root):
            self._disk = os.stat(root).st_dev

    def put(self, key: str, source: BinaryIO, size: int, sha256: str) -> None:
        """Keep a whole object, synced and then renamed to its name."""
        with placed(self.where, key), self._part(key) as (temp, fd):
            found = hash_blocks(_blocks_of(source), each=self._pour(fd))
            if found != (size, sha256):
                raise SourceChanged("%s: read were %d bytes, announced were %d others" % (key, found[0], size))
            os.fsync(fd)
            forget_cached(fd)
            pause_at("refuge_file_written", "after")
            self._into_place(key, lambda path: os.replace(temp, path))

    def put_new(self, key: str, data: bytes) -> bool:
        """Create an object by a hard link, which fails if the name is taken; without links, by O_EXCL."""
        with placed(self.where, key), self._part(key) as (temp, fd):
            write_all(fd, data)
            os.fsync(fd)
            try:
                return self._into_place(key, lambda path: _link(temp, path, fd))
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return self._into_place(key, lambda path: _create(path, data))

    def get(self, key: str, start: int = 0, length: Optional[int] = None) -> Iterator[bytes]:
        """Open now, read as it is consumed."""
        with placed(self.where, key):
            fd = _open(self.where, key)
        return self._read(key, fd, start, length)

    def list(self, prefix: str) -> Iterator[Stored]:
        """List the files whose key begins so; a folder that vanishes meanwhile has nothing."""
        with placed(self.where, prefix):
            if not os.path.isdir(self.where):
                raise PlaceError(UNREACHABLE, "%s is not there" % self.where)
            folder = prefix.rpartition("/")[0]
            if folder:
                _no_links(self.where, folder)
            found = [one for one in _walk(self.where, folder) if one.key.startswith(prefix)]
        return iter(found)

    def delete(self, key: str) -> None:
        """Delete a file, and the folders that it leaves empty."""
        with placed(self.where, key):
            path = os.path.join(self.where, *check_relative(key).split("/"))
            self._same_disk()
            _no_links(self.where, key)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)
            with contextlib.suppress(OSError):  # not empty, or somebody else was faster
                folder = os.path.dirname(path)
                while len(folder) > len(self.where):
                    os.rmdir(folder)
                    folder = os.path.dirname(folder)

    def read_back(self, key: str) -> str:
        """Hash what the disk holds, past the page cache where the system allows it."""
        with placed(self.where, key):
            path = os.path.join(self.where, *check_relative(key).split("/"))
            _no_links(self.where, key)
            if not wait_for(lambda: size_of(path) >= 0, self._lag_s):
                raise Absent("%s is not in %s" % (key, self.where))
            found = hash_on_disk(path, self._tick)
            if len(found) != 64:
                raise PlaceError(LYING, "%s in %s is %s" % (key, self.where, found))
            return found

    @contextlib.contextmanager
    def _part(self, key: str) -> Iterator[Tuple[str, int]]:
        """Yield a temporary file of ours on the same disk; it is gone afterwards unless it was renamed."""
        check_relative(key)
        if key.partition("/")[0] == PARTS:
            raise UnsafePath("key %r: the name is taken" % key)
        self._same_disk()
        parts = os.path.join(self.where, PARTS)
        with contextlib.suppress(FileExistsError):
            os.mkdir(parts, 0o700)
        self._sweep(parts)
        name = new_sha256(0)
        name.update(key.encode("utf-8"))
        temp = os.path.join(parts, "%s-%s" % (self._writer, name.hexdigest()[:24]))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp)  # never truncated: it may be a second name of an object
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
        try:
            yield temp, fd
        finally:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(temp)

    def _sweep(self, parts: str) -> None:
        """Remove once what a killed process of ours left unfinished, and what anybody left long ago."""
        if self._swept:
            return
        self._swept = True
        for name in os.listdir(parts):
            path = os.path.join(parts, name)
            with contextlib.suppress(OSError):
                if name.startswith(self._writer + "-") or time.time() - os.lstat(path).st_mtime > _STALE_S:
                    os.unlink(path)

    def _pour(self, fd: int) -> Callable[[bytes], None]:
        unsynced = [0]

        def write(block: bytes) -> None:
            write_all(fd, block)
            unsynced[0] += len(block)
            if unsynced[0] >= _SYNC_EVERY_BYTES:  # no long stall at the end, for us and for other writers of the disk
                os.fsync(fd)
                forget_cached(fd)
                unsynced[0] = 0
            self._tick(len(block))

        return write

    def _into_place(self, key: str, act: "Callable[[str], object]") -> bool:
        """Rename or link into the key's folder; the folder is made again if another process removed it, being empty."""
        path = os.path.join(self.where, *key.split("/"))
        for left in reversed(range(_TRIES)):
            try:
                _no_links(self.where, key)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._same_disk()
                done = act(path)
                break
            except FileNotFoundError:
                if not left:
                    raise
        fsync_folder(os.path.dirname(path))
        return done is not False

    def _same_disk(self) -> None:
        """Detect a tier that was detached meanwhile: its empty mount point takes files, on the box's own disk."""
        if os.stat(self.where).st_dev != self._disk:
            raise PlaceError(UNREACHABLE, "%s is another disk now than before; was it detached?" % self.where)

    def _read(self, key: str, fd: int, start: int, length: Optional[int]) -> Iterator[bytes]:
        left = length
        try:
            with placed(self.where, key):
                os.lseek(fd, start, os.SEEK_SET)
                while left is None or left > 0:
                    part = os.read(fd, _BLOCK_BYTES if left is None else min(left, _BLOCK_BYTES))
                    if not part:
                        return
                    left = None if left is None else left - len(part)
                    yield part
        finally:
            os.close(fd)


def _blocks_of(source: BinaryIO) -> Iterator[bytes]:
    """Read the source; its own errors are not the place's."""
    parts = blocks(source.read)
    while True:
        try:
            part = next(parts, b"")
        except OSError as error:
            raise SourceChanged("the source cannot be read: %s" % error) from error
        if not part:
            return
        yield part


def _open(root: str, key: str) -> int:
    if os.open in os.supports_dir_fd:
        return open_below(root, key)
    _no_links(root, key)  # Windows has no descriptors of folders
    return os.open(os.path.join(root, *check_relative(key).split("/")), os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _no_links(root: str, key: str) -> None:
    """Refuse a symlink anywhere on the way to a key."""
    path = root
    for segment in check_relative(key).split("/"):
        path = os.path.join(path, segment)
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISLNK(mode):
            raise UnsafePath("%s is a symlink" % path)


def _link(temp: str, path: str, fd: int) -> bool:
    try:
        os.link(temp, path)
    except FileExistsError:
        return os.fstat(fd).st_nlink > 1  # NFS may repeat a request whose answer was lost
    return True


def _create(path: str, data: bytes) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except FileExistsError:
        return False
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    return True


def _walk(root: str, folder: str) -> Iterator[Stored]:
    stack = [folder]
    while stack:
        inner = stack.pop()
        if inner == PARTS:
            continue
        try:
            with os.scandir(os.path.join(root, inner) if inner else root) as opened:
                entries = list(opened)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            key = inner + "/" + entry.name if inner else entry.name
            if entry.is_dir(follow_symlinks=False):
                stack.append(key)
                continue
            with contextlib.suppress(FileNotFoundError):
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode):
                    yield Stored(key, info.st_size, info.st_mtime)
