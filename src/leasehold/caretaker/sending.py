"""What leaves the box: the chart of the artifacts, and ranges of files as one stream of bytes."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Iterator, List, Tuple

from leasehold.kit import frames, manifest
from leasehold.kit.atomic import write_atomic
from leasehold.kit.match import matching
from leasehold.kit.paths import UnsafePath, open_below

from .charting import BLOCK_BYTES, Chart, settled
from .hash_memory import HashMemory
from .layout import RunFolder
from .run_requests import folder_of, plan_of, strayed
from .serve import Refused, Request

_SAMPLE_BYTES = 16 << 10
_PAYS_BELOW = 0.8  # of its size; above it the box's CPU is better spent on the next block
_LEAST_FRAME_BYTES = 4 << 10


def seal(request: Request) -> None:
    """Build the manifest of a run that has ended, keep it beside the run, and send its bytes."""
    folder, plan, places = _asked(request)
    try:
        built = manifest.build(folder.run, plan["plan_sha256"], places, plan["patterns"])
    except manifest.ManifestError as error:
        raise _unsealable(error, folder, plan, places) from None
    data = manifest.encode(built)
    write_atomic(folder.manifest, data)
    _send(request, data)


def chart(request: Request) -> None:
    """List the artifacts, hash them while home already fetches, then send the manifest. With quiet_s, of a live run."""
    folder, plan, places = _asked(request)
    quiet_s = float(request.args.get("quiet_s", -1))
    lenient = quiet_s >= 0
    memory = HashMemory(os.path.join(folder.path, "hashes.json"))
    try:
        if lenient:
            hits = {cell: manifest.unique(matching(root, plan["patterns"])) for cell, root in places.items()}
            roster = settled(hits, quiet_s, time.time())
        else:
            roster = manifest.survey(places, plan["patterns"])
        drawn = Chart(request, places, roster, memory)
        drawn.tell_files()
        cells = drawn.take_sums(lenient)
    except manifest.ManifestError as error:
        raise _unsealable(error, folder, plan, places) from None
    if request.gone:
        return
    data = manifest.encode(manifest.assemble(folder.run, plan["plan_sha256"], plan["patterns"], cells))
    if not lenient:
        write_atomic(folder.manifest, data)
    _send(request, data)


def fetch(request: Request) -> None:
    """Send ranges [cell, path, offset, length, mtime_ns] of a run's artifacts, one after the other, as one stream."""
    folder = folder_of(request)
    size = max(_LEAST_FRAME_BYTES, min(int(request.args.get("frame_bytes", frames.CHUNK_BYTES)), BLOCK_BYTES))
    pack = bool(request.args.get("pack"))
    held: List[bytes] = []
    held_bytes = 0
    for item in request.args.get("items") or []:
        for block in _blocks(folder, item, size):
            if request.gone:
                return
            if len(block) == size and not held:
                _emit(request, block, pack)
                continue
            held.append(block)
            held_bytes += len(block)
            if held_bytes >= size:
                _emit(request, b"".join(held), pack)
                held, held_bytes = [], 0
    if held:
        _emit(request, b"".join(held), pack)


def sums(request: Request) -> None:
    """Hash one file block by block, so that home finds which of its blocks differ."""
    import hashlib

    folder = folder_of(request)
    found: List[str] = []
    with _opened(folder, str(request.args.get("cell")), str(request.args.get("path"))) as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            found.append(hashlib.sha256(block).hexdigest())
            if len(found) == 1000:
                request.reply({"sums": found})
                found = []
    request.reply({"sums": found})


def _asked(request: Request) -> Tuple[RunFolder, Dict[str, Any], Dict[str, str]]:
    folder = folder_of(request)
    plan = plan_of(request, folder)
    names = [str(name) for name in request.args.get("cells") or plan["cells"]]
    return folder, plan, {name: folder.out(name) for name in names}


def _unsealable(error: Exception, folder: RunFolder, plan: Dict[str, Any], places: Dict[str, str]) -> Refused:
    return Refused("artifact.unsealable", "%s%s" % (error, strayed(folder, list(places), plan)))


def _send(request: Request, data: bytes) -> None:
    for start in range(0, len(data), frames.CHUNK_BYTES):
        request.data(data[start : start + frames.CHUNK_BYTES])


def _blocks(folder: RunFolder, item: Any, size: int) -> Iterator[bytes]:
    """Read a range; a file that is not what it was when it was listed refuses."""
    try:
        cell, path, offset, length, mtime_ns = item
        missing = int(length)
    except (TypeError, ValueError):
        raise Refused("wire.bad_request", "a range is [cell, path, offset, length, mtime_ns]") from None
    with _opened(folder, str(cell), str(path)) as file:
        if os.fstat(file.fileno()).st_mtime_ns != mtime_ns:
            raise Refused("artifact.changed", "%s/%s changed on the box since it was listed" % (cell, path))
        file.seek(int(offset))
        while missing > 0:
            block = file.read(min(size, missing))
            if not block:
                raise Refused("artifact.changed", "%s/%s became shorter on the box" % (cell, path))
            missing -= len(block)
            yield block


def _opened(folder: RunFolder, cell: str, path: str) -> Any:
    try:
        return os.fdopen(open_below(folder.out(cell), path), "rb", buffering=0)
    except (OSError, UnsafePath) as error:
        raise Refused("artifact.unreadable", "%s: %s" % (path, error)) from None


def _emit(request: Request, block: bytes, pack: bool) -> None:
    """Send a block, packed where home's link is slow and a sample says that it shrinks."""
    if pack and len(block) >= _LEAST_FRAME_BYTES:
        import zlib

        middle = len(block) // 2
        sample = block[middle : middle + _SAMPLE_BYTES]
        if len(zlib.compress(sample, 1)) < _PAYS_BELOW * len(sample):
            packed = zlib.compress(block, 1)
            if len(packed) < len(block):
                request.reply({"unpacks_to": len(block)})
                block = packed
    request.data(block)
