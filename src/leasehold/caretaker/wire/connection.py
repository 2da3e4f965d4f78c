"""One connection from home: read requests, answer them concurrently, exit when the stream ends."""

from __future__ import annotations

import errno
import io
import os
import queue
import sys
import threading
import time
from typing import Any, BinaryIO, Callable, Dict, Iterator, Mapping, Optional, Tuple

from leasehold.kit.files.atomic import write_all
from leasehold.kit.files.pipes import widen
from leasehold.kit.wire import frames
from leasehold.kit.wire.frames import Frame

from .refused import Refused as Refused

_MAX_OPEN_REQUESTS = 32
_BODY_FRAMES = 64
_FINISH_S = 1.0
_HAS_WRITEV = hasattr(os, "writev")  # PyPy has none
_MOST_PARTS = 512  # the system takes 1024 at once
_CHECKED_BYTES = 256 << 10
_GARBAGE = 100_000  # a list of ten thousand files is none, and searching it takes long


class Request:
    """A request as an operation sees it: its arguments, its body, and the way for its answer."""

    def __init__(self, connection: "Connection", number: int, args: Dict[str, Any]) -> None:
        self.args = args
        self.root = connection.root
        self.turn = connection.turn
        self._connection = connection
        self._number = number
        self.inbox: "queue.Queue[Optional[Frame]]" = queue.Queue(_BODY_FRAMES)
        self.answered = threading.Event()  # nobody reads the inbox any more

    @property
    def gone(self) -> bool:
        """Whether home has disconnected."""
        return self._connection.closed.is_set()

    @property
    def left(self) -> bool:
        """Whether home wants no more of this answer; only for a request without a body."""
        return not self.inbox.empty()

    def reply(self, value: Mapping[str, Any]) -> None:
        """Send one object."""
        self._connection.send(frames.pack_json(self._number, value))

    def data(self, *parts: bytes) -> None:
        """Send one chunk of bytes, which may be in parts."""
        self._connection.send(frames.head(self._number, frames.DATA, sum(map(len, parts))), *parts)

    def file_data(self, fd: int, offset: int, count: int) -> int:
        """Send a range of a file as one chunk, uncopied where the system can; return how many bytes were there."""
        return self._connection.send_file(frames.head(self._number, frames.DATA, count), fd, (offset, count))

    def body(self) -> Iterator[Frame]:
        """Yield what home sends for this request, up to its end."""
        while True:
            frame = self.inbox.get()
            if frame is None:
                raise frames.WireError("home hung up in the middle of a request")
            if frame.type == frames.END:
                return
            yield frame


Operation = Callable[[Request], None]


class Connection:
    """The stream, its write lock and the requests in flight."""

    def __init__(self, root: str, reader: BinaryIO, writer: BinaryIO) -> None:
        self.root = root
        self.turn = threading.Lock()  # bulk answers are sent one after the other: the next begins when one has arrived
        self.closed = threading.Event()
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()
        self._open: Dict[int, Request] = {}

    def run(self, operations: Dict[str, Operation]) -> None:
        """Read frames until the stream ends."""
        try:
            while True:
                frame = frames.read_frame(self._reader)
                if frame is None:
                    return
                self._take(frame, operations)
        except (frames.WireError, OSError):
            return
        finally:
            self.closed.set()
            for request in list(self._open.values()):
                _offer(request, None)

    def finish(self, limit_s: float) -> None:
        """Let running requests end: one of them may be recording its findings."""
        deadline = time.monotonic() + limit_s
        for request in list(self._open.values()):
            request.answered.wait(max(0.0, deadline - time.monotonic()))

    def send(self, *parts: bytes) -> None:
        """Write complete frames, one sender at a time; many parts are not copied together."""
        with self._lock:
            out = self._writer.fileno()
            done = os.writev(out, parts) if _HAS_WRITEV and len(parts) <= _MOST_PARTS else 0
            if done < sum(map(len, parts)):
                write_all(out, memoryview(b"".join(parts))[done:])

    def send_file(self, head: bytes, fd: int, span: Tuple[int, int]) -> int:
        """Write a frame's head and a range of a file; send zeros for what the file lost: a frame must be complete."""
        with self._lock:
            out = self._writer.fileno()
            write_all(out, head)
            sent = _pass_on(out, fd, span)
            if sent < span[1]:
                write_all(out, bytes(span[1] - sent))
        return sent

    def _take(self, frame: Frame, operations: Dict[str, Operation]) -> None:
        request = self._open.get(frame.request)
        if request is not None:
            _offer(request, frame)
            return
        if frame.type != frames.JSON:
            return  # the rest of a body whose operation has already answered
        args = frame.json()
        operation = operations.get(str(args.get("op")))
        if operation is None or len(self._open) >= _MAX_OPEN_REQUESTS:
            said = {"code": "wire.unknown_op", "message": "no operation %r here" % (args.get("op"),)}
            self.send(frames.pack_json(frame.request, said, frames.ERROR))
            return
        request = Request(self, frame.request, args)
        self._open[frame.request] = request
        threading.Thread(target=self._answer, args=(frame.request, request, operation), daemon=True).start()

    def _answer(self, number: int, request: Request, operation: Operation) -> None:
        try:
            operation(request)
            last = frames.pack(number, frames.END)
        except Refused as error:
            said = {"code": error.code, "message": str(error), **({"hint": error.hint} if error.hint else {})}
            last = frames.pack_json(number, said, frames.ERROR)
        except Exception as error:  # noqa: BLE001 - the process boundary: home must hear of it
            said = {"code": "box.failed", "message": "%s: %s" % (type(error).__name__, error)}
            hung_up = isinstance(error, frames.WireError) and self.closed.is_set()  # which is no news to home
            last = b"" if hung_up else frames.pack_json(number, said, frames.ERROR)
        self._open.pop(number, None)
        try:
            self.send(last)
        except (OSError, ValueError):  # home has disconnected; ValueError: our end of the stream is closed too
            self.closed.set()
        finally:
            request.answered.set()


