"""Code trees on the box, one folder a content hash, never changed once whole; files are links to blobs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import zlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

from leasehold.kit import frames
from leasehold.kit.atomic import fsync_folder, write_atomic
from leasehold.kit.paths import UnsafePath, check_name, check_relative
from leasehold.kit.tree import check_link, name_of, tree_hash

from .blobs import Arriving, BlobStore
from .serve import Refused, Request

_MOST_LISTING_BYTES = 256 << 20
_NAMES_A_FRAME = 10_000
_SUM = re.compile(r"[0-9a-f]{64}\Z")

Entries = List[Dict[str, Any]]


def tree_path(root: str, name: str) -> str:
    """Where the tree with this hash lies."""
    return os.path.join(root, "trees", check_name(name, "tree"))


def have_tree(request: Request) -> None:
    """Tell whether a tree is here whole."""
    request.reply({"have": os.path.isdir(tree_path(request.root, str(request.args["tree"])))})


def want_tree(request: Request) -> None:
    """Take a tree's list of files and say which of them home must send; with none missing, the tree is made."""
    name = str(request.args["tree"])
    target = tree_path(request.root, name)
    packed = b"".join(frame.payload for frame in request.body() if frame.type == frames.DATA)
    if os.path.isdir(target):
        request.reply({"have": True})
        return
    entries = _read_listing(packed, name)
    lacking = _lacking(BlobStore(request.root), entries)
    if not lacking:
        _grow(request.root, target, entries)
        request.reply({"have": False, "lack": 0})
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    write_atomic(target + ".list", packed, durable=False)
    for start in range(0, len(lacking), _NAMES_A_FRAME):
        request.reply({"names": lacking[start : start + _NAMES_A_FRAME]})
    request.reply({"have": False, "lack": len(lacking)})


def put_tree(request: Request) -> None:
    """Receive the files that were missing, many in one stream; then make the tree and check that it is whole."""
    name = str(request.args["tree"])
    target = tree_path(request.root, name)
    received = _receive(request, BlobStore(request.root))
    if not os.path.isdir(target):
        _grow_announced(request.root, target, name)
    request.reply({"tree": name, "received": received})


def _grow_announced(root: str, target: str, name: str) -> None:
    try:
        with open(target + ".list", "rb") as file:
            entries = _read_listing(file.read(), name)
    except FileNotFoundError:
        if os.path.isdir(target):  # another home was quicker
            return
        raise Refused("code.no_listing", "the tree %s was not announced" % name[:12]) from None
    lacking = _lacking(BlobStore(root), entries)
    if lacking:
        raise Refused("code.tree_differs", "%d files of %s did not arrive" % (len(lacking), name[:12]))
    _grow(root, target, entries)


def _read_listing(packed: bytes, name: str) -> Entries:
    """Unpack, check every path, and check that the whole has the hash it goes by."""
    try:
        opener = zlib.decompressobj()
        text = opener.decompress(packed, _MOST_LISTING_BYTES)
        entries = json.loads(text.decode("utf-8"))
        for entry in entries:
            check_relative(entry["path"])
            if "link" in entry:
                check_link(entry["path"], str(entry["link"]))
            elif not _SUM.match(entry["sha256"]) or int(entry["bytes"]) < 0:
                raise TypeError("%r has no sum or size" % entry["path"])
        got = tree_hash(entries)
    except UnsafePath as error:
        raise Refused("code.unsafe_path", str(error)) from None
    except (zlib.error, KeyError, TypeError, UnicodeError) as error:
        raise Refused("wire.bad_request", "not a list of files: %s" % error) from None
    except ValueError as error:
        raise Refused("code.unsafe_path", str(error)) from None
    if got != name:
        raise Refused("code.tree_differs", "the code's list arrived as %s, not as %s" % (got[:12], name[:12]))
    return list(entries)


def _lacking(blobs: BlobStore, entries: Entries) -> List[str]:
    wanted = {name_of(entry): int(entry["bytes"]) for entry in entries if "link" not in entry}
    return [name for name, size in wanted.items() if not blobs.sound(name, size)]


def _receive(request: Request, blobs: BlobStore) -> int:
    """Fill blobs from heads {blobs: [[name, bytes], …]} and the bytes of all of them, end to end."""
    received = 0
    current: Optional[Arriving] = None
    waiting: Iterator[Tuple[str, int]] = iter(())
    try:
        for frame in request.body():
            if frame.type != frames.DATA:
                waiting = iter([(str(name), int(size)) for name, size in frame.json()["blobs"]])
                current, done = _next_blob(blobs, waiting)
                received += done
                continue
            view = memoryview(frame.payload)
            while len(view) and current is not None:
                part, view = view[: current.missing], view[current.missing :]
                current.write(bytes(part))
                if current.missing == 0:
                    current.finish()
                    current, done = _next_blob(blobs, waiting)
                    received += 1 + done
    finally:
        if current is not None:
            current.abandon()
    return received


def _next_blob(blobs: BlobStore, waiting: Iterator[Tuple[str, int]]) -> Tuple[Optional[Arriving], int]:
    """Open the next blob that has bytes; empty ones are whole at once and counted."""
    empty = 0
    for name, size in waiting:
        arriving = blobs.arriving(name, size)
        if size:
            return arriving, empty
        arriving.finish()
        empty += 1
    return None, empty


def _grow(root: str, target: str, entries: Entries) -> None:
    """Link every file into a folder beside the tree's place, then rename it there."""
    blobs = BlobStore(root)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    staging = "%s.partial-%d-%d" % (target, os.getpid(), id(entries))
    os.mkdir(staging)
    made = {""}
    try:
        for entry in entries:
            path = str(entry["path"])
            folder = path.rpartition("/")[0]
            if folder not in made:
                os.makedirs(os.path.join(staging, folder), exist_ok=True)
                made.add(folder)
            if "link" in entry:
                os.symlink(str(entry["link"]), os.path.join(staging, path))
            else:
                blobs.place(name_of(entry), os.path.join(staging, path))
        _into_place(staging, target)
    except FileExistsError as error:
        raise Refused("code.unsafe_path", "two files share a name: %s" % error) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _into_place(staging: str, target: str) -> None:
    try:
        os.rename(staging, target)
        fsync_folder(os.path.dirname(target))
    except OSError:
        if not os.path.isdir(target):  # another home brought the same tree first: equal by hash
            raise
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target + ".list")
