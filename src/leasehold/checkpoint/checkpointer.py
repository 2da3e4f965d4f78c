"""The one object that a training script needs: restore, then step; it saves on schedule, and on request."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Union

from leasehold.checkpoint.decide.log_lines import ProgressLines, free_bytes, numbers, to_stderr
from leasehold.checkpoint.decide.save_interval import Pace, Sessions
from leasehold.checkpoint.decide.save_requests import Wishes
from leasehold.checkpoint.state.facts import facts_of, with_ours
from leasehold.checkpoint.state.parts import is_local, random_states, state_of
from leasehold.checkpoint.state.ranks import SYNC_S, Agreement, Ranks
from leasehold.checkpoint.state.snapshot import Stage
from leasehold.checkpoint.state.tree import Flat
from leasehold.checkpoint.store.files import Written, write_file
from leasehold.checkpoint.store.locking import FolderLock
from leasehold.checkpoint.store.restore import CheckpointError, Restored, restore_into
from leasehold.checkpoint.store.shelf import SHARDED, Keep, Shelf
from leasehold.checkpoint.store.writer import Outcome, Writer
from leasehold.kit.text.units import say_bytes

from .store import sharded as shards


class Place(NamedTuple):
    """The position of the training."""

    step: int = 0  # steps done, so the number of the next one
    epoch: Optional[float] = None
    metrics: Mapping[str, Any] = {}


class Checkpointer:
    """Saves a training's whole state into a folder, and restores the newest whole checkpoint.

    with Checkpointer("ckpt", keep=2, total=steps) as ckpt:
        state = ckpt.restore(model=model, optimizer=optimizer, scheduler=scheduler)
        for step in range(state.step, steps):
            ...
            ckpt.step(step, metrics={"loss": loss})
    """

    def __init__(
        self,
        folder: str = "ckpt",
        *,
        keep: Union[int, Keep] = 2,
        every_s: Optional[float] = None,
        every_steps: Optional[int] = None,
        total: Optional[int] = None,
        sharded: bool = False,
        say: Callable[[str], None] = to_stderr,
    ) -> None:
        """Use a folder, below $LEASE_OUT inside a Leasehold run. Without every_… the save interval is measured."""
        self.folder = os.path.join(os.environ.get("LEASE_OUT", ""), folder)
        self._keep = keep if isinstance(keep, Keep) else Keep(last=keep)
        self._sharded, self._say = sharded, say
        self._shelf, self._stage, self._writer = Shelf(self.folder), Stage(), Writer()
        self._wishes, self._ranks = Wishes(), Ranks()
        self._lock = FolderLock(self.folder)
        self._sessions = Sessions(os.path.join(self.folder, "sessions.json"), time.time())
        self._pace = Pace(time.monotonic(), self._sessions.gap_s(), every_s, every_steps)
        self._lines = ProgressLines(total, say)
        self._parts: Optional[Dict[str, Any]] = None
        self._place, self._saved_step = Place(), 0
        self._best: Optional[float] = None
        self._agreement = Agreement(self._ranks)
        self._failed: Optional[Exception] = None
        self._said_pickled = False

    # ---------------------------------------------------------------- public methods

    def __enter__(self) -> Checkpointer:
        """Take over the folder and the signals."""
        self._wishes.listen()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Save what is new if the loop ended well, wait until it is on the disk, release the signals and the lock."""
        ended = "done" if kind is None else "signal" if self._wishes.leave else "error"
        try:
            self._take_outcome(wait=True)
            if kind is None and self._parts is not None and self._ranks.first(self._behind):
                self._save(wait=True)
        finally:
            self._leave(ended)
        if kind is None and self._failed is not None:
            raise CheckpointError("the last save failed: %s" % self._failed) from self._failed

    def restore(self, **parts: Any) -> Restored:
        """Load the newest whole checkpoint into the parts and remember them for saving; or start fresh."""
        if "leasehold" in parts:
            raise TypeError("a part may not be named leasehold")
        if self._ranks.rank == 0:
            os.makedirs(self.folder, exist_ok=True)
            self._lock.take()
            self._shelf.sweep()
        restored = restore_into(parts, self._shelf, self._ranks, self._say_first)
        self._parts, self._saved_step = dict(parts), restored.step
        self._place = Place(restored.step, restored.epoch, restored.metrics)
        self._best = restored.best
        if self._ranks.rank == 0:
            self._sessions.see(time.time())
        self._pace.postpone(time.monotonic())
        return restored

    def step(self, step: int, metrics: Optional[Mapping[str, Any]] = None, epoch: Optional[float] = None) -> bool:
        """Note that a step is done; save if that is due, requested, or the best so far. Return whether it saved."""
        if self._parts is None:
            raise CheckpointError("call restore(...) before the first step, so that there is something to save")
        now = time.monotonic()
        # Detached from the graph: a loss kept until the next step must not keep its graph alive.
        loose = {name: value.detach() if hasattr(value, "detach") else value for name, value in (metrics or {}).items()}
        self._place = Place(step + 1, epoch, loose)
        for part in self._parts.values():
            if hasattr(part, "advance"):
                part.advance()
        self._pace.stepped(now, self._writer.busy)
        self._take_outcome()
        if self._ranks.rank == 0:
            self._lines.step(step + 1, epoch, metrics, now)
        why = self._agree(metrics, now)
        if why:
            self._save(wait=why == "leave")
        if why == "leave":
            self._say_first("checkpoint: asked to end; state of step %d is %s" % (step + 1, self._word()))
            self._ranks.part_at_exit()
            raise SystemExit(128 + signal.SIGTERM)
        return bool(why)

    def save(self, wait: bool = True) -> None:
        """Save now; by default return when it is on the disk, or raise."""
        if self._parts is None:
            raise CheckpointError("call restore(...) first, so that there is something to save")
        self._save(wait=wait)
        if wait and self._failed is not None:
            raise CheckpointError("step %d is not saved: %s" % (self._place.step, self._failed)) from self._failed

    def wait(self) -> None:
        """Return once nothing is being written."""
        self._take_outcome(wait=True)

    def request(self) -> None:
        """Ask for a save at the end of the current step, as SIGUSR1 does."""
        self._wishes.save = True

    @property
    def every_s(self) -> float:
        """Return the current save interval in seconds."""
        return self._pace.every_s

    @property
    def host_bytes(self) -> int:
        """Return the host memory held for copies: the size of one checkpoint."""
        return self._stage.bytes

    @property
    def _behind(self) -> bool:
        """Return whether the newest step is not on the disk: never saved, or its save failed."""
        return self._failed is not None or self._place.step > self._saved_step

    # ---------------------------------------------------------------- when

    def _agree(self, metrics: Optional[Mapping[str, Any]], now: float) -> str:
        """Return the reason to save now, the same on every process; empty if there is none."""
        valued = bool(self._keep.metric) and self._keep.metric in (metrics or {})
        best = valued and self._improves(float((metrics or {})[self._keep.metric]))
        due = self._pace.due(now) and not self._writer.busy
        if self._ranks.rank == 0:
            self._wishes.look(now)
        asked = [int(self._wishes.leave), int(self._wishes.save)]
        wishes = self._agreement.on(asked, [int(best), int(due)], self._pace.steps_in(SYNC_S), valued)
        if wishes is None:
            return ""
        self._wishes.leave, self._wishes.save = bool(wishes[0]), False
        return next((why for why, wish in zip(("leave", "asked", "best", "due"), wishes) if wish), "")

    def _improves(self, value: float) -> bool:
        if self._keep.better(value, self._best):
            self._best = value
            return True
        return self._keep.top > 1 and self._keep.better(value, self._shelf.bar(self._keep))

    # ---------------------------------------------------------------- how

    def _save(self, wait: bool) -> None:
        self._take_outcome(wait=True)
        begun = time.monotonic()
        self._place = self._place._replace(metrics=numbers(self._place.metrics))
        parts = self._parts or {}
        mine = {name: state_of(part, name) for name, part in parts.items() if is_local(name)}
        locals_ = self._ranks.gather({"rng": random_states(), "parts": mine})
        self._saved_step = self._place.step
        if self._sharded:
            self._save_sharded(parts, locals_)
        elif self._ranks.rank == 0:
            self._begin_write(parts, locals_, begun)
            if wait:
                self._take_outcome(wait=True)
        if wait:
            self._failed = self._ranks.first(self._failed)

    def _begin_write(self, parts: Dict[str, Any], locals_: List[Any], begun: float) -> None:
        shared = {name: state_of(part, name) for name, part in parts.items() if not is_local(name)}
        flat = Flat(with_ours(shared, self._place, self._best, locals_))
        snapshot = self._stage.take(flat)
        facts = facts_of(self._place, parts, flat.pickled, locals_)
        if flat.pickled and not self._said_pickled:
            self._said_pickled = True
            self._say("checkpoint: saved as pickles, which no safe reader loads: %s" % ", ".join(flat.pickled[:5]))
        place, path, heard = self._place, self._shelf.path(self._place.step), self._wishes.heard
        self._pace.snapped(time.monotonic(), time.monotonic() - begun)

        def work() -> Written:
            _check_room(self.folder, snapshot.data_bytes)
            written = write_file(path, snapshot, facts)
            self._after(place, written)
            self._wishes.answer(heard, place.step)
            return written

        self._writer.start(place.step, work)

    def _save_sharded(self, parts: Dict[str, Any], locals_: List[Any]) -> None:
        begun = time.monotonic()
        ours = with_ours({}, self._place, self._best, locals_)
        try:
            written = shards.save(self._shelf.path(self._place.step, SHARDED), parts, ours, self._ranks)
        except OSError as error:
            self._take(Outcome(self._place.step, time.monotonic() - begun, None, error))
            return
        now = time.monotonic()
        self._pace.snapped(now, now - begun)
        if self._ranks.rank == 0:
            self._after(self._place, written)
            self._wishes.answer(self._wishes.heard, self._place.step)
        self._take(Outcome(self._place.step, now - begun, written, None))

    def _after(self, place: Place, written: Written) -> None:
        """Add the written checkpoint to the index, then delete what it replaces."""
        facts = {"file": os.path.basename(written.path), "bytes": written.bytes, "digest": written.digest}
        facts.update(epoch=place.epoch, metrics=place.metrics, written_unix=round(time.time(), 3))
        self._shelf.note(place.step, facts)
        if self._shelf.prune(self._keep):
            self._shelf.note(place.step, facts)

    def _take_outcome(self, wait: bool = False) -> None:
        outcome = self._writer.take(wait)
        if outcome is not None:
            self._take(outcome)

    def _take(self, outcome: Outcome) -> None:
        self._failed = outcome.error
        if outcome.error is not None:
            self._pace.postpone(time.monotonic())
            self._say_first(
                "checkpoint: NOT saved at step %d: %s; %s" % (outcome.step, outcome.error, self._last_good())
            )
            return
        self._pace.written(outcome.seconds)
        self._measure()
        if outcome.written is not None:
            how = (outcome.step, say_bytes(outcome.written.bytes), outcome.seconds, self._pace.words)
            self._say_first("checkpoint: saved step %d, %s in %.3g s; one every %s" % how)

    def _measure(self, ended: str = "") -> None:
        if self._ranks.rank == 0 and os.path.isdir(self.folder):
            measured = {"cost_s": self._pace.cost_s, "write_s": self._pace.write_s, "step_s": self._pace.step_s}
            measured.update(gap_s=self._pace.gap_s, every_s=self.every_s)
            self._sessions.see(time.time(), ended, {name: value for name, value in measured.items() if value})

    def _leave(self, ended: str) -> None:
        if self._parts is not None:
            if ended != "error":
                self._ranks.gather(None)  # no process exits, and tears the group down, before the writer is done
            self._measure(ended)
        self._wishes.forget()
        self._stage.release()
        self._lock.give_back()

    def _word(self) -> str:
        return "on the disk" if self._failed is None else "NOT saved"

    def _last_good(self) -> str:
        there = self._shelf.all()
        return "the one of step %d stays" % there[-1].step if there else "there is none yet"

    def _say_first(self, line: str) -> None:
        if self._ranks.rank == 0:
            self._say(line)


def _check_room(folder: str, need_bytes: int) -> None:
    free = free_bytes(folder)
    if free < need_bytes:
        raise OSError(
            28, "No space left on device: it needs %s, %s has %s" % (say_bytes(need_bytes), folder, say_bytes(free))
        )
