"""The small parent process of one attempt.

Five steps: take the cell's lock; claim the attempt; start the trainer in its own session with the lock
inherited; wait, and respawn a dead caretaker; write the exit record. The lock lives as long as keeper or
trainer does, so no second trainer of a cell can start while one runs, whichever process died in between.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from leasehold.caretaker.process.child import fork_child, use_streams
from leasehold.caretaker.process.end_processes import end_processes
from leasehold.caretaker.process.locks import is_held, wait_lock
from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run import disk_reserve
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.run.processes import MARK, boot_id, look
from leasehold.kit.run.subreaper import adopt_orphans
from leasehold.kit.startup.typing_stub import unhinted

if TYPE_CHECKING:
    import resource

_ROOM = ".room"  # an inode and a block, reserved for the exit record
_ROOM_BYTES = 4096
_LOCK_WAIT_S = 2.0
_CARETAKER_CHECK_S = 2.0
_LEFTOVER_GRACE_S = 5.0


class Attempt(NamedTuple):
    """Number of the attempt, its cell, and the command (stage) that it runs."""

    cell: str
    number: int
    stage: str = "train"
    cards: str = ""  # those of this cell on a box with several cards


class Kept(NamedTuple):
    """An attempt that we own: the cell's lock, and its trainer once there is one."""

    what: Attempt
    lock: int
    pid: int = 0
    begun_s: float = 0.0  # monotonic


def keep(folder: RunFolder, cell: str, attempt: int, *how: str) -> int:
    """Run one attempt; a second keeper for the same attempt does nothing. `how`: stage and cards."""
    signals = Wakeups()
    what = Attempt(cell, attempt, *how)
    lock = _take(folder, what)
    if lock is None:
        return 0
    plan = folder.read_plan()
    if plan is None:
        return 1
    if plan.get("adopted"):
        return _keep_adopted(folder, plan["adopted"], what, signals)
    with contextlib.suppress(OSError):  # a trainer may fill a disk before the caretaker has its reserve
        disk_reserve.make(os.path.join(folder.attempt(cell, attempt), _ROOM), _ROOM_BYTES)
    kept = _start(folder, plan, Kept(what, lock), signals.clear)
    ended = _wait(folder, kept.pid, signals)
    end(folder, kept, *ended, below=os.getpid())
    if folder.respawns and not is_held(folder.caretaker_lock):
        respawn_caretaker(folder)
    return 0


def begin(folder: RunFolder, plan: Dict[str, Any], what: Attempt, before_exec: Callable[[], None]) -> Optional["Kept"]:
    """Start an attempt's trainer as a child of the caller, who must `end` it; None when another process has it."""
    lock = _take(folder, what)
    return None if lock is None else _start(folder, plan, Kept(what, lock), before_exec)


def end(
    folder: RunFolder, kept: "Kept", status: int, usage: "resource.struct_rusage", told: bool = False, below: int = 0
) -> None:
    """Record how a trainer exited, once nothing of it is left, and release its cell."""
    record = exit_record(status, "keeper")
    record["cpu_s"] = round(usage.ru_utime + usage.ru_stime, 3)
    record["max_rss_kib"] = usage.ru_maxrss
    record.update({"told": True} if told else {})
    record["ran_s"] = round(time.monotonic() - kept.begun_s, 3)
    cell, attempt = kept.what.cell, kept.what.number
    record["leftovers"] = end_processes(kept.pid, "", folder.mark(cell, attempt), _LEFTOVER_GRACE_S, below)
    write_exit(folder, folder.attempt(cell, attempt), record)
    os.close(kept.lock)


def _keep_adopted(folder: RunFolder, adopted: Dict[str, Any], what: Attempt, signals: "Wakeups") -> int:
    """Watch a trainer that was started elsewhere; never end any process of it."""
    from .adopted import watch_adopted  # few runs are

    place = folder.attempt(what.cell, what.number)

    def pause(seconds: float) -> None:
        signals.terminate = False
        signals.sleep(seconds)
        if not is_held(folder.caretaker_lock):
            respawn_caretaker(folder)

    write_exit(folder, place, watch_adopted(place, adopted, what.number, pause))
    if not is_held(folder.caretaker_lock):
        respawn_caretaker(folder)
    return 0


