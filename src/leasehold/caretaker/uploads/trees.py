"""Code trees on the box: lists of files by content, never changed. The files are blobs; runs get copies of them."""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from itertools import chain
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from leasehold.caretaker.process.locks import wait_lock
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.atomic import read_json, write_atomic, write_json
from leasehold.kit.files.canonical_json import sha256
from leasehold.kit.files.code_tree import check_link, name_of, read_tree_text
from leasehold.kit.files.paths import check_name, check_relative
from leasehold.kit.files.sha256 import LITTLE_BYTES

from .blobs import Arriving, BlobStore

if TYPE_CHECKING:  # a task lays trees out, and has no connection
    from leasehold.caretaker.wire.connection import Request
    from leasehold.kit.wire.frames import Frame

LIST, COMING, LACKING = ".list", ".coming", ".lacking"
_MOST_LISTING_BYTES = 256 << 20
_NAMES_A_FRAME = 10_000
_LOCK_S = 60.0
_SUM = re.compile(r"[0-9a-f]{64}\Z")

Entries = List[Dict[str, Any]]


def tree_path(root: str, name: str) -> str:
    """Return where the list of the tree with this hash lies, once all its files are here."""
    return os.path.join(root, "trees", check_name(name, "tree") + LIST)


def have_tree(request: Request) -> None:
    """Return whether a tree is here in full."""
    request.reply({"have": os.path.exists(tree_path(request.root, str(request.args["tree"])))})


def want_tree(request: Request) -> None:
    """Read a tree's list of files and reply which of them home must send; with none missing, the tree is here.

    Files that home takes for new may follow the list at once: then one round trip is enough.
    """
    from leasehold.kit.wire.frames import DATA

    name = str(request.args["tree"])
    target = tree_path(request.root, name)
    blobs = BlobStore(request.root)
    body = request.body()
    listed: List[bytes] = []
    for frame in body:
        if frame.type == DATA:
            listed.append(frame.payload)
        else:
            _receive(chain([frame], body), blobs)
    packed = b"".join(listed)
    with trees_locked(request.root):
        entries = _news(request.root, packed, name)
        here = _holds(target, packed)
        lacking = blobs.lacking({name_of(entry) for entry in entries if "link" not in entry})
        if not lacking and not here:
            _write_whole(target, packed)
        elif lacking:
            write_atomic(_beside(target, COMING), packed, durable=False)
            write_json(_beside(target, LACKING), {"blobs": lacking}, durable=False)
    named = lacking if len(lacking) != request.args.get("files") else []  # on a slow link, all the names take a while
    for start in range(0, len(named), _NAMES_A_FRAME):
        request.reply({"names": named[start : start + _NAMES_A_FRAME]})
    request.reply({"have": here and not lacking, "lack": len(lacking)})


def put_tree(request: Request) -> None:
    """Receive the files that were missing, many in one stream; the tree is here when all of them are."""
    name = str(request.args["tree"])
    target = tree_path(request.root, name)
    blobs = BlobStore(request.root)
    received = _receive(request.body(), blobs)
    with trees_locked(request.root):
        _settle(blobs, target, name)
    request.reply({"tree": name, "received": received})


def lay_out(root: str, name: str, target: str) -> None:
    """Make a copy of a tree that a run may write to, each file hashed on the way; target must not exist."""
    entries = read_tree(root, name)
    if sum(int(entry.get("bytes", 0)) for entry in entries) > LITTLE_BYTES:
        import hashlib  # noqa: F401 - for much code OpenSSL is worth its loading
    os.mkdir(target)
    with contextlib.closing(BlobStore(root)) as blobs:
        try:
            _copy_all(blobs, entries, target)
        except Refused:
            _mend(root, blobs, entries)
            raise


def read_tree(root: str, name: str) -> Entries:
    """Return the list of a tree that is here; refuse one that is not."""
    try:
        with open(tree_path(root, name), "rb") as file:
            return _read_listing(file.read(), name)
    except FileNotFoundError:
        raise Refused("code.tree_missing", "the code %s is not on this box" % name[:12]) from None


def _copy_all(blobs: BlobStore, entries: Entries, target: str) -> None:
    made = {""}
    for entry in entries:
        path = str(entry["path"])
        folder = path.rpartition("/")[0]
        if folder not in made:
            os.makedirs(os.path.join(target, folder), exist_ok=True)
            made.add(folder)
        if "link" in entry:
            os.symlink(str(entry["link"]), os.path.join(target, path))
        else:
            blobs.copy(name_of(entry), os.path.join(target, path))


