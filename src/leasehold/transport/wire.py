"""The one protocol over any link: a handshake, then concurrent framed requests."""

from __future__ import annotations

import contextlib
import io
import queue
import re
import selectors
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

from leasehold.errors import BoxError, LinkError, Refusal
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.wire import frames
from leasehold.kit.wire.frames import Frame

from . import parcel
from .ahead import CalledAhead
from .contract import Link, Transport
from .hello import HANDSHAKE_TIMEOUT_S, Ear, greet, say
from .patience import ENDLESS, TICK_S, Waiting, WaitLimits

TAKEN_OVER = "run.taken_over"  # the box lets only the home that holds a run end things
_TAKE_OVER = "lease attach RUN --take-over, once nobody works at that home"
_MOVED = "lease move RUN --to BOX brings it back with its newest state"
_NO_ROOM = (
    "lease box disk BOX shows what lies there, lease box prune BOX removes what no run uses; or take a larger disk"
)
_REFUSALS = {
    TAKEN_OVER: _TAKE_OVER,
    "run.company": "",
    "run.moved": _MOVED,
    "move.raced": "one of the two homes moves it: lease status there shows where it is; then lease attach RUN --on BOX",
    "data.no_room": _NO_ROOM,
}  # a gate's refusal, sent by the box; their usual hints
_INBOX_FRAMES = 256
_MOST_STATUS_BYTES = 64 << 20  # ten thousand cells are 6 MB
_AHEAD_BYTES = 16 << 10  # more of a large frame would be copied twice
_CLOSED = object()
_PUMP_S = 5.0  # for what is still in the pipe; a process that holds it open must not block us
_TAKES = ("follow_s", "grace_s", "wait_s")
_AGE = re.compile(r"-?[0-9]{1,12}\Z")

Body = Iterable[dict[str, Any] | bytes]