class CheckedConnection(Connection):
    """A connection over a stream that may damage bytes: what it sends travels in checked records."""

    def __init__(self, root: str, reader: BinaryIO, writer: BinaryIO) -> None:
        from leasehold.kit.wire.checked_stream import CheckedReader, CheckedWriter  # only for `kubectl exec`

        out = writer.fileno()
        self._records = CheckedWriter(lambda data: write_all(out, memoryview(data)))
        threading.Thread(target=self._records.beat_for_ever, daemon=True).start()
        checked = io.BufferedReader(CheckedReader(reader.fileno()), _CHECKED_BYTES)
        super().__init__(root, checked, writer)

    def send(self, *parts: bytes) -> None:
        """Send complete frames, one sender at a time."""
        with self._lock:
            self._records.send(parts)

    def send_file(self, head: bytes, fd: int, span: Tuple[int, int]) -> int:
        """Send a frame's head and a range of a file; zeros stand for what the file lost."""
        (offset, count), sent = span, 0
        with self._lock:
            self._records.send([head])
            while sent < count:
                block = os.pread(fd, min(_CHECKED_BYTES, count - sent), offset + sent)
                if not block:
                    break
                self._records.send([block])
                sent += len(block)
            if sent < count:
                self._records.send([bytes(count - sent)])
        return sent

    def finish(self, limit_s: float) -> None:
        """Let running requests end, then say that nothing follows."""
        super().finish(limit_s)
        self._records.bye()


def serve(root: str, operations: Dict[str, Operation], checked: bool = False) -> int:
    """Speak the protocol on stdin and stdout; checked: over a stream that may damage bytes."""
    import gc

    if hasattr(gc, "set_threshold"):  # PyPy's collector has none
        gc.set_threshold(_GARBAGE)
    writer = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # a stray print must not land between frames
    widen(writer.fileno())  # to sshd
    _close_to_others(os.path.join(root, "active"))
    kind = CheckedConnection if checked else Connection
    connection = kind(root, sys.stdin.buffer, writer)
    connection.run(operations)
    connection.finish(_FINISH_S)
    return 0


def _close_to_others(folder: str) -> None:
    """Restrict the root to its owner: an older version left it open, and logs may hold secrets."""
    try:
        if os.stat(folder).st_mode & 0o077:
            os.chmod(folder, 0o700)
    except OSError:  # another user's, or a file system without modes
        pass


def _pass_on(out: int, fd: int, span: Tuple[int, int]) -> int:
    """Have the kernel send a file's pages to the stream, else read and write; return how many bytes there were."""
    (offset, count), sent = span, 0
    by_kernel = hasattr(os, "sendfile")
    while sent < count:
        try:
            if by_kernel:
                done = os.sendfile(out, fd, offset + sent, count - sent)
            else:
                block = os.pread(fd, count - sent, offset + sent)
                write_all(out, block)
                done = len(block)
        except OSError as error:
            if not by_kernel or error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            by_kernel = False  # some network and FUSE filesystems
            continue
        if not done:
            break
        sent += done
    return sent


def _offer(request: Request, frame: Optional[Frame]) -> None:
    """Pass a frame on, waiting while the operation is busy; an operation that has answered accepts no more."""
    while not request.answered.is_set():
        try:
            request.inbox.put(frame, timeout=0.2)
        except queue.Full:
            if frame is not None:
                continue
        return