def _mend(root: str, blobs: BlobStore, entries: Entries) -> None:
    """Make the next push send all that is missing: after a power cut many files may be empty, and other trees' too."""
    with trees_locked(root):
        blobs.drop_cut_short((name_of(entry), int(entry["bytes"])) for entry in entries if "link" not in entry)
        for name in os.listdir(os.path.join(root, "trees")):
            path = os.path.join(root, "trees", name)
            if name.endswith(LIST) and not _is_whole(blobs, path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def _is_whole(blobs: BlobStore, path: str) -> bool:
    try:
        return not blobs.lacking(blobs_named(path))
    except (OSError, Refused):
        return False


def blobs_named(path: str) -> Set[str]:
    """List the blobs of a list, complete or coming; refuse one that cannot be read."""
    with open(path, "rb") as file:
        entries = _read_listing(file.read(), os.path.basename(path).partition(".")[0])
    return {name_of(entry) for entry in entries if "link" not in entry}


@contextlib.contextmanager
def trees_locked(root: str) -> Iterator[None]:
    """Keep pruning and pushing apart: a file that a new tree needs must not be deleted meanwhile."""
    os.makedirs(os.path.join(root, "trees"), exist_ok=True)
    fd = wait_lock(os.path.join(root, "trees", "lock"), _LOCK_S)
    if fd is None:
        raise Refused("code.busy", "another connection holds the box's code for over %d s" % _LOCK_S)
    try:
        yield
    finally:
        os.close(fd)


def _settle(blobs: BlobStore, target: str, name: str) -> None:
    announced = read_json(_beside(target, LACKING))
    if announced is None:
        if os.path.exists(target):  # another home was quicker
            return
        raise Refused("code.no_listing", "the tree %s was not announced" % name[:12])
    missing = blobs.lacking(announced["blobs"])
    if missing:
        raise Refused("code.tree_differs", "%d files of %s did not arrive" % (len(missing), name[:12]))
    os.rename(_beside(target, COMING), target)  # not synced, as its files are not: what is lost is sent again
    os.unlink(_beside(target, LACKING))


def _holds(target: str, packed: bytes) -> bool:
    """Return whether a list lies there as it came: after a power cut it may not, and is written again."""
    try:
        with open(target, "rb") as file:
            return file.read() == packed
    except FileNotFoundError:
        return False


def _write_whole(target: str, packed: bytes) -> None:
    write_atomic(target, packed, durable=False)  # its name is its hash, as for its files: what is lost is sent again
    for name in (COMING, LACKING):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_beside(target, name))


def _beside(target: str, ending: str) -> str:
    return target[: -len(LIST)] + ending


def _news(root: str, packed: bytes, name: str) -> Entries:
    """Return the entries whose files may be missing here: those that the newest list lacks, or all of them."""
    from .tree_diff import news

    text = _unpack(packed)
    with contextlib.suppress(ValueError, RecursionError):
        found = news(os.path.join(root, "trees"), LIST, text) if sha256(text) == name else None
        if found is not None:
            return _checked(found)
    return _read_listing(packed, name)


def _read_listing(packed: bytes, name: str) -> Entries:
    """Decompress, check the whole against the hash in its name, and check every path."""
    return checked_entries(_unpack(packed), name)


def checked_entries(text: bytes, name: str) -> Entries:
    """Return the entries of a list that matches its hash, with every path checked."""
    try:
        entries = read_tree_text(text, name)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise Refused("code.tree_differs", str(error)) from None
    return _checked(entries)


def _unpack(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, _MOST_LISTING_BYTES)
    except zlib.error as error:
        raise Refused("wire.bad_request", "cannot be decompressed: %s" % error) from None


def _checked(entries: Entries) -> Entries:
    try:
        for entry in entries:
            check_relative(entry["path"])
            if "link" in entry:
                check_link(entry["path"], str(entry["link"]))
            elif not _SUM.match(entry["sha256"]) or int(entry["bytes"]) < 0:
                raise TypeError("%r has no sum or size" % entry["path"])
        _check_apart([str(entry["path"]) for entry in entries])
    except ValueError as error:  # an UnsafePath too
        raise Refused("code.unsafe_path", str(error)) from None
    except (KeyError, TypeError) as error:
        raise Refused("wire.bad_request", "not a list of files: %s" % error) from None
    return entries


def _check_apart(paths: List[str]) -> None:
    """Refuse two entries that need one path: equal paths, or a file where another needs a folder."""
    files = set(paths)
    folders = {path.rpartition("/")[0] for path in paths}
    for folder in list(folders):
        while folder:
            folder = folder.rpartition("/")[0]
            folders.add(folder)
    if len(files) != len(paths) or not files.isdisjoint(folders):
        raise ValueError("two files of the code share a name")


def _receive(body: "Iterable[Frame]", blobs: BlobStore) -> int:
    """Receive blobs from heads {blobs: [[name, bytes], …], packed} and the bytes of all of them, end to end."""
    from leasehold.kit.wire.frames import DATA

    received = 0
    partly: Optional[Arriving] = None  # one whose bytes come in several frames
    waiting: Iterator[Tuple[str, int]] = iter(())
    packed = False
    try:
        for frame in body:
            if frame.type != DATA:
                received += _keep_empty(blobs, waiting)
                said = frame.json()
                head = [(str(name), int(size)) for name, size in said["blobs"]]
                blobs.expect(size for _, size in head)
                waiting, packed = iter(head), bool(said.get("packed"))
                continue
            view = memoryview(_unpack(frame.payload) if packed else frame.payload)
            while len(view):
                if partly is None:
                    name, size = next(waiting, ("", -1))
                    if 0 <= size <= len(view):
                        blobs.keep(name, view[:size])
                        view, received = view[size:], received + 1
                        continue
                    if not name:
                        break
                    partly = blobs.arriving(name, size)
                part, view = view[: partly.missing], view[partly.missing :]
                partly.write(bytes(part))
                if partly.missing == 0:
                    partly.finish()
                    partly, received = None, received + 1
        return received + _keep_empty(blobs, waiting)
    finally:
        if partly is not None:
            partly.abandon()
        blobs.settle()


def _keep_empty(blobs: BlobStore, waiting: Iterator[Tuple[str, int]]) -> int:
    """Store the files without bytes that a head ends with; one whose bytes never came is found missing later."""
    kept = 0
    for name, size in waiting:
        if size:
            break
        blobs.keep(name, memoryview(b""))
        kept += 1
    return kept
