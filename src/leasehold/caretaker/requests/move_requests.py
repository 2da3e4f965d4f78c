"""Requests of a move: fence a run that goes on elsewhere, hash what it left, lay a state for its next start."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from leasehold.caretaker.moves import fence, leaving
from leasehold.caretaker.moves.arriving import Arriving
from leasehold.caretaker.moves.laid import laid_state
from leasehold.caretaker.process.locks import is_held
from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.request_args import folder_of
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.observe import observe
from leasehold.caretaker.wire.connection import Refused, Request
from leasehold.kit.files.paths import check_name
from leasehold.kit.refuge import epochs
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.layout import file_key
from leasehold.kit.refuge.place import Place, PlaceError
from leasehold.kit.refuge.reading import Kept, kept_states, read_state, verify
from leasehold.kit.wire import frames

from .start_stop import StartLock

_TELL_EVERY_BYTES = 32 << 20
_MOST_STATES = 20


def fence_run(request: Request) -> None:
    """Fence a run from an epoch on; nothing of it starts here again before a later one. Idempotent by its nonce."""
    folder = folder_of(request)
    if not os.path.isdir(folder.path):
        raise Refused("run.absent", "this box knows no run %s" % folder.run)
    with StartLock(folder):
        ownership.require(folder, request.args)
        stands = fence.put_up(folder, request.args)
        request.reply(dict(observe(folder), fence=stands))


def left_state(request: Request) -> None:
    """Hash the newest whole state of a cell and the files beside it; reply {upto} meanwhile, then what is left."""
    folder = folder_of(request)
    plan = folder.read_plan()
    cell = check_name(request.args.get("cell"), "cell")
    if plan is None:
        raise Refused("run.absent", "this box knows no run %s" % folder.run)
    if is_held(folder.cell_lock(cell)):
        raise Refused("run.alive", "%s, cell %s is still at work here" % (folder.run, cell))
    seen = observe(folder)["cells"].get(cell, {})
    by = leaving.Leaver(
        epoch=int(request.args.get("epoch") or 0),
        box=str(request.args.get("box") or ""),
        attempt=int(seen.get("attempt") or 0),
        ended_unix=float(seen.get("ended_unix") or 0.0),
        killed=seen.get("signal") is not None or bool(seen.get("lost")) or bool(seen.get("unseen")),
    )
    left = leaving.leave(folder, plan, cell, by, _teller(request))
    request.reply(leaving.described(left) if left else {"id": ""})


def kept_in(request: Request) -> None:
    """List the states of these runs' cells that a place keeps, the newest first; a place that fails is named."""
    place = _place(request)
    found: List[Dict[str, Any]] = []
    for run, cell in request.args.get("cells") or []:
        try:
            for kept in kept_states(place, check_name(run, "run"), check_name(cell, "cell")):
                found.append(described(kept))
                if len(found) >= _MOST_STATES:
                    break
        except PlaceError as error:
            request.reply({"problem": str(error), "kind": error.kind})
            return
    for one in found:
        request.reply(one)


def claim_epoch(request: Request) -> None:
    """Read or claim an epoch in a place that this box sees: {highest, mine, claim}."""
    place, run = _place(request), check_name(request.args.get("run"), "run")
    wanted = request.args.get("claim")
    try:
        mine = None
        if isinstance(wanted, dict):
            mine = epochs.claim(place, run, epochs.Claim(**{key: wanted[key] for key in epochs.Claim._fields}))
        highest = epochs.highest(place, run)
        said = epochs.read_claim(place, run, int(wanted["epoch"]) if isinstance(wanted, dict) else highest)
        request.reply({"highest": highest, "mine": mine, "claim": dict(said._asdict()) if said else None})
    except PlaceError as error:
        raise Refused("refuge.%s" % error.kind, str(error)) from None
    except (KeyError, TypeError, ValueError) as error:
        raise Refused("wire.bad_request", "not a claim: %s" % error) from None


