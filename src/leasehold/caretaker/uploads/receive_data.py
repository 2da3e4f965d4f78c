"""Requests before and during an upload of data: which files are missing, is there room, and the bytes themselves."""

from __future__ import annotations

import contextlib
import errno
import os
import zlib
from typing import Dict, Iterator, List, Set, Tuple

from leasehold.caretaker.wire.connection import Request
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.paths import check_name
from leasehold.kit.wire.frames import DATA

from .input_store import COMING, LIST, Coming, Entries, Inputs, is_small, keep_listing, read_listing, settle
from .trees import checked_entries

_NAMES_A_FRAME = 5_000
_FULL = (errno.ENOSPC, errno.EDQUOT)


def want_data(request: Request) -> None:
    """Read the list of an upload's files; reply which are missing and how much of each is here, or that all are."""
    tree = check_name(str(request.args["tree"]), "tree")
    packed = b"".join(frame.payload for frame in request.body() if frame.type == DATA)
    inputs = Inputs(request.root)
    with _room(inputs):
        inputs.open()
        entries = checked_entries(_unpack(packed), tree)
        if any("link" in entry for entry in entries):
            raise Refused("wire.bad_request", "data holds no links")
        missing = inputs.lacking(entries)
        inputs.need_room(entries, missing, tree)
        if missing or read_listing(inputs, tree) is None:
            keep_listing(inputs, tree, _unpack(packed), COMING)
        if not missing:
            _complete(inputs, tree, entries, _unpack(packed))
    named = [[name, size, here] for name, (size, here) in missing.items()]
    for start in range(0, len(named), _NAMES_A_FRAME):
        request.reply({"names": named[start : start + _NAMES_A_FRAME]})
    request.reply({"have": not missing, "lack": len(missing)})


def put_data(request: Request) -> None:
    """Receive files: heads {files: [[name, size, offset], …]} and their bytes end to end; a cut keeps what came."""
    tree = check_name(str(request.args["tree"]), "tree")
    inputs = Inputs(request.root)
    with _room(inputs):
        text = read_listing(inputs, tree, COMING)
        if text is None:
            raise Refused("data.no_listing", "the data %s was not announced" % tree[:12])
        entries = checked_entries(text, tree)
        received = _receive(request, inputs, {str(entry["sha256"]): int(entry["bytes"]) for entry in entries})
        missing = inputs.lacking(entries)
        if missing:
            raise Refused("data.differs", "%d files of the data did not arrive" % len(missing))
        _complete(inputs, tree, entries, text)
    request.reply({"tree": tree, "received": received})


def _complete(inputs: Inputs, tree: str, entries: Entries, text: bytes) -> None:
    inputs.lay(entries, tree)
    keep_listing(inputs, tree, text, LIST)  # anew each time: what is young is not pruned


def _receive(request: Request, inputs: Inputs, known: Dict[str, int]) -> int:
    small: Set[str] = set()
    waiting: Iterator[Tuple[str, int, int]] = iter(())
    coming: List[Coming] = []  # the file whose bytes come now
    received = 0
    try:
        for frame in request.body():
            if frame.type != DATA:
                _take_empty(inputs, waiting, known, small)
                waiting = iter([(str(name), int(size), int(at)) for name, size, at in frame.json()["files"]])
                continue
            view = memoryview(frame.payload)
            while len(view):
                one = coming[0] if coming else _next(inputs, waiting, known)
                coming[:] = [one]
                part, view = view[: one.missing], view[one.missing :]
                one.write(bytes(part))
                if one.missing == 0:
                    coming.clear()
                    one.finish()
                    received += 1
                    if is_small(known[one.name]):
                        small.add(one.name)
        _take_empty(inputs, waiting, known, small)
    finally:
        for one in coming:
            one.leave()
        settle(inputs, small)
    return received


def _next(inputs: Inputs, waiting: Iterator[Tuple[str, int, int]], known: Dict[str, int]) -> Coming:
    for name, size, offset in waiting:
        if known.get(name) != size or not 0 <= offset <= size:
            raise Refused("wire.bad_request", "a file of %d bytes that was not announced" % size)
        one = Coming(inputs, name, size, offset)
        if one.missing:
            return one
        one.finish()  # only its name was missing
    raise Refused("wire.bad_request", "more bytes than were announced")


def _take_empty(
    inputs: Inputs, waiting: Iterator[Tuple[str, int, int]], known: Dict[str, int], small: Set[str]
) -> None:
    """Store files without bytes; one whose bytes never came is found missing later."""
    for name, size, offset in waiting:
        if known.get(name) == size == offset:
            Coming(inputs, name, size, offset).finish()
            if is_small(size):
                small.add(name)


@contextlib.contextmanager
def _room(inputs: Inputs) -> Iterator[None]:
    """Turn a disk that fills up on the way into a refusal; a quota shows in no figure before."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise Refused("data.no_room", "%s is full: %s" % (inputs.folder, os.strerror(error.errno))) from None


def _unpack(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, 1 << 30)
    except zlib.error as error:
        raise Refused("wire.bad_request", "cannot be decompressed: %s" % error) from None
