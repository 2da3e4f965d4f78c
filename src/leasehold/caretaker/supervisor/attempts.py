"""Attempts as the caretaker handles them: start a keeper, detect its outcome, journal how it ended."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Tuple

from leasehold.caretaker.attempt.keeper import exit_record, write_exit
from leasehold.caretaker.process.child import fork_child
from leasehold.caretaker.process.end_processes import end_processes
from leasehold.caretaker.process.locks import is_held
from leasehold.caretaker.process.own_command import Becoming
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.processes import boot_id, is_alive, marked
from leasehold.kit.run.run_state import CellState, RunState
from leasehold.kit.run.run_states import FAILED
from leasehold.kit.run.subreaper import adopt_orphans
from leasehold.kit.startup.typing_stub import unhinted

if TYPE_CHECKING:
    import resource

_STRAY_GRACE_S = 5.0
_MOST_KEEPERS = 10  # of one attempt, none of which could even claim it
_FOUND = {
    "before.json": ("env_recorded", "interpreter", "frameworks", "kept", "left_out", "problem"),
    "env.json": ("env_judged", "outcome", "findings", "skipped", "cached"),
}
_EXIT_FACTS = ("code", "signal", "lost", "by", "cpu_s", "max_rss_kib", "ran_s", "told", "unseen")


class Attempts:
    """The keepers of this caretaker, and the attempt folders of all keepers."""

    def __init__(
        self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None], clean_log: Callable[[str, int], None]
    ) -> None:
        self.folder = folder
        self.plan = plan
        self.note = note
        self.clean_log = clean_log
        self.keepers: Dict[int, str] = {}  # keeper pid -> cell
        self._spawns: Dict[Tuple[str, int], int] = {}
        # Our predecessor's last sign of life: what was lost meanwhile ended then, not when we noticed.
        self.heard_unix = float((read_json(folder.status) or {}).get("heartbeat_unix") or 0.0)

    def start(self, name: str, cell: CellState, how: Dict[str, str], before_exec: Callable[[], None]) -> None:
        """Begin the next attempt of a cell, once nothing of an earlier one is left. `how`: its stage, its cards."""
        if cell.attempt:  # else none ever began: that is journaled first
            self._end_strays(name)
        with contextlib.suppress(OSError):  # a save request to the last attempt is none to this one
            os.unlink(self.folder.save_request(name))
        if os.path.exists(self.folder.laid(name)):
            self._note_laid(name, cell)
        extra = {key: value for key, value in how.items() if value not in ("", "train")}
        self.note("attempt_starting", cell=name, attempt=cell.attempt + 1, **extra)
        self.spawn_keeper(name, cell, before_exec)

    def _note_laid(self, name: str, cell: CellState) -> None:
        """Journal the state from another box that home laid for this attempt."""
        from leasehold.caretaker.moves.laid import laid_state, mark_of, to_journal  # few runs move

        laid = laid_state(self.folder, name)
        if laid and mark_of(laid) != cell.laid:
            self.note("resumed_from", cell=name, attempt=cell.attempt + 1, **to_journal(laid))

    def spawn_keeper(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> None:
        """Start the parent of an attempt."""
        self._spawns[name, cell.attempt] = self._spawns.get((name, cell.attempt), 0) + 1
        pid = fork_child(before_exec, lambda: self._become_keeper(name, cell))
        self.keepers[pid] = name

    def _become_keeper(self, name: str, cell: CellState) -> None:
        if self.folder.respawns:
            adopt_orphans()  # kept across the exec: whatever its trainer starts stays below the keeper
        Becoming.go("keep", self.folder.address, name, str(cell.attempt), cell.stage, cell.cards)

    def look(self, name: str, cell: CellState, before_exec: Callable[[], None]) -> None:
        """Journal what happened to an attempt since the last look."""
        place = self.folder.attempt(name, cell.attempt)
        held = is_held(self.folder.cell_lock(name))
        ended = read_json(os.path.join(place, "exit.json"))  # after the lock: keepers write before they release it
        if cell.state == "starting":
            started = read_json(os.path.join(place, "started.json"))  # after the exit: what has ended did start
            if started is not None:
                self.note("attempt_started", cell=name, attempt=cell.attempt, **started)
        self._note_environment(name, cell, place)  # after the exit: what was judged came before it
        if ended is not None:
            self._note_ended(name, cell, ended)
        elif held or name in self.keepers.values() or self._still_runs(place):
            self._continue_keeper(name, cell)
        elif os.path.exists(os.path.join(place, "claim")):
            lived = {"ended_unix": self.heard_unix} if self.heard_unix > cell.started_unix > 0 else {}
            self._note_ended(name, cell, dict(lived, lost=True))
        elif self._spawns.get((name, cell.attempt), 0) >= _MOST_KEEPERS:
            self._note_ended(name, cell, {"lost": True})
        else:  # no keeper ever claimed it: the same attempt may be given to another
            self.spawn_keeper(name, cell, before_exec)

    def _continue_keeper(self, name: str, cell: CellState) -> None:
        """Continue a keeper that is suspended though its trainer has ended: nobody else writes the exit record."""
        if cell.state != "running" or is_alive(cell.pid, cell.started):
            return
        from leasehold.caretaker.attempt.find_keeper import continue_keeper  # few attempts come here

        pid = continue_keeper(self.folder, name)
        if pid:
            self.note("keeper_continued", cell=name, attempt=cell.attempt, pid=pid)

    def _still_runs(self, place: str) -> bool:
        """Return whether the trainer lives though no process seems to hold its cell: the lock's file may be deleted."""
        started = read_json(os.path.join(place, "started.json")) or {}
        here = bool(started) and started.get("boot", boot_id()) == boot_id()  # a pid of another node means nothing
        return here and is_alive(int(started.get("pid") or 0), str(started.get("started")))

    def reaped(self, run: RunState, pid: int, status: int, usage: "resource.struct_rusage") -> None:
        """Record that a child of the caretaker ended: a keeper, or a trainer whose keeper died before it."""
        if self.keepers.pop(pid, None) is None:
            self.adopt_exit(run, pid, status)

    def adopt_exit(self, run: RunState, pid: int, status: int) -> None:
        """Write the exit of a trainer whose keeper died: the kernel reparented it to us."""
        for name, cell in run.cells.items():
            place = self.folder.attempt(name, cell.attempt)
            started = read_json(os.path.join(place, "started.json"))
            if cell.state in ("starting", "running") and started and started["pid"] == pid:
                write_exit(self.folder, place, exit_record(status, "caretaker"))

    def _note_environment(self, name: str, cell: CellState, place: str) -> None:
        """Journal the findings of the step before the trainer, once per attempt."""
        if not self.plan["job"].get("setup") and not (read_json(self.folder.gate) or {}).get("own"):
            return
        for file, (kind, *facts) in _FOUND.items():
            noted = cell.recorded if kind == "env_recorded" else cell.judged
            found = read_json(os.path.join(place, file)) if noted != cell.attempt else None
            if found is not None:
                known = {key: found[key] for key in facts if key in found}
                self.note(kind, cell=name, attempt=cell.attempt, **known)

    def _note_ended(self, name: str, cell: CellState, record: Dict[str, Any]) -> None:
        self.clean_log(name, cell.attempt)  # before anybody is told that it can be read to its end
        facts: Dict[str, Any] = {key: record[key] for key in _EXIT_FACTS if key in record}
        if "ended_unix" in record:
            facts["at"] = max(record["ended_unix"], cell.started_unix)  # a clock may have been set back meanwhile
        self.note("attempt_ended", cell=name, attempt=cell.attempt, **facts)

    def _end_strays(self, name: str) -> None:
        """End what an earlier attempt left behind, or the new one would write beside it."""
        strays = marked(self.folder.mark(name))
        if not strays:
            return
        self.note("strays_ended", cell=name, pids=[process.pid for process in strays])
        end_processes(0, "", self.folder.mark(name), _STRAY_GRACE_S)


def failure(cell: CellState) -> str:
    """Format how a cell's newest attempt failed."""
    if cell.why:
        return cell.why
    if cell.refused:
        return "the env gate refused after set-up: %s" % cell.refused
    with unhinted():  # seldom, and its words need not weigh on a quiet caretaker
        from leasehold.kit.events.run_events import how_ended

    return how_ended(cell.attempt, cell.code, cell.signal, cell.lost)


def reasons(run: RunState) -> str:
    """Format why the cells failed; a shortage of disk comes first, since home distinguishes it from a failed run."""
    failed = [(name, cell) for name, cell in run.cells.items() if cell.state == FAILED]
    said = "; ".join("%s: %s" % (name, failure(cell)) for name, cell in failed)
    short = [failure(cell) for _, cell in failed if cell.short]
    return short[0] if short and len(failed) == len(short) else said
