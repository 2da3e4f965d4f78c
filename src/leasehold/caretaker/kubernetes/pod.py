"""Process 1 of a Job's pod: start the run's caretaker when home orders it, or when an earlier pod left it unfinished.

It reaps orphans, passes SIGTERM on, ends everything when a later pod takes over, and leaves once the run has ended
and nobody reads it any more: a pod that stays keeps its cards.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, List, Mapping, Optional

from leasehold.caretaker.process.end_processes import end_processes
from leasehold.caretaker.process.locks import Superseded, is_held
from leasehold.caretaker.process.own_command import own_argv
from leasehold.caretaker.run.lock_owner import caretaker_identity
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files import journal
from leasehold.kit.files.atomic import read_json
from leasehold.kit.run.run_state import RunState, fold
from leasehold.kit.run.run_states import FAILED

from .epoch import VARIABLE, Epoch, pods_folder

SECRETS = "/run/leasehold/secrets/values.json"  # where the Secret is mounted
ORDER, ENTRY = "order.json", "entry"
_TICK_S = 0.1
_BEAT_S = 2.0
_STATE_S = 0.5
_UNREAD_S = 15.0  # after the end: home may be opening its next connection
_READ_S = 600.0
_NO_ORDER_S = 900.0
_RESPAWN_S = 2.0
_TAKEN_OVER, _RUN_FAILED, _SIGNALLED = 75, 3, 143


def pod(folder: RunFolder, environ: Mapping[str, str]) -> int:
    """Work until the run is over; return the exit code for Kubernetes."""
    run = folder.run
    try:
        epoch = Epoch.take(folder, environ)
    except Superseded:
        return _say("a later pod works on %s" % run, _TAKEN_OVER)
    _say("epoch %d of %s" % (epoch.number, run), 0)
    process = PodProcess(folder, epoch, dict(environ, **{VARIABLE: str(epoch.number)}))
    try:
        return process.live()
    except Superseded:
        process.end_all()
        epoch.leave("a later pod took over")
        return _say("a later pod took %s over; everything here was ended" % run, _TAKEN_OVER)


class PodProcess:
    """The loop."""

    def __init__(self, folder: RunFolder, epoch: Epoch, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.epoch = epoch
        self._environ = environ
        self._order = os.path.join(pods_folder(folder), ORDER)
        self._terminated = False
        self._told = False
        self._run: Optional[RunState] = None
        self._journal_size = -1
        self._spawned_at = float("-inf")
        self._idle_since = self._ended_at = time.monotonic()
        signal.signal(signal.SIGTERM, self._on_terminate)

    def live(self) -> int:
        """Loop until there is nothing left to do here."""
        beat_at = state_at = 0.0
        while True:
            now = time.monotonic()
            self._reap()
            if now >= beat_at:
                beat_at = now + _BEAT_S
                self.epoch.beat()
            self.epoch.check()
            self._take_order()
            if now >= state_at:
                state_at = now + _STATE_S
                self._look()
                code = self._leaves(now)
                if code is not None:
                    self.epoch.leave("left with %d" % code)
                    return code
            time.sleep(_TICK_S)

    def end_all(self) -> None:
        """End every process of the run in this pod, without grace: another pod works on it."""
        who = caretaker_identity(self.folder)
        if who is not None:
            with contextlib.suppress(OSError):
                os.kill(int(who[0]), signal.SIGKILL)
        end_processes(0, "", self.folder.mark(), 0.0)

    def _on_terminate(self, number: int, frame: Any) -> None:
        self._terminated = True

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _take_order(self) -> None:
        order = read_json(self._order)
        if order is None:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._order)
        self._spawn([str(word) for word in order["argv"]])
        self._journal_size = -1

    def _look(self) -> None:
        """Read the journal where it grew; continue an unfinished run that nobody cares for."""
        try:
            size = os.stat(self.folder.journal).st_size
        except FileNotFoundError:
            return
        if size != self._journal_size:
            self._journal_size = size
            self._run = fold(journal.read_from(self.folder.journal, 0)[0])
        run = self._run
        assert run is not None
        if run.terminal:
            return
        self._ended_at = time.monotonic()
        if self._terminated and not self._told:
            self._tell_caretaker()
        due = time.monotonic() - self._spawned_at > _RESPAWN_S
        if run.seq and not self._terminated and due and not is_held(self.folder.caretaker_lock):
            self._spawn(own_argv("care", self.folder.path, "k8s-job", ""))

    def _tell_caretaker(self) -> None:
        who = caretaker_identity(self.folder)
        if who is not None:
            with contextlib.suppress(OSError):
                os.kill(int(who[0]), signal.SIGTERM)
                self._told = True

    def _leaves(self, now: float) -> Optional[int]:
        run = self._run
        if run is None or not run.seq:
            waited = now - self._idle_since > _NO_ORDER_S
            return _say("no order came from home; leaving", 0) if waited else (_SIGNALLED if self._terminated else None)
        if self._terminated and (run.terminal or not self._at_work(run)):
            return _SIGNALLED if not run.terminal else self._verdict(run)
        if not run.terminal or is_held(self.folder.caretaker_lock):
            return None
        idle_s = now - self._ended_at
        if idle_s > _READ_S or idle_s > _UNREAD_S and not _is_read(self.folder.root):
            return self._verdict(run)
        return None

    def _verdict(self, run: RunState) -> int:
        return _RUN_FAILED if run.state == FAILED else 0

    def _at_work(self, run: RunState) -> bool:
        """Return whether a trainer uses its grace."""
        live = [name for name, cell in run.cells.items() if cell.state in ("starting", "running")]
        return not self._told or any(is_held(self.folder.cell_lock(name)) for name in live)

    def _spawn(self, argv: List[str]) -> None:
        self._spawned_at = time.monotonic()
        _place_secrets(self.folder)
        with open(os.path.join(self.folder.path, "caretaker.err"), "ab") as words:
            subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words, env=dict(self._environ),
                start_new_session=True, cwd="/",
            )  # fmt: skip


def _place_secrets(folder: RunFolder) -> None:
    """Put the mounted values where attempts read them: a new pod has an empty private folder."""
    if not os.path.exists(SECRETS) or os.path.exists(folder.secrets):
        return
    os.makedirs(os.path.dirname(folder.secrets), mode=0o700, exist_ok=True)
    partial = folder.secrets + ".partial"
    shutil.copyfile(SECRETS, partial)
    os.chmod(partial, 0o600)
    os.replace(partial, folder.secrets)


def _is_read(root: str) -> bool:
    """Return whether a connection from home is open."""
    wanted = b"\0serve\0" + os.fsencode(root) + b"\0"
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open("/proc/%s/cmdline" % name, "rb") as file:
                if wanted in file.read():
                    return True
    return False


def _say(text: str, code: int) -> int:
    sys.stdout.write("leasehold: %s\n" % text)
    sys.stdout.flush()
    return code
