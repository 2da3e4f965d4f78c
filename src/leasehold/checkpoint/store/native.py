"""Checkpoints that a framework writes itself, with an atomic name, a list of hashes, and a fallback added.

Hugging Face Trainer, Lightning and Accelerate know best how to save their own state. This module adds what they lack:
when to save, a folder that is whole or absent, proof that nothing changed since, and the fallback if something did.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, Callable, Dict, Optional

from leasehold.checkpoint.decide.log_lines import Say, free_bytes, to_stderr
from leasehold.checkpoint.decide.save_interval import Pace, Sessions
from leasehold.checkpoint.decide.save_requests import Wishes
from leasehold.checkpoint.state.ranks import SYNC_S, Agreement, Ranks
from leasehold.kit.files.atomic import write_json
from leasehold.kit.text.units import say_bytes

from .files import Written
from .sharded import LIST, SCHEMA, check_listed, hash_share
from .shelf import NATIVE, Keep, Shelf, publish_folder, temp_name


class NativeCheckpoints:
    """A folder of checkpoints that a framework writes."""

    def __init__(
        self,
        folder: str = "ckpt",
        keep: int = 2,
        every_s: Optional[float] = None,
        say: Say = to_stderr,
        every_steps: Optional[int] = None,
    ) -> None:
        """Use a folder, below $LEASE_OUT inside a Leasehold run."""
        self.folder = os.path.join(os.environ.get("LEASE_OUT", ""), folder)
        self._keep, self._say = Keep(last=keep), say
        self._shelf, self._ranks, self.wishes = Shelf(self.folder), Ranks(), Wishes()
        self._agreement = Agreement(self._ranks)
        os.makedirs(self.folder, exist_ok=True)
        self._sessions = Sessions(os.path.join(self.folder, "sessions.json"), time.time())
        self._pace = Pace(time.monotonic(), self._sessions.gap_s(), every_s, every_steps)
        self.saved_step = -1  # of the newest one that this process knows to be whole

    def newest(self) -> str:
        """Return the newest whole checkpoint, setting damaged ones aside; empty for a fresh start."""
        if self._ranks.rank == 0:
            self._shelf.sweep()
        for kept in reversed(self._shelf.all()):
            problems = [said for said in self._ranks.gather(check_listed(kept.path, self._ranks)) if said]
            if not problems:
                self.saved_step = kept.step
                self._tell("checkpoint: resumes at step %d from %s" % (kept.step, kept.path))
                return kept.path
            self._tell("checkpoint: %s is damaged and was passed over: %s" % (os.path.basename(kept.path), problems[0]))
            if self._ranks.rank == 0:
                self._shelf.set_aside(kept)
            self._ranks.gather(None)
        self._tell("checkpoint: none in %s, a fresh start" % self.folder)
        return ""

    def due(self) -> bool:
        """Note the end of a step; return, the same on every process, whether to save now."""
        now = time.monotonic()
        self._pace.stepped(now, writing=False)
        if self._ranks.rank == 0:
            self.wishes.look(now)
        asked = [int(self.wishes.leave), int(self.wishes.save)]
        wishes = self._agreement.on(asked, [int(self._pace.due(now))], self._pace.steps_in(SYNC_S))
        if wishes is None:
            return False
        self.wishes.leave, self.wishes.save = bool(wishes[0]), False
        return any(wishes)

    def save(self, step: int, write: Callable[[str], None]) -> str:
        """Let `write` fill a folder, on every process; rename it into place once all of it is on the disk."""
        begun = time.monotonic()
        path = self._shelf.path(step, NATIVE)
        temp = self._ranks.first(temp_name(path))
        if self._ranks.rank == 0:
            shutil.rmtree(temp, ignore_errors=True)
            os.makedirs(temp)
        self._ranks.gather(None)
        problem = ""
        try:
            write(temp)
        except OSError as error:
            problem = str(error)
        problems = [said for said in self._ranks.gather(problem) if said]
        listed = {} if problems else self._list(temp)
        if self._ranks.rank == 0:
            problems = problems or [said for said in [self._publish(temp, path, step, listed)] if said]
        problems = self._ranks.first(problems)
        took = time.monotonic() - begun
        self._pace.snapped(time.monotonic(), took)
        if problems:
            shutil.rmtree(temp, ignore_errors=True)
            self._tell(
                "checkpoint: NOT saved at step %d: %s (%s free)"
                % (step, problems[0], say_bytes(free_bytes(self.folder)))
            )
            return ""
        self._pace.written(took)
        self.saved_step = step
        self._after(step, Written(path, sum(int(one["bytes"]) for one in listed.values()), ""), took)
        return path

    def _list(self, folder: str) -> Dict[str, Any]:
        listed: Dict[str, Any] = {}
        for part in self._ranks.gather(hash_share(folder, self._ranks)):
            listed.update(part)
        return listed

    def _publish(self, temp: str, path: str, step: int, listed: object) -> str:
        try:
            write_json(os.path.join(temp, LIST), {"schema": SCHEMA, "step": step, "files": listed})
            publish_folder(temp, path)
        except OSError as error:
            return str(error)
        return ""

    def _after(self, step: int, written: Written, took: float) -> None:
        if self._ranks.rank:
            return
        self._shelf.note(step, {"file": os.path.basename(written.path), "bytes": written.bytes})
        self._shelf.prune(self._keep)
        self.wishes.answer(self.wishes.heard, step)
        measured = {
            "cost_s": self._pace.cost_s,
            "write_s": took,
            "gap_s": self._pace.gap_s,
            "every_s": self._pace.every_s,
        }
        self._sessions.see(time.time(), "", measured)
        self._tell(
            "checkpoint: saved step %d, %s in %.3g s; one every %s"
            % (step, say_bytes(written.bytes), took, self._pace.words)
        )

    def ended(self, how: str) -> None:
        """Record how this training ended."""
        if self._ranks.rank == 0:
            self._sessions.see(time.time(), how)

    def _tell(self, line: str) -> None:
        if self._ranks.rank == 0:
            self._say(line)
