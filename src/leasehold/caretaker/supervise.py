"""The caretaker: one per run, the only writer of its journal.

It starts keepers, notices how attempts end, decides what follows, and writes status.json. Killed at any
byte, the next one folds the journal, looks at the attempt folders and goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Dict, List, Optional

from leasehold.kit.atomic import read_json, write_atomic, write_json
from leasehold.kit.journal import Journal
from leasehold.kit.procs import boot_id, look, marked
from leasehold.kit.runstate import FAILED, FINISHED, STOPPED, CellState, RunState, fold

from . import allowance
from .copying import DurableCopy
from .downloads import Downloads
from .handbook import Handbook
from .keeper import Wakeups, exit_record, own_argv, write_exit
from .layout import RunFolder
from .locks import is_held, wait_lock
from .platform_shell import hook_failed, say_hook
from .reaper import adopt_orphans, end_processes, signal_all, trainer_processes
from .tensorboard import link
from .watcher import Watcher
from .worktime import WorkClock

_LOCK_WAIT_S = 0.5
_TICK_S = 1.0
_HEARTBEAT_S = 5.0
_STARTING_TICK_S = 0.02
_STOPPING_TICK_S = 0.1
_STRAY_GRACE_S = 5.0
_BUDGET_EVERY_S = 2.0
_BUDGET_GRACE_S = 30.0
_FOUND = {
    "before.json": ("env_recorded", "interpreter", "frameworks", "kept", "left_out", "problem"),
    "env.json": ("env_judged", "outcome", "findings", "skipped", "cached"),
}
_EXIT_FACTS = ("code", "signal", "lost", "by", "cpu_s", "max_rss_kib")


def care(folder: RunFolder, detach: str = "", resume_by: str = "") -> int:
    """Look after the run until nothing is left to do; leave at once if another caretaker does."""
    lock = wait_lock(folder.caretaker_lock, _LOCK_WAIT_S)  # whoever merely looks holds it for a moment
    if lock is None:
        return 0
    plan = read_json(folder.plan)
    if plan is None:
        return 1
    me = look(os.getpid())
    who = {"pid": os.getpid(), "started": me.started if me else "", "boot": boot_id()}
    os.ftruncate(lock, 0)
    os.pwrite(lock, ("%(pid)d %(started)s\n" % who).encode(), 0)
    caretaker = Caretaker(folder, plan)
    caretaker.open(who, detach, resume_by)
    caretaker.live()
    if os.path.exists(folder.notify):
        from .nag import begin  # only now: what it imports must not weigh on the caretaker's life

        begin(folder)
    return 0


class Caretaker:
    """The loop over cells, with the journal as its only memory."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any]) -> None:
        self.folder = folder
        self.plan = plan
        self.signals = Wakeups()
        self.journal = Journal(folder.journal)
        self.run: RunState = fold(self.journal.events)
        self.keepers: Dict[int, str] = {}  # keeper pid -> cell
        self.adopts = adopt_orphans()
        self.beat_at = 0.0
        self.money_at = 0.0
        self.stop_deadline: Optional[float] = None
        self.work = WorkClock(folder, plan)
        # The last sign of life before us: what was lost meanwhile ended then, not when we noticed.
        self.heard_unix = float((read_json(folder.status) or {}).get("heartbeat_unix") or 0.0)
        self.downloads = Downloads(folder, plan, self.note)
        self.copy = DurableCopy(folder, list(plan["cells"]), self.note)
        self.watcher = Watcher(folder, plan, self.note)
        self.handbook = Handbook(folder, plan, self.note)

    def open(self, who: Dict[str, Any], detach: str, resume_by: str) -> None:
        """Record that this caretaker took over, and a person's wish to resume."""
        if self.run.seq == 0:
            cells = list(self.plan["cells"])
            self.note("run_opened", plan_sha256=self.plan["plan_sha256"], cells=cells, detach=detach, **who)
        elif resume_by and self.run.state in (FAILED, STOPPED):
            self.note("resumed", by=resume_by, detach=detach, **who)
        elif self.run.terminal:
            return  # respawned while another one was already ending the run: nothing to add to its journal
        else:
            self.note("caretaker_started", detach=detach or self.run.detach, **who)
        linked = link(self.folder, self.folder.platform(), self.plan["cells"])
        if linked is not None:
            self.note("tensorboard_linked", **linked)

    def live(self) -> None:
        """Turn until the run is over."""
        while not self.run.terminal:
            self._reap()
            self._hear_stop()
            self._turn()
            self.heard_unix = 0.0
            with contextlib.suppress(OSError):  # a full disk must not end the watch over a trainer
                self._mind_budget()
            self.watcher.step(self.signals.clear)
            self.handbook.step(self.run)
            self._beat()
            if not self.run.terminal:
                self.signals.sleep(self._pause_s())
        self._beat(force=True)
        self.journal.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder.secrets)  # a resume brings them anew

    def note(self, kind: str, **data: Any) -> None:
        """Journal an event and fold it in."""
        fold([self.journal.append(kind, **data)], into=self.run)
        self._beat(force=True)

    def _turn(self) -> None:
        for name, cell in self.run.cells.items():
            if cell.state in ("starting", "running"):
                self._look(name, cell)
            if cell.state == "ended":
                self._judge(name, cell)
            if cell.state == "pending" and self.run.state == "running":
                if not self._has_data():
                    return
                self._start(name, cell)
            if cell.state in ("starting", "running", "ended"):
                return  # one cell at a time on a card
        self._close()

    def _has_data(self) -> bool:
        """Whether all that the job names is here; what cannot be had ends the run."""
        if self.downloads.step(self.journal.events, self.signals.clear):
            return True
        if self.downloads.problem:
            self.note("run_failed", reason=self.downloads.problem)
        return False

    def _start(self, name: str, cell: CellState) -> None:
        self._end_strays(name)
        self.note("attempt_starting", cell=name, attempt=cell.attempt + 1)
        self._spawn_keeper(name, cell.attempt)

    def _spawn_keeper(self, name: str, attempt: int) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                self.signals.clear()
                os.setsid()
                argv = own_argv("keep", self.folder.path, name, str(attempt))
                os.execv(argv[0], argv)
            finally:
                os._exit(127)
        self.keepers[pid] = name

    def _look(self, name: str, cell: CellState) -> None:
        place = self.folder.attempt(name, cell.attempt)
        held = is_held(self.folder.cell_lock(name))
        if cell.state == "starting":
            started = read_json(os.path.join(place, "started.json"))
            if started is not None:
                self.note("attempt_started", cell=name, attempt=cell.attempt, **started)
        ended = read_json(os.path.join(place, "exit.json"))  # after the lock: keepers write before they let go
        self._note_environment(name, cell, place)  # after the exit: what was judged came before it
        if ended is not None:
            self._note_ended(name, cell, ended)
        elif held or name in self.keepers.values():
            return
        elif os.path.exists(os.path.join(place, "claim")):
            lived = {"ended_unix": self.heard_unix} if self.heard_unix > cell.started_unix > 0 else {}
            self._note_ended(name, cell, dict(lived, lost=True))
        else:  # no keeper ever claimed it: the same attempt may be given to another
            self._spawn_keeper(name, cell.attempt)

    def _note_environment(self, name: str, cell: CellState, place: str) -> None:
        """Journal what the step before the trainer found, once per attempt."""
        if not self.plan["job"].get("setup"):
            return
        for file, (kind, *facts) in _FOUND.items():
            noted = cell.recorded if kind == "env_recorded" else cell.judged
            found = read_json(os.path.join(place, file)) if noted != cell.attempt else None
            if found is not None:
                known = {key: found[key] for key in facts if key in found}
                self.note(kind, cell=name, attempt=cell.attempt, **known)

    def _note_ended(self, name: str, cell: CellState, record: Dict[str, Any]) -> None:
        facts: Dict[str, Any] = {key: record[key] for key in _EXIT_FACTS if key in record}
        if "ended_unix" in record:
            facts["at"] = record["ended_unix"]
        self.note("attempt_ended", cell=name, attempt=cell.attempt, **facts)

    def _judge(self, name: str, cell: CellState) -> None:
        hooked = None if cell.lost else self._hook_failed(name, cell)
        if hooked is not None and self.run.state != "stopping":
            self.note("hook_failed", cell=name, attempt=cell.attempt, **hooked)
            self.note("cell_failed", cell=name, attempt=cell.attempt, why=say_hook(hooked))
        elif cell.code == 0 and hooked is None:
            self.note("cell_finished", cell=name, attempt=cell.attempt)
        elif self.run.state == "stopping":
            return
        elif (cell.lost or cell.signal is not None) and cell.tries < self.plan["attempts"]:
            why = "exit unknown" if cell.lost else "ended by signal %s" % cell.signal
            self.note("cell_pending", cell=name, why=why + "; same command again, from its last checkpoint")
        else:
            self.note("cell_failed", cell=name, attempt=cell.attempt, why=_failure(cell))

    def _hook_failed(self, name: str, cell: CellState) -> Optional[Dict[str, Any]]:
        log = os.path.join(self.folder.attempt(name, cell.attempt), "log")
        return hook_failed(self.folder.hook_due(name, cell.attempt), cell.code, log)

    def _close(self) -> None:
        if self.run.state == "stopping" and any(c.state != FINISHED for c in self.run.cells.values()):
            by_budget = (read_json(self.folder.stop) or {}).get("by") == "budget"
            self.note("run_stopped", reason="its budget is used up" if by_budget else "stopped on request")
            return
        failed = [name for name, cell in self.run.cells.items() if cell.state == FAILED]
        if failed:
            reasons = "; ".join("%s: %s" % (name, _failure(self.run.cells[name])) for name in failed)
            self.note("run_failed", reason=reasons)
        elif all(cell.state == FINISHED for cell in self.run.cells.values()):
            self._close_finished()

    def _close_finished(self) -> None:
        """Training is done; the run is finished when its results also lie where they outlive the box."""
        if not self._has_data():  # a run without cells only fetches
            return
        if self.run.state == "stopping" and self.copy.under_way:
            self.copy.end()
            self.note("run_stopped", reason="stopped before its results were on the durable tier")
        elif self.copy.step(self.signals.clear):
            if self.copy.problem:
                self.note("run_failed", reason=self.copy.problem)
            else:
                self.note("run_finished")

    def _hear_stop(self) -> None:
        wish = read_json(self.folder.stop)
        if wish is not None and wish.get("id") not in self.run.stops:
            self.note("stop_requested", id=wish.get("id"), by=wish.get("by", ""), grace_s=wish.get("grace_s", 30))
            self.stop_deadline = None
        if self.run.state == "stopping":
            self.downloads.end()
            self._enforce_stop(float((wish or {}).get("grace_s", 30)))

    def _mind_budget(self) -> None:
        """Tell each threshold once; at the limit stop the run as `lease stop` does, if the job says so."""
        if self.run.state != "running" or time.monotonic() - self.money_at < _BUDGET_EVERY_S:
            return
        self.money_at = time.monotonic()
        budget = allowance.Allowance.read(self.folder)
        percent = budget.passed(time.time()) if budget else 0
        if budget is None or not percent:
            return
        if percent > allowance.told(self.journal.events, budget.name):
            facts = budget.facts(percent, time.time())
            self.note("budget_reached" if percent >= 100 else "budget_warned", **facts)
        if percent >= 100 and budget.at_limit == "stop":
            writes_s = float(self.plan["job"].get("checkpoint", {}).get("write_s") or 0.0)
            grace_s = max(_BUDGET_GRACE_S, 2 * writes_s)
            request_stop(self.folder, {"id": "budget-%d" % self.run.seq, "by": "budget", "grace_s": grace_s})

    def _enforce_stop(self, grace_s: float) -> None:
        for name, cell in self.run.cells.items():
            if cell.state == "ended":
                self._close()
                return
            if cell.state != "running":
                continue
            alive = trainer_processes(cell.pid, cell.started, self.folder.mark(name, cell.attempt))
            if self.stop_deadline is None:
                self.stop_deadline = time.monotonic() + grace_s
                signal_all(alive, cell.pid, signal.SIGTERM)
            elif time.monotonic() > self.stop_deadline:
                signal_all(alive, cell.pid, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.watcher.reaped(pid, status)
            if self.keepers.pop(pid, None) is None:
                self._adopted_exit(pid, status)

    def _adopted_exit(self, pid: int, status: int) -> None:
        """Write the exit of a trainer whose keeper died: the kernel gave it to us."""
        for name, cell in self.run.cells.items():
            place = self.folder.attempt(name, cell.attempt)
            started = read_json(os.path.join(place, "started.json"))
            if cell.state in ("starting", "running") and started and started["pid"] == pid:
                write_exit(place, exit_record(status, "caretaker"))

    def _end_strays(self, name: str) -> None:
        """End what an earlier attempt left behind, or the new one would write beside it."""
        strays = marked(self.folder.mark(name))
        if not strays:
            return
        self.note("strays_ended", cell=name, pids=[process.pid for process in strays])
        end_processes(0, "", self.folder.mark(name), _STRAY_GRACE_S)

    def _pause_s(self) -> float:
        if self.run.state == "stopping":
            return _STOPPING_TICK_S
        starting = any(cell.state == "starting" for cell in self.run.cells.values())
        return _STARTING_TICK_S if starting else _TICK_S

    def _beat(self, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self.beat_at < _HEARTBEAT_S:
            return
        self.beat_at = now
        value = self.run.as_dict()
        value.update({"run": self.folder.run, "heartbeat_unix": round(time.time(), 3), "caretaker_pid": os.getpid()})
        value["work"] = self.work.figures(self.journal.events, self.run, time.time())
        try:
            write_json(self.folder.status, value, durable=False)
        except OSError:  # a full disk must not end the watch; the journal stays the record
            return


def caretaker_identity(folder: RunFolder) -> Optional[List[str]]:
    """Return [pid, started] of the live caretaker, or None."""
    if not is_held(folder.caretaker_lock):
        return None
    with open(folder.caretaker_lock) as file:
        words = file.read().split(None, 1)
    return [words[0], words[1].strip()] if len(words) == 2 else None


def request_stop(folder: RunFolder, wish: Dict[str, Any]) -> None:
    """Leave a wish to stop where the caretaker will find it, also after its own death."""
    import json

    write_atomic(folder.stop, json.dumps(wish).encode())


def _failure(cell: CellState) -> str:
    if cell.why:
        return cell.why
    if cell.refused:
        return "the env gate refused after set-up: %s" % cell.refused
    if cell.lost:
        return "attempt %d vanished without an exit record" % cell.attempt
    if cell.signal is not None:
        return "attempt %d was ended by signal %d" % (cell.attempt, cell.signal)
    return "attempt %d exited with code %s" % (cell.attempt, cell.code)