class Wire:
    """An open conversation with a box's `serve`. Any thread may send requests; close() ends it for all."""

    def __init__(
        self,
        transport: Transport,
        root: str,
        python_hint: str = "",
        patience_s: float = HANDSHAKE_TIMEOUT_S,
        limits: WaitLimits = ENDLESS,
    ) -> None:
        self.name = transport.name
        self._limits = limits
        self._link = transport.open(parcel.boot_command())
        self._write_lock = threading.Lock()
        self._requests: dict[int, queue.Queue[Any]] = {}
        self._next = 1
        self._dead: LinkError | None = None
        self.quickest_s = float("inf")  # of all answers: about the round trip
        self.heard_bytes = 0  # in answers, as transferred
        self._heard = _Heard()
        try:
            checked = getattr(transport, "checked", False)
            far = (root, python_hint, "checked" if checked else "serve")
            self._early = _handshake(Ear(self._link, transport, limits), far, patience_s)
            if checked:
                self._link, self._early = _in_records(self._link, self._early, transport.name), b""
            if isinstance(transport, CalledAhead):
                transport.note_answer()
        except BaseException:
            self._link.close()
            raise
        self._pump = threading.Thread(target=self._read, daemon=True)
        self._pump.start()

    def ask(self, op: str, body: Body = (), **args: Any) -> dict[str, Any]:
        """Send a request and return the last object of its answer ({} when it has none)."""
        answer: dict[str, Any] = {}
        begun = time.monotonic()
        for frame in self.stream(op, body, **args):
            if frame.type == frames.JSON:
                answer = object_of(frame)
        self.quickest_s = min(self.quickest_s, time.monotonic() - begun)
        return answer

    def objects(self, op: str, body: Body = (), **args: Any) -> Iterator[dict[str, Any]]:
        """Send a request and yield the objects of its answer."""
        for frame in self.stream(op, body, **args):
            if frame.type == frames.JSON:
                yield object_of(frame)

    def chunks(self, op: str, **args: Any) -> Iterator[bytes]:
        """Send a request and yield the bytes of its answer."""
        for frame in self.stream(op, **args):
            if frame.type == frames.DATA:
                yield frame.payload

    def stream(self, op: str, body: Body = (), **args: Any) -> Iterator[Frame]:
        """Send a request with its body and yield the frames of its answer."""
        talk = Talk(self, op, args)
        try:
            if body:
                talk.say(body)
                talk.end()
            yield from talk
        except GeneratorExit:
            if not body:
                with contextlib.suppress(LinkError):
                    talk.end()  # the box need not send the rest
            raise
        finally:
            talk.leave()

    def talk(self, op: str, **args: Any) -> Talk:
        """Send a request whose body is sent while its answer arrives."""
        return Talk(self, op, args)

    def close(self) -> None:
        """Hang up. A second call does nothing."""
        if self._dead is None:
            self._dead = LinkError("link.closed", f"the connection to {self.name} is closed")
        self._link.end()
        # Closed under its reader, its fd could become the next connection's, whose first bytes would be read here.
        if self._pump is not threading.current_thread():
            self._pump.join(_PUMP_S)
        if not self._pump.is_alive():
            self._link.close()

    @property
    def lost(self) -> LinkError | None:
        """Return why no more requests can be sent, if so."""
        return self._dead

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _register(self) -> tuple[int, queue.Queue[Any]]:
        inbox: queue.Queue[Any] = queue.Queue(_INBOX_FRAMES)
        with self._write_lock:
            number = self._next
            self._next += 1
        self._requests[number] = inbox
        return number, inbox

    def _answer(self, inbox: queue.Queue[Any], op: str, takes_s: float) -> Iterator[Frame]:
        while True:
            frame = self._awaited(inbox, op, takes_s)
            if frame is _CLOSED:
                raise self._dead or LinkError("link.lost", f"the connection to {self.name} ended")
            if frame.type == frames.END:
                return
            if frame.type == frames.ERROR:
                said = object_of(frame)
                code, message = one_line(str(said.get("code"))), one_line(str(said.get("message")))
                hint = one_line(str(said.get("hint") or _REFUSALS.get(code, "")))
                kind = Refusal if code in _REFUSALS else BoxError
                raise kind(code, message, seen=f"answer of {self.name} to `{op}`", hint=hint)
            yield frame

    def _awaited(self, inbox: queue.Queue[Any], op: str, takes_s: float) -> Any:
        """Return the next frame; a wait ends with the connection, or at the command's time limit."""
        waiting = Waiting(self._limits, self.name, f"the answer to `{op}`", self._limits.answer_s + takes_s)
        while True:
            try:
                return inbox.get(timeout=TICK_S)
            except queue.Empty:
                if self._dead is not None:
                    raise self._dead from None
                waiting.look(self._heard.at)
                waiting.require(self._heard.at)

    def _send(self, parts: Iterable[bytes]) -> None:
        try:
            for part in parts:
                with self._write_lock:
                    self._link.writer.write(part)
            with self._write_lock:
                self._link.writer.flush()
        except (OSError, ValueError):
            raise self._dead or self._link.failure() from None

    def _read(self) -> None:
        raw: Any = _Resumed(self._early, self._link.reader) if self._early else self._link.reader
        raw = _Clocked(raw, self._heard) if self._limits.bounded else raw
        reader = cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, raw), _AHEAD_BYTES))
        try:
            while (frame := frames.read_frame(reader)) is not None:
                self.heard_bytes += len(frame.payload)
                inbox = self._requests.get(frame.request)
                if inbox is not None:
                    self._deliver(inbox, frame)
        except (frames.WireError, OSError, ValueError):
            pass
        if self._dead is None:
            self._dead = self._link.failure()
        for inbox in list(self._requests.values()):
            self._deliver(inbox, _CLOSED)

    def _deliver(self, inbox: queue.Queue[Any], item: Any) -> None:
        """Deliver a frame, waiting for a slow reader; frames for a reader that left are dropped."""
        while inbox in self._requests.values():
            try:
                return inbox.put(item, timeout=0.5)
            except queue.Full:
                if self._dead is not None:
                    return None
        return None


class Talk:
    """One request: its body is sent while its answer is read; leave() discards what still arrives."""

    def __init__(self, wire: Wire, op: str, args: dict[str, Any]) -> None:
        self._wire = wire
        self._op = op
        self._takes_s = sum(float(args.get(key) or 0.0) for key in _TAKES)  # the box may be silent for so long
        self._number, self._inbox = wire._register()
        try:
            wire._send([frames.pack_json(self._number, {"op": op, **args})])
        except BaseException:
            self.leave()
            raise

    def say(self, body: Body) -> None:
        """Send parts of the body."""
        self._wire._send(_framed(self._number, part) for part in body)

    def end(self) -> None:
        """Mark the body as complete."""
        self._wire._send([frames.pack(self._number, frames.END)])

    @property
    def answered(self) -> bool:
        """Return whether part of the answer has arrived: a refusal comes before the body is whole."""
        return not self._inbox.empty()

    def leave(self) -> None:
        """Read no more of the answer. A second call does nothing."""
        self._wire._requests.pop(self._number, None)

    def __iter__(self) -> Iterator[Frame]:
        return self._wire._answer(self._inbox, self._op, self._takes_s)


