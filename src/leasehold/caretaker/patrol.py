"""The caretaker's side of the patrol: keep the sampling process alive, hear it, raise and clear alarms."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from leasehold.kit.atomic import write_atomic
from leasehold.kit.procs import look
from leasehold.kit.runstate import RunState

from .alarms import ALARM, Alarms, Memory, Sign, signs_of
from .layout import RunFolder
from .worker import close_all_but

_READ_BYTES = 1 << 16
_MOST_REST_BYTES = 1 << 18
_SILENT_S = 45.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 600.0
_LEAVE_OUT_S = 600.0  # what hung is asked again after this
_MOST_STUCK = 4  # processes that even SIGKILL does not end, because the kernel waits for a disk


class Patrol:
    """Never raises: readings are a comfort, and the watch over the trainer must not end with them."""

    def __init__(self, folder: RunFolder, plan: Dict[str, Any], note: Callable[..., None]) -> None:
        self._folder, self._plan, self._note = folder, plan, note
        self._alarms: Optional[Alarms] = None
        self._memory = Memory()
        self._facts: Dict[str, Any] = {}
        self._child: Optional[_Child] = None
        self._again_s, self._pause_s = 0.0, _FIRST_PAUSE_S
        self._left_out: Dict[str, float] = {}  # what hung, and until when it is not asked
        self._stuck: List[int] = []

    def step(self, run: RunState, known: Iterable[Dict[str, Any]], before: Callable[[], None]) -> None:
        """Go on with it: a child that samples, what it said, what that means."""
        with contextlib.suppress(OSError):  # a full disk or no more processes; the next turn tries again
            self._alarms = self._alarms or Alarms(known)
            if self._child is None:
                self._start(before)
            if self._child is None:
                return
            self._child.aim(run, self._alarms.names)
            for facts in self._child.hear():
                self._pause_s = _FIRST_PAUSE_S
                self._facts = facts
                self._alarms.judge(signs_of(facts, self._memory), self._note)
                self._alarms.judge([_silence("", True)], self._note)
            if self._child.silent_s > _SILENT_S or self._child.gone:
                self._replace(self._child)

    def facts(self) -> Dict[str, Any]:
        """The last sample, as it was told; empty before the first."""
        return self._facts

    @property
    def alarms(self) -> List[str]:
        """The alarms that stand."""
        return self._alarms.names if self._alarms else []

    @property
    def pid(self) -> int:
        """The process that samples; 0 while there is none."""
        return self._child.pid if self._child is not None else 0

    def end(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.end()
        self._child = None

    def _start(self, before: Callable[[], None]) -> None:
        now_s = time.monotonic()
        self._stuck = [pid for pid in self._stuck if _lives(pid)]
        if now_s < self._again_s or len(self._stuck) >= _MOST_STUCK:
            return
        self._left_out = {what: until_s for what, until_s in self._left_out.items() if until_s > now_s}
        self._child = _Child(self._folder, self._plan, list(self._left_out), before)

    def _replace(self, child: "_Child") -> None:
        """End a child that hangs or died; what it asked last is left out for a while if it hung there."""
        self._child = None
        child.end()
        if not child.gone:
            self._left_out[child.doing] = time.monotonic() + _LEAVE_OUT_S
            self._stuck.append(child.pid)
            assert self._alarms is not None
            self._alarms.judge([_silence(child.doing, False)], self._note)
        self._again_s = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


def _silence(doing: str, over: bool) -> Sign:
    what = "%s does not answer" % (doing or "the patrol")
    seen = "readings come again" if over else "no reading for %d s while asking: %s" % (_SILENT_S, doing or "nothing")
    hint = "training may hang on it too; a network disk whose server is gone looks like this"
    return Sign("readings", "", not over, over, ALARM, what, seen, hint)


class _Child:
    """The forked sampler, seen from its parent. Forked, not started anew: it shares our pages."""

    def __init__(
        self, folder: RunFolder, plan: Dict[str, Any], left_out: List[str], before: Callable[[], None]
    ) -> None:
        hear, self._up = os.pipe()
        self._heard, tell = os.pipe()
        getattr(gc, "freeze", lambda: None)()  # so that the collector does not write to pages we share
        self.pid = os.fork()
        if self.pid == 0:
            _become_sampler(folder, plan, left_out, (hear, tell), before)
        os.close(hear)
        os.close(tell)
        os.set_blocking(self._heard, False)
        os.set_blocking(self._up, False)
        self.doing, self.gone = "", False
        self._rest, self._aim = b"", b""
        self._word_s = time.monotonic()

    @property
    def silent_s(self) -> float:
        """How long it has said nothing."""
        return time.monotonic() - self._word_s

    def aim(self, run: RunState, alarms: List[str]) -> None:
        """Tell it which attempt runs, when that changed."""
        word: Dict[str, Any] = {"state": run.state, "alarms": alarms}
        for name, cell in run.cells.items():
            if cell.state in ("starting", "running"):
                word.update(cell=name, attempt=cell.attempt, pid=cell.pid, started=cell.started)
        line = json.dumps(word).encode() + b"\n"
        if line != self._aim:
            with contextlib.suppress(OSError):  # it hangs or is gone, which others notice
                os.write(self._up, line)
                self._aim = line

    def hear(self) -> List[Dict[str, Any]]:
        """Take the samples it told since the last call."""
        samples = []
        for line in self._lines():
            value = json.loads(line)
            self.doing = value.get("doing", "")
            if "t" in value:
                samples.append(value)
        return samples

    def end(self) -> None:
        """End it; the kernel may take its time."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._up)
        os.close(self._heard)

    def _lines(self) -> List[bytes]:
        try:
            chunk = os.read(self._heard, _READ_BYTES)
        except BlockingIOError:
            return []
        if not chunk:
            self.gone = True
            return []
        self._word_s = time.monotonic()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-_MOST_REST_BYTES:]
        return lines


def _become_sampler(
    folder: RunFolder, plan: Dict[str, Any], left_out: List[str], pipes: Any, before: Callable[[], None]
) -> None:
    try:
        before()
        os.setsid()
        close_all_but(pipes)
        from .sampler import Pipes, live  # only here: what it imports must not weigh on the caretaker

        live(folder, plan, Pipes(*pipes), left_out)
    except BrokenPipeError:  # the caretaker is gone, and so are we
        pass
    except BaseException:  # noqa: BLE001 - a forked child must end here; its parent sees the pipe close
        _leave_word(folder)
    finally:
        os._exit(0)


def _leave_word(folder: RunFolder) -> None:
    """Keep why the sampler died, for whoever looks; the pipe's end says that it did."""
    import traceback

    with contextlib.suppress(OSError):
        write_atomic(os.path.join(folder.readings, "error.txt"), traceback.format_exc().encode(), durable=False)


def _lives(pid: int) -> bool:
    process = look(pid)
    return process is not None and not process.gone
