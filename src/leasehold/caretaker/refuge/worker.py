"""The worker: looks for new checkpoints, copies whole ones to each refuge, says what happened. One for a run.

It is the only process that touches a refuge: a mount that hangs takes the worker with it, never the caretaker.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from leasehold.caretaker.process.locks import is_held, wait_lock
from leasehold.caretaker.run.lock_owner import sign
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.refuge.place import UNREACHABLE, Place, PlaceError, SourceChanged
from leasehold.kit.refuge.publishing import Fenced, check_fence
from leasehold.kit.testing.kill_points import pause_at

from .best_metric import metric_of
from .cell_record import CellRecord
from .claiming import Epoch
from .copier import Copied, Origin, Retention, StateCopy
from .found_states import Candidate, candidates, why_not
from .held_files import HeldFiles
from .opened_place import DURABLE, Wishes, open_place, where_of, wishes_of
from .orders import OWN_DISK, TORN, Beating, CellOrder, Order, RefugeFiles, Said
from .yielding import Throttle, yield_to_trainer

_LOOK_S = 2.0
_SLICE_S = 0.25
_AGAIN_S = 0.5  # after something new was seen
_MOST_PAUSE_S = 60.0
_LOOK_SHARE = 0.005  # of a processor's time, at most, goes into looking
_EVERY_SHARE = 0.05  # of the interval: so late at most is a new state seen
_RETRY_S = (5.0, 30.0, 120.0, 600.0)  # after a refuge failed
_FENCE_EVERY_S = 60.0
_ALONE_S = 60.0  # without a caretaker
_TORN_TELLS = 3
_LOCK_WAIT_S = 1.0


def keep_off_box(folder: RunFolder) -> int:
    """Copy until the caretaker says that it was the last, or the run belongs to another box."""
    files = RefugeFiles(folder)
    os.makedirs(files.path, exist_ok=True)
    lock = wait_lock(files.lock, _LOCK_WAIT_S)
    if lock is None:
        return 0
    yield_to_trainer()
    sign(lock)
    worker = Worker(folder, files)
    alone_since: Optional[float] = None
    while worker.turn():
        _wait(files, worker.pause_s)
        alone = not is_held(folder.caretaker_lock)
        alone_since = (alone_since or time.monotonic()) if alone else None
        if alone_since is not None and time.monotonic() - alone_since > _ALONE_S:
            break  # its end is known: a caretaker is always started again while its trainer lives
    os.close(lock)
    return 0


def _wait(files: RefugeFiles, pause_s: float) -> None:
    """Wait, but not longer than until another order comes."""
    until, known = time.monotonic() + pause_s, _written_ns(files)
    while time.monotonic() < until and _written_ns(files) == known:
        time.sleep(min(_SLICE_S, pause_s))


def _written_ns(files: RefugeFiles) -> int:
    try:
        return os.stat(files.order).st_mtime_ns
    except OSError:
        return 0


class Slot:
    """One refuge as the worker knows it."""

    def __init__(self, spec: str, where: str) -> None:
        self.spec, self.where = spec, where
        self.place: Optional[Place] = None
        self.epoch = 0
        self.fails = 0
        self.retry_at = float("-inf")
        self.fence_at = float("-inf")

    def failed(self, now: float) -> None:
        """Try again later, more and more seldom."""
        self.place = None  # what it knew of its disk or its connection may be out of date
        self.retry_at = now + _RETRY_S[min(self.fails, len(_RETRY_S) - 1)]
        self.fails += 1

    def worked(self) -> None:
        """Count no failures any more."""
        self.fails = 0


class Worker:
    """The loop over cells and refuges."""

    def __init__(self, folder: RunFolder, files: RefugeFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self.files, self.clock = folder, files, clock
        self.order = Order.read(files)
        plan = folder.read_plan() or {}
        self.wishes: Wishes = wishes_of(plan, folder.platform())
        self.said, self.beating = Said(files), Beating(files, clock)
        self.throttle = Throttle(self.wishes.rate_bytes, clock)
        self.slots = [Slot(spec, where_of(spec, folder.platform())) for spec in self.wishes.specs]
        self.pause_s = _LOOK_S
        self._records: Dict[str, CellRecord] = {}
        self._torn: Dict[str, int] = {}
        self._told: Dict[Tuple[str, str], str] = {}
        self._fenced = False
        self._looked_s = 0.0

    def turn(self) -> bool:
        """Look once, and copy what is due; return whether to go on."""
        self.order = Order.read(self.files)
        self.beating.begin("looking")
        again, self._looked_s = False, 0.0
        for cell in self.order.cells:
            again |= self._mind(cell, self.order.cells[cell])
            if self._fenced:
                return False
        self._mind_fences()
        rests_s = min(_MOST_PAUSE_S, _EVERY_SHARE * self.wishes.every_s, self._looked_s / _LOOK_SHARE)
        self.pause_s = _AGAIN_S if again else max(_LOOK_S, rests_s)
        return not self._fenced and (again or not self.order.final)

    def _mind(self, cell: str, order: CellOrder) -> bool:
        """Copy the newest whole checkpoint that a refuge lacks and is due; return whether to look again at once."""
        due = [slot for slot in self.slots if self._due(slot, cell, order)]
        if not due:
            return False
        out = self.folder.out(cell)
        began = time.process_time()  # a busy machine makes a look late, not dear
        try:
            found = candidates(out, self.wishes.pattern)
        except OSError:
            return False  # its folder is not there yet, or changes right now
        finally:
            self._looked_s += time.process_time() - began
        for place, state in enumerate(found):
            lacking = [slot for slot in due if self._record(cell).copied_mark(slot.where) != state.mark]
            if not lacking:
                return False
            older = found[place + 1] if place + 1 < len(found) else None
            if not why_not(out, state, older, not order.alive or place > 0, time.time()):
                return not self._copy(cell, order, state, lacking)
        return False

    def _due(self, slot: Slot, cell: str, order: CellOrder) -> bool:
        if slot.where in self.order.skip or self.clock() < slot.retry_at:
            return False
        since_s = time.time() - self._record(cell).begun_unix(slot.where)
        waits = 0 <= since_s < self.wishes.every_s  # a clock that was set back does not make it wait for long
        return order.hurry or self.order.final or not waits

    def _record(self, cell: str) -> CellRecord:
        if cell not in self._records:
            self._records[cell] = CellRecord(self.files.cell(cell))
        return self._records[cell]

    def _copy(self, cell: str, order: CellOrder, state: Candidate, due: List[Slot]) -> bool:
        """Copy a state to each refuge that lacks it; return whether it stayed as it was."""
        record, out = self._record(cell), self.folder.out(cell)
        self.beating.begin("reading", cell=cell, of_bytes=state.bytes)
        try:
            with HeldFiles(out, state, self._meter) as held:
                metric = metric_of(out, state, self.wishes.best)
                if order.alive:
                    time.sleep(_AGAIN_S)  # the second look: whoever still writes it has written by then
                    held.check()
                for slot in due:
                    place = self._opened(slot, cell)
                    if place is None:
                        continue
                    origin = Origin(self.folder.run, cell, slot.epoch, self.order.box, order.attempt)
                    self._copy_to(slot, place, StateCopy(held, state, origin, record, metric), origin)
            self._torn.pop(cell, None)
        except SourceChanged as changed:
            self._torn[cell] = self._torn.get(cell, 0) + 1
            if self._torn[cell] >= _TORN_TELLS:
                self._fail(due[0], cell, TORN, "%s; %d times in a row" % (changed, self._torn[cell]))
            return False
        except OSError as error:  # our own records: the box's disk is full, or its folder is gone
            self._fail(due[0], cell, OWN_DISK, str(error))
        return True

    def _copy_to(self, slot: Slot, place: Place, copy: StateCopy, origin: Origin) -> None:
        self.beating.begin("copying", cell=origin.cell, to=slot.where)
        pause_at("refuge_copying", "during")
        try:
            with self._alive(slot):
                done = copy.to(place, Retention(self.wishes.keep, self.wishes.mode), self._check)
        except Fenced as fenced:
            self._fence(slot, origin.cell, fenced)
        except PlaceError as error:
            slot.failed(self.clock())
            with contextlib.suppress(PlaceError):  # its files stay until the next prune there
                copy.give_up(place)
            self._fail(slot, origin.cell, error.kind, str(error))
        else:
            slot.worked()
            self._tell_copied(slot, origin.cell, done)

    def _opened(self, slot: Slot, cell: str) -> Optional[Place]:
        """Return a refuge that is open and in which the run is ours."""
        if slot.place is not None:
            return slot.place
        self.beating.begin("opening", to=slot.where)
        try:
            with self._alive(slot):
                place = open_place(slot.spec, self.folder, self.beating.tick)
                slot.where = place.where
                slot.epoch = Epoch(self.files.claim, self.folder.run, self.order.box).hold(place)
            slot.place = place
        except Fenced as fenced:
            self._fence(slot, cell, fenced)
        except PlaceError as error:
            slot.failed(self.clock())
            self._fail(slot, cell, error.kind, str(error))
        return slot.place

    def _mind_fences(self) -> None:
        """Find out soon that the run was given to another box, also while nothing is copied."""
        for slot in self.slots:
            if slot.place is None or self.clock() < slot.fence_at:
                continue
            slot.fence_at = self.clock() + _FENCE_EVERY_S
            try:
                with self._alive(slot):
                    check_fence(slot.place, self.folder.run, slot.epoch)
            except Fenced as fenced:
                self._fence(slot, "", fenced)
            except PlaceError:
                continue  # the next copy says so

    def _fence(self, slot: Slot, cell: str, fenced: Fenced) -> None:
        from .fencing import owner_of

        self._fenced = True
        facts = owner_of(slot.place, self.folder, fenced.epoch, slot, self.beating.tick)
        self.said.tell("refuge_fenced", cell=cell, place=slot.where, epoch=fenced.epoch, ours=slot.epoch, **facts)

    def _fail(self, slot: Slot, cell: str, kind: str, why: str) -> None:
        """Say that a copy failed; the same again only after a success, or another reason."""
        never = not slot.epoch and not self._record(cell).begun_unix(slot.where)
        quiet = never and slot.spec == DURABLE and not self.wishes.stated and kind == UNREACHABLE
        if self._told.get((slot.where, cell)) == kind:
            return
        self._told[slot.where, cell] = kind
        if quiet:
            self.said.tell("refuge_skipped", cell=cell, place=slot.where, why=why)
            return
        self.said.tell("refuge_failed", cell=cell, place=slot.where, why=why, **{"class": kind})

    def _tell_copied(self, slot: Slot, cell: str, done: Copied) -> None:
        self._told.pop((slot.where, cell), None)
        kept = done.kept
        tier = "durable" if slot.spec == DURABLE else "store"
        self.said.tell(
            "refuge_copied",
            cell=cell,
            place=slot.where,
            tier=tier,
            state=kept.id,
            step=kept.state.step,
            bytes=kept.state.bytes,
            files=len(kept.state.files),
            made_unix=kept.state.made_unix,
            took_s=round(max(0.0, time.time() - kept.state.copied_unix), 1),
            epoch=kept.state.epoch,
            manifest_sha256=kept.manifest_sha256,
        )
        if done.pruned:
            self.said.tell("refuge_pruned", cell=cell, place=slot.where, states=list(done.pruned))

    def _meter(self, count: int) -> None:
        self.throttle(count)
        self.beating.tick(count)

    def _check(self) -> None:
        """Called before each file: nothing stops a copy but the end of its source."""
        self.beating.tick()

    def _alive(self, slot: Slot) -> "_Ticking":
        return _Ticking(self.beating, slot.spec != DURABLE)


class _Ticking:
    """Beats while an object store is asked, whose client never waits without a limit."""

    def __init__(self, beating: Beating, wanted: bool) -> None:
        self._beating, self._wanted = beating, wanted
        self._over = threading.Event()

    def __enter__(self) -> None:
        if self._wanted:
            threading.Thread(target=self._beat, daemon=True).start()

    def __exit__(self, *_: Any) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(10.0):
            self._beating.tick()