def read_kept(request: Request) -> None:
    """Send a file of a state in a place that this box sees, from an offset on."""
    run, cell, state, path = (str(request.args.get(key) or "") for key in ("run", "cell", "state", "path"))
    try:
        for part in _place(request).get(file_key(run, cell, state, path), int(request.args.get("offset") or 0)):
            if request.gone or request.left:
                return
            request.data(part)
    except PlaceError as error:
        raise Refused("refuge.%s" % error.kind, str(error)) from None


def prove_kept(request: Request) -> None:
    """Read every byte of a state in a place that this box sees; reply {upto} meanwhile, then what is {wrong}."""
    run, cell, state = (str(request.args.get(key) or "") for key in ("run", "cell", "state"))
    try:
        place = _place(request)
        kept = read_state(place, run, cell, state)
        wrong = verify(place, kept, _teller(request)) if kept else ["its manifest is gone or damaged"]
    except PlaceError as error:
        raise Refused("refuge.%s" % error.kind, str(error)) from None
    request.reply({"wrong": wrong})


def want_state(request: Request) -> None:
    """Reply which bytes of a state are missing here: {laid}, or {lacking: [[index, bytes here]]}."""
    folder, arriving = _arriving(request)
    with StartLock(folder):
        _require_free(folder, request)
        laid = laid_state(folder, arriving.cell)
        if laid.get("state") == arriving.state and laid.get("epoch") == _epoch(request):
            request.reply({"laid": laid})
            return
        lacking = arriving.lacking()
        arriving.need_room(lacking)
    request.reply({"lacking": [list(one) for one in lacking]})


def put_state(request: Request) -> None:
    """Receive files {file, at} and their bytes, then lay the state; a cut keeps what came."""
    folder, arriving = _arriving(request)
    body = _Body(request)
    for index, offset in body.files(len(arriving.parts)):
        arriving.take(index, offset, body.bytes(arriving.parts[index].bytes - offset), lambda count: None)
    _lay(request, folder, arriving)


def fetch_state(request: Request) -> None:
    """Copy a state out of a place that this box sees, hashing it, then lay it; reply {upto} meanwhile."""
    folder, arriving = _arriving(request)
    place, kept = _place(request), request.args.get("kept") or {}
    with StartLock(folder):
        _require_free(folder, request)
        lacking = arriving.lacking()
        arriving.need_room(lacking)
    tick = _teller(request)
    root = str(kept.get("root") or "")
    try:
        for index, offset in lacking:
            path = arriving.parts[index].path
            inner = path[len(root) + 1 :] if root else path
            key = file_key(str(kept.get("run")), str(kept.get("cell")), str(kept.get("id")), inner)
            arriving.take(index, offset, _until_gone(request, place.get(key, offset)), tick)
    except PlaceError as error:
        raise Refused("refuge.%s" % error.kind, str(error)) from None
    _lay(request, folder, arriving)


def described(kept: Kept) -> Dict[str, Any]:
    """Return a kept state's form for the wire."""
    state = dict(kept.state._asdict(), files=[one._asdict() for one in kept.state.files])
    return {"id": kept.id, "manifest_sha256": kept.manifest_sha256, "state": state}


def _lay(request: Request, folder: RunFolder, arriving: Arriving) -> None:
    missing = arriving.lacking()
    if missing:
        raise Refused("state.cut", "%d files of the state did not arrive" % len(missing))
    pattern = str(request.args.get("pattern") or "").strip("/")
    facts = {**(request.args.get("facts") or {}), "epoch": _epoch(request), "at_unix": round(time.time(), 3)}
    with StartLock(folder):
        _require_free(folder, request)
        request.reply({"laid": arriving.settle(pattern, facts)})


