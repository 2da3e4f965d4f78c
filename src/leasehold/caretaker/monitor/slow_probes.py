"""Run probes that may hang (a driver, a network disk) or cost much (its library) in short-lived children.

The more an answer costs, the less often it is requested; a probe that hung is left out for a while.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from leasehold.caretaker.process.child import PipeReader, close_all_but, fork_child
from leasehold.kit.files.atomic import write_all
from leasehold.kit.run.processes import look

EVERY_S = 15.0
_COST_SHARE = 0.002  # of a core, at most, for one probe
_SELDOM_S = 600.0  # between two runs of a probe that cost much, hung, or gave no answer
_HANGS_S = 30.0
_MOST_BYTES = 1 << 20

Ask = Callable[[], Any]


class Heard(NamedTuple):
    """One answer; without a value, the child died over it or it hung."""

    name: str
    value: Any = None
    cost_s: float = 0.0
    hung: bool = False


class Asking:
    """Schedules the probes; at most one child at a time, even when one can never be ended."""

    def __init__(self, questions: Dict[str, Ask]) -> None:
        self._questions = questions
        self._due_s = {name: float("-inf") for name in questions}
        self._child: Optional[_Child] = None
        self._stuck = 0  # a child that even SIGKILL does not end, while the kernel waits for a card or a disk

    def step(self, now_s: float, before: Callable[[], None]) -> List[Heard]:
        """Start the probes that are due and return the answers since the last call; never wait."""
        if self._child is None:
            due = {name: self._questions[name] for name in self._questions if now_s >= self._due_s[name]}
            if due and not self._still_stuck():
                self._child = _Child(due, now_s, before)
            return []
        heard = self._child.hear()
        if self._child.over:
            self._child = None
        elif now_s - self._child.begun_s > _HANGS_S:
            if self._child.doing:  # otherwise it has not reached a probe yet, and none is to blame
                heard.append(Heard(self._child.doing, hung=True))
            self._stuck = self._child.abandon()
            self._child = None
        for one in heard:
            usual_s = max(EVERY_S, min(one.cost_s / _COST_SHARE, _SELDOM_S))
            self._due_s[one.name] = now_s + (_SELDOM_S if one.value is None else usual_s)
        return heard

    def put_off(self, name: str, now_s: float) -> None:
        """Run this probe less often: it has no answer."""
        self._due_s[name] = now_s + _SELDOM_S

    def end(self) -> None:
        """End the child, if there is one."""
        if self._child is not None:
            self._child.abandon()
        self._child = None

    def _still_stuck(self) -> bool:
        process = look(self._stuck) if self._stuck else None
        if process is None or process.gone:
            self._stuck = 0
        return bool(self._stuck)


class _Child:
    """One forked child and its pipe; the pipe's end shows its death, whichever process reaps it."""

    def __init__(self, questions: Dict[str, Ask], begun_s: float, before: Callable[[], None]) -> None:
        self.begun_s, self.doing, self.over = begun_s, "", False
        reader, tell = os.pipe()
        self._pid = fork_child(before, lambda: _ask_all(questions, tell))
        os.close(tell)
        self._pipe = PipeReader(reader, _MOST_BYTES)

    def hear(self) -> List[Heard]:
        """Read the answers that came; at the end of the pipe, also report the probe it died over."""
        said = [json.loads(line) for line in self._pipe.take_lines()]
        answers = []
        for one in said:
            self.doing = str(one.get("doing", ""))
            if "heard" in one:
                answers.append(Heard(*one["heard"]))
        self.over = self._pipe.ended
        if self.over:
            self._pipe.close()
            self._reap()
            answers += [Heard(self.doing)] if self.doing else []
        return answers

    def abandon(self) -> int:
        """Kill it and what it started; return its pid, for the kernel may not let it die."""
        self._pipe.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        self._reap()
        return self._pid

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):  # the caretaker's own loop reaped it first
            os.waitpid(self._pid, os.WNOHANG)


def _ask_all(questions: Dict[str, Ask], tell: int) -> None:
    """Name each probe before running it, so that the parent knows which one hung."""
    close_all_but([tell])
    for name, ask in questions.items():
        _tell(tell, {"doing": name})
        begun_s = time.process_time()
        value = ask()
        _tell(tell, {"heard": [name, value, round(time.process_time() - begun_s, 4)]})


def _tell(fd: int, value: Dict[str, Any]) -> None:
    write_all(fd, json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n")