def write_exit(folder: RunFolder, place: str, record: Dict[str, Any]) -> None:
    """Write the attempt's exit record once; the first writer is the one that saw the exit."""
    path, room = os.path.join(place, "exit.json"), os.path.join(place, _ROOM)
    if not os.path.exists(path):
        try:
            disk_reserve.with_room(folder, lambda: write_json(path, record))
        except OSError:  # the disk was full before the run had a reserve
            os.unlink(room)
            write_json(path, record)
    with contextlib.suppress(OSError):
        os.unlink(room)


def exit_record(status: int, by: str) -> Dict[str, Any]:
    """Convert a wait status: the child's own code, or the signal that ended it."""
    by_signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    if by_signal is None and code is not None and 128 < code <= 192:
        by_signal = code - 128  # a shell reports that its child died of a signal
    return {"code": code, "signal": by_signal, "ended_unix": round(time.time(), 3), "by": by}


def respawn_caretaker(folder: RunFolder, adopts: bool = False) -> None:
    """Start a caretaker in its own session; if one is alive, the new one exits at once."""
    adopt_orphans(False)  # not as our child: whatever is below us is the trainer's
    child = fork_child(lambda: None, lambda: os.fork() or os.execv(sys.executable, own_argv("care", folder.address)))
    os.waitpid(child, 0)
    if adopts:
        adopt_orphans()


class Wakeups:
    """Sleep that SIGCHLD and SIGTERM interrupt; the handlers only record the signal."""

    def __init__(self) -> None:
        self.terminate = False
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self._reader = reader
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGUSR1, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._note_terminate)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def sleep(self, seconds: float) -> None:
        """Wait until a signal comes or the time is up."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 4096)

    def clear(self) -> None:
        """Restore the default handlers, in a child before exec."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)

    def _note_terminate(self, number: int, frame: Any) -> None:
        self.terminate = True


def _take(folder: RunFolder, what: Attempt) -> Optional[int]:
    """Take the cell's lock and claim the attempt; return the lock, or None when another process has it."""
    lock = wait_lock(folder.cell_lock(what.cell), _LOCK_WAIT_S)
    if lock is None:
        return None
    place = folder.attempt(what.cell, what.number)
    os.makedirs(place, exist_ok=True)
    if _claim(place):
        return lock
    os.close(lock)
    return None


def _start(folder: RunFolder, plan: Dict[str, Any], kept: Kept, before_exec: Callable[[], None]) -> Kept:
    log = os.path.join(folder.attempt(kept.what.cell, kept.what.number), "log")
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    pid = fork_child(before_exec, lambda: _become_trainer(folder, plan, kept.what, kept.lock, fd))
    os.close(fd)
    return kept._replace(pid=pid, begun_s=time.monotonic())


