"""Start a confined process, send it one request and take bounded answers within a time limit."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import IO, Protocol

_MAX_LINE_BYTES = 32 * 1024 * 1024  # 10,000 keys of 256 characters, every one escaped, fit
_LAST_BREATH_S = 5.0
_Line = bytes | None  # None: the output ended


@dataclass(frozen=True)
class Child:
    """A program to start, its whole environment, and its time limits: to begin, and between two answers."""

    command: list[str]
    environment: dict[str, str]
    start_s: float
    wall_s: float


@dataclass
class Conversation:
    """The answers. `ending` gives the reason in words when fewer came than were requested."""

    confinement: tuple[str, ...] = ()
    answers: list[dict[str, object]] = field(default_factory=list)
    absent: str = ""
    ending: str = ""


def converse(child: Child, question: dict[str, object], answers: int) -> Conversation:
    """Send the request, and collect `answers` JSON lines; this returns whatever the child does."""
    talk = Conversation()
    with tempfile.TemporaryFile() as stdin:
        stdin.write(json.dumps(question).encode())
        stdin.seek(0)
        try:
            process = _start(child, stdin)
        except OSError as error:
            talk.ending = f"could not be started: {child.command[0]}: {error.strerror}"
            return talk
    hear(talk, process, answers, child)
    return talk


class Speaker(Protocol):
    """A process in its own session that talks through a pipe; Popen is one."""

    pid: int
    returncode: int | None

    @property
    def stdout(self) -> IO[bytes] | None:
        """Return its output."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit; raise TimeoutExpired when it does not come."""

    def kill(self) -> None:
        """End it; do nothing if it has ended."""


def hear(talk: Conversation, process: Speaker, answers: int, child: Child) -> None:
    """Collect what a process prints, and end it."""
    lines: queue.Queue[_Line] = queue.Queue()
    threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
    try:
        _listen(talk, lines, answers, child)
    finally:
        _end(process, talk)


def _start(child: Child, stdin: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = dict(child.environment)
    if sys.platform == "win32":  # Python does not start there without it
        environment["SYSTEMROOT"] = os.environ.get("SYSTEMROOT", "")
    return subprocess.Popen(
        child.command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=os.path.abspath(os.sep),
        env=environment,
        start_new_session=True,
    )


def _pump(output: IO[bytes] | None, lines: queue.Queue[_Line]) -> None:
    assert output is not None
    with output:
        while line := output.readline(_MAX_LINE_BYTES + 1):
            lines.put(line)
            if len(line) > _MAX_LINE_BYTES:
                break  # closing the pipe stops a child that would write for ever
    lines.put(None)


def _listen(talk: Conversation, lines: queue.Queue[_Line], answers: int, child: Child) -> None:
    """Read the walls reached, then the answers, until all have come or something is wrong."""
    deadline = time.monotonic() + child.start_s
    while len(talk.answers) < answers:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            talk.ending = f"took longer than {child.wall_s:g} s and was killed"
            return
        if line is None:
            return
        message = _parse(line)
        if message is None:
            talk.ending = f"answered {line[:60]!r}, which is no answer"
            return
        if "absent" in message:
            talk.absent = talk.ending = str(message["absent"])[:1000]
            return
        if "confinement" in message:
            talk.confinement = _texts(message["confinement"])
        else:
            talk.answers.append(message)
        deadline = time.monotonic() + child.wall_s
    talk.ending = "has answered"


def _parse(line: bytes) -> dict[str, object] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(each)[:100] for each in value[:16]) if isinstance(value, list) else ()


def _end(process: Speaker, talk: Conversation) -> None:
    """Let a child that fell silent exit by itself, to learn how; then kill the rest of its session."""
    if not talk.ending:
        try:
            process.wait(_LAST_BREATH_S)
        except subprocess.TimeoutExpired:
            talk.ending = "stopped answering and was killed"
    if process.returncode is None:
        _kill(process)
    status = process.wait()
    if not talk.ending:
        talk.ending = f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"


def _kill(process: Speaker) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):  # it has already ended
        process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
