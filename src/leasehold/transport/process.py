"""A link that is a child process: the base of `local` and ssh."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, cast

from leasehold.errors import LinkError
from leasehold.kit.files.pipes import widen
from leasehold.kit.text.safe_text import plain

from . import first_call, here

_STDERR_BYTES = 8192
_LAST_WORDS_S = 1.0  # the child is gone then; what it wrote is in the pipe
_ENDS_WITHIN_S = 60.0  # once it was killed
_UNKNOWN_CODE = 255  # ssh's own exit status when it could not connect
_KEPT_FROM_US = ("LEASE_", "LEASEHOLD_HOME")


class ProcessLink:
    """A child whose stdin and stdout are the stream; its stderr is kept as evidence."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        explain: Callable[[int, str], LinkError],
        *,
        brisk: bool = False,
    ) -> None:
        """Start it. A brisk one is not awaited at close: nothing of ours depends on how ssh exits."""
        here.refuse_links()
        self._brisk = brisk
        self._explain = explain
        self._child = self._start(argv, env)
        self._last_words = _Tail(cast(BinaryIO, self._child.stderr))
        self.reader = cast(BinaryIO, self._child.stdout)
        widen(self.reader.fileno())
        self.writer = cast(BinaryIO, io.BufferedWriter(cast(io.RawIOBase, self._child.stdin), 1 << 18))

    @staticmethod
    def _start(argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes] | CalledChild:
        called = first_call.take(list(argv)) if env is os.environ else None
        if called is not None:
            return CalledChild(called)
        try:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                bufsize=0,  # the reader of the handshake must not swallow what follows
                start_new_session=True,  # Ctrl-C at home must not reach the link before we decide
            )
        except FileNotFoundError:
            raise LinkError(
                "link.no_program",
                f"{argv[0]} is not installed here",
                hint="install it (Debian: openssh-client; macOS and Windows 10 or newer bring it along)",
            ) from None

    @property
    def over(self) -> bool:
        """Return whether the child has already exited."""
        return self._child.poll() is not None

    @property
    def pid(self) -> int:
        """Return the child's pid."""
        return self._child.pid

    def kill(self) -> None:
        """End the child at once; a reader sees the end of the stream."""
        self._child.kill()

    def close(self) -> None:
        """End it and close the stream. A reader in another thread must have left: the fd number is reused."""
        self.end()
        self.reader.close()

    def end(self) -> None:
        """Close stdin, wait briefly for the child, then end it. A caller that awaits an answer must have it by now."""
        with contextlib.suppress(OSError):
            self.writer.close()
        if self._brisk:
            self._child.terminate()
        try:
            self._child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def failure(self) -> LinkError:
        """Explain the end by exit status and stderr."""
        return self._explain(*self.ended())

    def ended(self) -> tuple[int, str]:
        """Return the child's exit status and the end of its stderr, ending it if it lingers."""
        try:
            code = self._child.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._child.kill()
            code = self._child.wait()
        return code, plain(self._last_words.text()).strip()


class CalledChild:
    """A child that was started before subprocess was imported; the part of Popen that a link uses."""

    def __init__(self, called: first_call.Call) -> None:
        self.pid = called.pid
        self.stdin = open(called.stdin, "wb", buffering=0)  # noqa: SIM115 - as Popen has them
        self.stdout = open(called.stdout, "rb", buffering=0)  # noqa: SIM115
        self.stderr = open(called.stderr, "rb", buffering=0)  # noqa: SIM115
        self._code: int | None = None
        self._waiting = threading.Lock()

    def poll(self) -> int | None:
        """Return its exit status once it has ended."""
        with self._waiting:
            return self._look()

    def wait(self, timeout: float = _ENDS_WITHIN_S) -> int:
        """Wait for its end, this long at most."""
        deadline, pause_s = time.monotonic() + timeout, 0.0005
        while (code := self.poll()) is None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired("ssh", timeout)
            pause_s = min(pause_s * 2, left_s, 0.05)
            time.sleep(pause_s)
        return code

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self._signal(signal.SIGKILL)

    def _look(self) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._code = os.waitstatus_to_exitcode(status) if pid else None
            except ChildProcessError:  # our parent had us ignore SIGCHLD: the kernel reaped it, and its status is lost
                self._code = _UNKNOWN_CODE
        return self._code

    def _signal(self, number: int) -> None:
        with self._waiting:
            if self._look() is None:  # the pid is still its own
                with contextlib.suppress(ProcessLookupError):  # SIGCHLD is ignored, and it ended this very moment
                    os.kill(self.pid, number)


class _Tail:
    """Reads a stream to its end and keeps only the last part: a box may print on stderr without end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._kept = b""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def text(self) -> str:
        """Return the last output; a process that inherited the stream is not awaited for long."""
        self._reading.join(_LAST_WORDS_S)
        return self._kept.decode("utf-8", "replace")

    def _read(self) -> None:
        with self._stream:
            while block := self._stream.read(1 << 16):
                self._kept = (self._kept + block)[-_STDERR_BYTES:]


class LocalTransport:
    """This machine as a box: the same boot line, the same protocol, no network."""

    name = "local"

    def open(self, command: str) -> ProcessLink:
        """Start the boot line under sh; raises BoxError if this machine cannot be a box."""
        here.refuse_as_box()
        env = {key: value for key, value in os.environ.items() if not key.startswith(_KEPT_FROM_US)}
        return ProcessLink(["/bin/sh", "-c", command], env, _explain_local)


def _explain_local(code: int, said: str) -> LinkError:
    return LinkError("link.lost", f"the local caretaker connection ended (exit {code})", seen=said)