def _claim(place: str) -> bool:
    try:
        fd = os.open(os.path.join(place, "claim"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    os.write(fd, b"%d\n" % os.getpid())
    os.fsync(fd)
    os.close(fd)
    return True


def _become_trainer(folder: RunFolder, plan: Dict[str, Any], what: Attempt, lock: int, log: int) -> None:
    try:
        use_streams(stdout=log, stderr=log)
        os.set_inheritable(lock, True)
        os.chdir(folder.work(what.cell))
        with unhinted():
            from leasehold.caretaker.machine import limits  # noqa: F401 - here: what these weigh ends with the exec
            from leasehold.caretaker.run.interruptions import gap_s

            from .platform_shell import outfit_of

        own = dict(own_variables(folder, plan["job"], what), **_latest(folder, plan["job"], what))
        outfit = outfit_of(folder, plan, dict(own, LEASE_GAP_S="%.0f" % gap_s(folder, time.time())))
        command = _command(folder, plan, what)
        dressed = outfit.dress(command, own_argv("settle"), folder.hook_due(what.cell, what.number))
        _write_started(folder.attempt(what.cell, what.number))
        os.execve(dressed.argv[0], dressed.argv, dressed.environ)
    except BaseException as error:  # noqa: BLE001 - a forked child must end here, whatever happened
        os.write(2, ("leasehold: the trainer could not be started: %r\n" % (error,)).encode())
    finally:
        os._exit(127)


def _command(folder: RunFolder, plan: Dict[str, Any], what: Attempt) -> List[str]:
    """Build the shell's arguments: set-up and its gate once per working copy, then the job's own command line."""
    job = plan["job"]
    line = job["evaluate"] if what.stage == "evaluate" else job["run"]
    if (plan.get("slurm") or {}).get("image"):
        from .container import in_image

        return in_image(folder, plan, what.cell, line)
    if not job.get("setup") and not (read_json(folder.gate) or {}).get("own"):
        return ["/bin/sh", "-c", line]
    step = own_argv("ready", folder.path, what.cell, str(what.number))
    return ["/bin/sh", "-c", _WITH_SETUP, "sh", line, folder.env_passed(what.cell), *step]


_WITH_SETUP = 'run=$1 passed=$2; shift 2; [ -e "$passed" ] || "$@" || exit $?; exec sh -c "$run"'


def own_variables(folder: RunFolder, job: Dict[str, Any], what: Attempt) -> Dict[str, str]:
    """Return the variables that only we may set for the trainer."""
    return {
        **parameters(job, what.cell),
        **({"CUDA_VISIBLE_DEVICES": what.cards} if what.cards else {}),
        "LEASE_RUN": folder.run,
        "LEASE_CELL": what.cell,
        "LEASE_ATTEMPT": str(what.number),
        "LEASE_OUT": folder.out(what.cell),
        "LEASE_DATA": folder.data,
        **({"LEASE_INPUTS": folder.inputs} if job.get("data") else {}),
        "LEASE_SAVE_REQUEST": folder.save_request(what.cell),
        MARK: folder.mark(what.cell, what.number),
    }


def _latest(folder: RunFolder, job: Dict[str, Any], what: Attempt) -> Dict[str, str]:
    """Find the checkpoints that the job's commands resume from, and write to its log which they are."""
    if not job.get("latest"):
        return {}
    from leasehold.kit.files.newest_checkpoint import variables  # few jobs need it
    from leasehold.kit.text.safe_text import one_line

    values, said = variables(folder.out(what.cell), job["latest"])
    os.write(1, "".join("leasehold: %s\n" % one_line(line) for line in said).encode("utf-8", "replace"))
    return values


def parameters(job: Dict[str, Any], cell: str) -> Dict[str, str]:
    """Return a cell's parameters for its trainer: one variable each, and all of them as JSON."""
    for one in job.get("cells") or []:
        if one["name"] == cell:
            import json

            each = {"LEASE_PARAM_" + key: _spell(value) for key, value in one["params"].items()}
            return dict(each, LEASE_PARAMS=json.dumps(one["params"], ensure_ascii=False))
    return {}


def _spell(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _write_started(place: str) -> None:
    from leasehold.caretaker.machine.limits import oom_kills  # already imported by platform_shell

    me = look(os.getpid())
    facts = {"pid": os.getpid(), "started": me.started if me else "", "at": round(time.time(), 3)}
    # Baseline for the failure ladder if the process vanishes.
    facts.update(boot=boot_id(), up_s=round(time.monotonic(), 3), oom_kills=oom_kills())
    # Not synced: after a power cut no process matches it, and the journal has the fact by then.
    write_json(os.path.join(place, "started.json"), facts, durable=False)


def _wait(folder: RunFolder, pid: int, signals: Wakeups) -> Tuple[int, "resource.struct_rusage", bool]:
    """Wait for the trainer's exit; return its status, its resource use, and whether SIGTERM was passed on to it."""
    told = False
    pause_s = _CARETAKER_CHECK_S
    next_check = time.monotonic() + pause_s
    while True:
        done, status, usage = os.wait4(-1, os.WNOHANG)
        if done == pid:
            return status, usage, told
        if done:  # an orphan of the trainer, which the kernel reparented to us
            continue
        if signals.terminate:  # the box is shutting down: pass it on, then keep waiting for the real exit
            signals.terminate = False
            told = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGTERM)
        signals.sleep(max(0.0, next_check - time.monotonic()))
        if time.monotonic() >= next_check:
            if not folder.respawns or is_held(folder.caretaker_lock):
                pause_s = _CARETAKER_CHECK_S
            else:
                respawn_caretaker(folder, adopts=True)
                pause_s = min(pause_s * 2, 60.0)
            next_check = time.monotonic() + pause_s