def object_of(frame: Frame) -> dict[str, Any]:
    """Decode a frame from the box; one that holds no object means a broken link, not a broken home."""
    try:
        return frame.json()
    except frames.WireError as error:
        raise LinkError("link.strange", f"the box broke the protocol: {one_line(str(error))}") from None


def ask_status(
    transport: Transport, root: str, patience_s: float = HANDSHAKE_TIMEOUT_S, limits: WaitLimits = ENDLESS
) -> list[tuple[int, str]]:
    """Have the boot line itself answer with each run's status.json and its age; no Python starts there."""
    deadline = time.monotonic() + patience_s
    link = transport.open(parcel.boot_command())
    try:
        ear = Ear(link, transport, limits)
        verdict = ear.hello(greet(link, root, verb="status"), patience_s)
        if verdict != "status":
            raise LinkError("link.strange", f"{transport.name} answered {verdict!r} to a status request")
        lines = _lines_until_end(link, ear.rest, deadline)
    finally:
        link.close()
    parts = [line.partition(" ") for line in lines]
    return [(int(age), text) for age, _, text in parts if _AGE.match(age)]


def _in_records(link: Link, early: bytes, name: str) -> Link:
    from .exec.checked_link import CheckedLink  # ssh and local streams need none

    return CheckedLink(link, early, name)


def _handshake(ear: Ear, far: tuple[str, str, str], patience_s: float) -> bytes:
    """Start the conversation; return what the far end sent after its handshake."""
    root, python_hint, verb = far
    built = parcel.build()
    nonce = greet(ear.link, root, python_hint, built, verb)
    verdict = ear.hello(nonce, patience_s)
    if verdict == "need":
        program = parcel.unpacker()
        say(ear.link, b"%d\n" % len(program) + program + built.data)
        verdict = ear.hello(nonce, HANDSHAKE_TIMEOUT_S)
    if verdict == "ready":
        return ear.rest
    if verdict == "nopython":
        hint = "install python3 on the box, or choose an image that has it"
        raise BoxError("box.no_python", "the box has no Python 3.8 or newer", hint=hint)
    if verdict.startswith("noroot"):
        raise _no_root(one_line(verdict[7:]))
    raise LinkError("link.strange", f"the box answered {one_line(verdict)!r} to the handshake")


def _no_root(said: str) -> BoxError:
    """Describe what the box reported about our folder, and name a folder there that is writable."""
    said, _, room = said.partition(" room:")
    takes = room.split()
    hint = f"this one takes files: --root {takes[0]}/leasehold" if takes else "choose another folder with --root"
    return BoxError(
        "box.no_root",
        f"the box cannot hold our folder: {said}",
        seen=f"writable there: {' '.join(takes)}" if takes else "",
        hint=f"is the disk full or read-only? {hint}",
    )


def _lines_until_end(link: Link, begun: bytes, deadline: float) -> list[str]:
    buffer = bytearray(begun)
    while not buffer.endswith(b"end\n") and len(buffer) <= _MOST_STATUS_BYTES:
        block = _read_by(link, deadline)
        if not block:
            break
        buffer += block
    lines = buffer.decode("utf-8", "replace").rstrip("\n").split("\n")  # JSON may hold other line ends as they are
    if not lines or lines[-1] != "end":
        raise LinkError("link.lost", "the status answer ended early")
    return lines[:-1]


def _read_by(link: Link, deadline: float) -> bytes:
    with selectors.DefaultSelector() as selector:
        selector.register(link.reader, selectors.EVENT_READ)
        if not selector.select(max(0.0, deadline - time.monotonic())):
            raise LinkError("link.timeout", "the answer stopped half-way")
    return link.reader.read(1 << 16)


def _framed(number: int, part: dict[str, Any] | bytes) -> bytes:
    return frames.pack(number, frames.DATA, part) if isinstance(part, bytes) else frames.pack_json(number, part)


class _Heard:
    """The time of the last received bytes, in monotonic seconds."""

    at = 0.0


class _Clocked(io.RawIOBase):
    """A stream that records when bytes arrive: a large frame over a slow link is not silence."""

    def __init__(self, rest: Any, heard: _Heard) -> None:
        self._rest = rest
        self._last = heard

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read from the stream and record the time."""
        count: int | None = self._rest.readinto(buffer)
        self._last.at = time.monotonic()
        return count


class _Resumed(io.RawIOBase):
    """A stream some of whose bytes were already read."""

    def __init__(self, early: bytes, rest: BinaryIO) -> None:
        self._early = early
        self._rest = cast(io.RawIOBase, rest)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Return what was read early, then the stream itself."""
        if not self._early:
            return self._rest.readinto(buffer)
        part, self._early = self._early[: len(buffer)], self._early[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)
