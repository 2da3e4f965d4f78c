"""Send artifacts from the box: their chart, and ranges of files as one stream of bytes."""

from __future__ import annotations

import os
import zlib
from typing import Any, Dict, List, Tuple

from leasehold.caretaker.run.request_args import folder_of, plan_of, strayed
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files import manifest
from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.files.paths import UnsafePath, check_name
from leasehold.kit.run.run_states import FINISHED
from leasehold.kit.wire import frames

from .chart import Chart
from .hash_cache import HashMemory
from .live_chart import live_chart, send
from .ranges import Artifacts, Span, filled, ranges

_SAMPLE_BYTES = 16 << 10
_PAYS_BELOW = 0.8  # fraction of its size; above it the box's CPU is better spent on the next block
_LEAST_FRAME_BYTES = 4 << 10
_TRIES = 3


def seal(request: Request) -> None:
    """Build the manifest of a run that has ended, keep it beside the run, and send its bytes."""
    folder, plan, places = asked_of(request)
    try:
        built = manifest.build(folder.run, plan["plan_sha256"], places, plan["patterns"])
    except manifest.ManifestError as error:
        raise _unsealable(error, folder, plan, places) from None
    data = manifest.encode(built)
    write_atomic(folder.manifest, data)
    send(request, data)


def chart(request: Request) -> None:
    """List the artifacts, hash them while home already fetches, then send the manifest. With quiet_s, of a live run.

    With look, first report the state of the run, and list only cells finished by then: so the list is complete.
    With view, files that the trainer goes on writing are listed from a stable view of that name, which later requests
    for ranges name too.
    """
    folder, plan, places = asked_of(request)
    if request.args.get("look") and not _have_finished(request, folder, places):
        return
    quiet_s = float(request.args.get("quiet_s", -1))
    lenient = quiet_s >= 0
    memory = HashMemory(os.path.join(folder.path, "hashes.json"))
    if lenient:
        live_chart(request, (folder, plan, places), memory)
        return
    try:
        drawn = Chart(request, places, memory)
        drawn.tell_files(manifest.survey(places, plan["patterns"]))
        cells = drawn.take_sums()
    except manifest.ManifestError as error:
        raise _unsealable(error, folder, plan, places) from None
    if cells is None or request.gone:
        return
    data = manifest.encode(manifest.assemble(folder.run, plan["plan_sha256"], plan["patterns"], cells))
    send(request, zlib.compress(data, 1))
    write_atomic(folder.manifest, data)  # for people who look here by hand; home uses its own copy
    drawn.remember()


def fetch(request: Request) -> None:
    """Send ranges [cell, path, offset, length, mtime_ns] of a run's artifacts, one after the other, as one stream.

    A true sixth element asks for a small file as a whole, followed by the 32 bytes of its sha256.
    """
    opened = Artifacts(folder_of(request), _view_of(request))
    size = max(_LEAST_FRAME_BYTES, min(int(request.args.get("frame_bytes", frames.CHUNK_BYTES)), frames.BLOCK_BYTES))
    packing = _Packing(bool(request.args.get("pack")))
    try:
        with request.turn:
            for block in filled(ranges(opened, request.args.get("items") or [], size, packing.wanted), size):
                if request.gone or request.left:
                    return
                if isinstance(block, Span):
                    _emit(block, request)
                else:
                    packing.emit(request, block)
    finally:
        opened.close()


def sums(request: Request) -> None:
    """Hash one file block by block, so that home finds which of its blocks differ."""
    import hashlib

    opened = Artifacts(folder_of(request), _view_of(request))
    found: List[str] = []
    fd, _ = opened.open(str(request.args.get("cell")), str(request.args.get("path")))
    opened.close()
    with os.fdopen(fd, "rb", buffering=0) as file:
        for block in iter(lambda: file.read(frames.BLOCK_BYTES), b""):
            found.append(hashlib.sha256(block).hexdigest())
            if len(found) == 1000:
                request.reply({"sums": found})
                found = []
    request.reply({"sums": found})


def _view_of(request: Request) -> str:
    view = str(request.args.get("view") or "")
    try:
        return check_name(view, "view") if view else ""
    except UnsafePath as error:
        raise Refused("wire.bad_request", str(error)) from None


def asked_of(request: Request) -> Tuple[RunFolder, Dict[str, Any], Dict[str, str]]:
    folder = folder_of(request)
    plan = plan_of(request, folder)
    names = [str(name) for name in request.args.get("cells") or plan["cells"]]
    return folder, plan, {name: folder.out(name) for name in names}


def _have_finished(request: Request, folder: RunFolder, places: Dict[str, str]) -> bool:
    from leasehold.caretaker.status.observe import observe

    seen = observe(folder)
    request.reply({"seen": seen})
    return all(seen["cells"].get(name, {}).get("state") == FINISHED for name in places)


def _unsealable(error: Exception, folder: RunFolder, plan: Dict[str, Any], places: Dict[str, str]) -> Refused:
    return Refused("artifact.unsealable", "%s%s" % (error, strayed(folder, list(places), plan)))


def _emit(span: Span, request: Request) -> None:
    """Send a range without reading it; a file that became shorter is refused after the rest it still had."""
    if request.file_data(span.fd, span.offset, span.length) < span.length:
        raise Refused("artifact.changed", "%s became shorter on the box" % span.name)


class _Packing:
    """Sends blocks, compressed where home's link is slow and samples show that they shrink."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self._tries = _TRIES if wanted else 0  # after this many incompressible samples in a row, stop trying

    def emit(self, request: Request, parts: List[bytes]) -> None:
        """Send the parts of one block."""
        if not self._tries:
            request.data(*parts)
            return
        block = b"".join(parts)
        if len(block) >= _LEAST_FRAME_BYTES:
            middle = len(block) // 2
            sample = block[middle : middle + _SAMPLE_BYTES]
            pays = len(zlib.compress(sample, 1)) < _PAYS_BELOW * len(sample)
            packed = zlib.compress(block, 1) if pays else block
            self._tries = _TRIES if pays else self._tries - 1
            if len(packed) < len(block):
                request.reply({"unpacks_to": len(block)})
                block = packed
        request.data(block)
