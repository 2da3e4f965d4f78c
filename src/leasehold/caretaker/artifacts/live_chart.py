"""The chart of what can be fetched now: of a run that still works, from a stable view; of an ended one, as it lies."""

from __future__ import annotations

import contextlib
import time
import zlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files import manifest
from leasehold.kit.files.globbing import Found
from leasehold.kit.files.paths import UnsafePath
from leasehold.kit.wire import frames

from .chart import Chart, Left, fetchable, settled
from .hash_cache import HashMemory
from .stable_view import StableView

Picked = Tuple[List[Tuple[str, Found]], List[Left], Dict[str, Any]]
Choosing = Callable[[Optional[StableView]], Picked]
Asked = Tuple[RunFolder, Dict[str, Any], Dict[str, str]]  # folder, plan, and the output folders by cell


def live_chart(request: Request, asked: Asked, memory: HashMemory, choosing: Optional[Choosing] = None) -> None:
    """List what is complete and readable, name what is left out and why, hash it, then send the manifest.

    choosing picks the files from the view, and reports something of them at the end of the list.
    """
    folder, plan, places = asked
    with _view(request, folder, keep_cut=choosing is not None) as view:
        views = {cell: view.root(cell) for cell in places} if view is not None else None
        drawn = Chart(request, places, memory, views)
        if choosing is not None:
            files, left, also = choosing(view)
            drawn.tell_files(sorted(files), left, also)
        else:
            drawn.tell_files(*_listed(request, view, asked))
        cells = drawn.take_sums(lenient=True)
        if cells is None or request.gone:
            return
        data = manifest.encode(manifest.assemble(folder.run, plan["plan_sha256"], plan["patterns"], cells))
        send(request, zlib.compress(data, 1))
        drawn.remember()


def send(request: Request, data: bytes) -> None:
    """Send bytes in frames."""
    for start in range(0, len(data), frames.CHUNK_BYTES):
        request.data(data[start : start + frames.CHUNK_BYTES])


@contextlib.contextmanager
def _view(request: Request, folder: RunFolder, keep_cut: bool) -> Iterator[Optional[StableView]]:
    """Yield the view that home named; None where none is asked for, or the disk has no room for its folder."""
    name = str(request.args.get("view") or "")
    try:
        view = StableView(folder, name, float(request.args.get("quiet_s", 0))) if name else None
        if view is not None:
            view.open()
    except UnsafePath as error:
        raise Refused("wire.bad_request", str(error)) from None
    except OSError:
        view = None
    if view is None:
        yield None
        return
    try:
        yield view
    finally:
        view.close(keep=request.gone and keep_cut)


def _listed(request: Request, view: Optional[StableView], asked: Asked) -> Tuple[List[Tuple[str, Found]], List[Left]]:
    _, plan, places = asked
    quiet_s = float(request.args.get("quiet_s", -1))
    files, left = fetchable(places, plan["patterns"])
    if view is None:
        now = time.time()
        fresh = [one for one in files if now - one[1].info.st_mtime < quiet_s]
        left += [(cell, found.path, "it was written a moment ago") for cell, found in fresh]
        return list(settled(places, plan["patterns"], quiet_s, now)), left
    taken = view.take(files, quiet_s)
    return sorted(taken.files), left + taken.left