def _arriving(request: Request) -> Tuple[RunFolder, Arriving]:
    folder = RunFolder.below(request.root, check_name(request.args.get("run"), "run"))
    os.makedirs(folder.path, exist_ok=True)
    cell, state = str(request.args.get("cell")), str(request.args.get("state"))
    return folder, Arriving(folder, cell, state, request.args.get("files") or [])


def _require_free(folder: RunFolder, request: Request) -> None:
    """Refuse to lay a state under a trainer, or into a run that another home holds."""
    if not ownership.claim(folder, request.args):
        ownership.require(folder, request.args)
    stands = fence.read(folder)
    if stands and int(stands["epoch"]) >= _epoch(request):
        raise Refused(fence.MOVED, fence.say_moved(folder.run, stands))
    cell = check_name(request.args.get("cell"), "cell")
    seen = observe(folder)
    has = seen.get("cells", {}).get(cell, {})
    if is_held(folder.cell_lock(cell)) or has.get("state") in ("starting", "running"):
        raise Refused("run.alive", "%s, cell %s is at work here; nothing is laid under it" % (folder.run, cell))


def _epoch(request: Request) -> int:
    epoch = request.args.get("epoch")
    if type(epoch) is not int or epoch < 1:
        raise Refused("wire.bad_request", "a move has an epoch")
    return epoch


def _place(request: Request) -> Place:
    wanted = request.args.get("place") or {}
    if wanted.get("bucket"):
        from leasehold.kit.objects.object_place import open_bucket  # brings ssl

        environ = {str(key): str(value) for key, value in (wanted.get("environ") or {}).items()}
        try:
            return open_bucket(str(wanted["bucket"]), environ)
        except PlaceError as error:
            raise Refused("refuge.%s" % error.kind, str(error)) from None
    folder = str(wanted.get("folder") or "")
    if not folder.startswith("/"):
        raise Refused("wire.bad_request", "a place is a folder of this box")
    try:
        return FolderPlace(folder)
    except PlaceError as error:
        raise Refused("refuge.%s" % error.kind, str(error)) from None


def _teller(request: Request) -> Callable[[int], None]:
    """Report progress now and then; stop if home has disconnected."""
    done, told = [0], [0]

    def tick(count: int) -> None:
        done[0] += count
        if request.gone:
            raise frames.WireError("home hung up in the middle of a request")
        if done[0] - told[0] >= _TELL_EVERY_BYTES:
            told[0] = done[0]
            request.reply({"upto": done[0]})

    return tick


def _until_gone(request: Request, parts: Iterator[bytes]) -> Iterator[bytes]:
    for part in parts:
        if request.gone:
            raise frames.WireError("home hung up in the middle of a request")
        yield part


class _Body:
    """The files of a request's body: {file, at}, then its bytes."""

    def __init__(self, request: Request) -> None:
        self._frames = request.body()
        self._head: Optional[Dict[str, Any]] = None

    def files(self, count: int) -> Iterator[Tuple[int, int]]:
        """Yield (index, offset) of each file; its bytes must be read before the next."""
        while True:
            head = self._head or self._next_head()
            self._head = None
            if head is None:
                return
            index, at = head.get("file"), head.get("at")
            if type(index) is not int or type(at) is not int or not 0 <= index < count or at < 0:
                raise Refused("wire.bad_request", "a file is {file, at}")
            yield index, at

    def bytes(self, most: int) -> Iterator[bytes]:
        """Yield the bytes of the present file, up to the next head; more than announced is cut off by the hash."""
        left = most
        while left > 0:
            frame = next(self._frames, None)
            if frame is None:
                return
            if frame.type != frames.DATA:
                self._head = frame.json()
                return
            left -= len(frame.payload)
            yield bytes(frame.payload)

    def _next_head(self) -> Optional[Dict[str, Any]]:
        frame = next(self._frames, None)
        if frame is None:
            return None
        if frame.type == frames.DATA:
            raise Refused("wire.bad_request", "more bytes than were announced")
        return frame.json()
