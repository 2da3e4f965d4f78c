"""Connections for a pull: for a box known to be far, several are opened before they are needed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import LinkError
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.transport import parcel
from leasehold.transport.ahead import CalledAhead
from leasehold.transport.contract import FAR_S
from leasehold.transport.openssh import SshTransport

if TYPE_CHECKING:  # imported lazily: the first connection starts before
    from leasehold.platforms.contract import Engine
    from leasehold.transport.contract import Transport

AHEAD = 8  # with the first one below what sshd's MaxStartups (10:30:100) admits unconditionally
_AFTER_S = 0.1  # wait for the first one: do not compute the others' keys beside it
_WORTH_BYTES = 16 << 20  # of the last pull: fewer bytes arrive before further connections would be ready


class Calls:
    """The connections of one pull."""

    def __init__(
        self,
        transport: Transport,
        connect: Callable[[Transport], Engine],
        memory: Path,
        answered: Callable[[list[str]], None] | None = None,
    ) -> None:
        """Take the route to the box, the function that connects by a route, and the file with the box's last distance.

        `answered` receives the command line of the first connection once the box has answered it.
        """
        self._answered = answered
        self._transport = transport
        self._connect = connect
        self._memory = memory
        self._lock = threading.Lock()
        self._first: CalledAhead | None = None
        self._entered = threading.Event()  # the first one is connected: our program is on the box
        self._called: list[_Call] = []
        self._awaited: list[_Call] = []  # a caller waits for these
        self._over = False

    def begin(self) -> None:
        """Start to connect to a box that we have met, without waiting; several times if that pays by the last pull."""
        transport = self._transport
        if not isinstance(transport, SshTransport) or not transport.met:
            return
        self._drop_called()  # left over from a lost link
        self._first, self._entered = CalledAhead(transport, self._answered), threading.Event()
        kept = read_json(str(self._memory)) or {}
        if _worth_calling(kept):
            threading.Thread(target=self._call, args=(transport, kept, self._entered), daemon=True).start()

    def first(self) -> Engine:
        """Open the first connection, while the others connect beside it."""
        if self._first is None:
            self.begin()
        called, self._first = self._first, None  # after a lost link the next first connection is made anew
        engine = self._connect(called or self._transport)
        self._entered.set()
        return engine

    def more(self) -> Engine:
        """Open one more; raise LinkError or BoxError when the box admits none."""
        while True:
            with self._lock:
                called = self._called.pop(0) if self._called else None
            if called is None:
                return self._one_more()
            with contextlib.suppress(LinkError):  # a connection that broke meanwhile is made anew
                return self._taken(called)

    def remember(self, round_trip_s: float, pulled_bytes: int) -> None:
        """Store the box's distance and how much came; a home that cannot write stores nothing."""
        with contextlib.suppress(OSError):
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            kept = {"round_trip_s": round_trip_s, "pulled_bytes": pulled_bytes, "parcel": parcel.build().sha256}
            write_json(str(self._memory), kept, durable=False)

    def hang_up(self) -> None:
        """Close the connections that nobody took. A second call does nothing."""
        with self._lock:
            self._over = True
        first, self._first = self._first, None
        if first is not None:
            first.hang_up()
        self._drop_called()

    def _drop_called(self) -> None:
        with self._lock:
            called, self._called = [*self._called, *self._awaited], []
        for one in called:
            threading.Thread(target=one.hang_up).start()

    def _one_more(self) -> Engine:
        if not isinstance(self._transport, SshTransport):
            return self._connect(self._transport)
        at_once = threading.Event()
        at_once.set()
        return self._taken(_Call(self._transport, self._connect, at_once))

    def _taken(self, called: _Call) -> Engine:
        """Wait for a connection; after the pull ends nobody waits for it, and it is closed."""
        with self._lock:
            self._awaited.append(called)
            over = self._over
        try:
            if over:
                called.hang_up()
            return called.engine()
        finally:
            with self._lock:
                self._awaited.remove(called)

    def _call(self, transport: SshTransport, kept: dict[str, Any], entered: threading.Event) -> None:
        time.sleep(_AFTER_S)
        if kept.get("parcel") == parcel.build().sha256:
            entered.set()  # it was there at the last pull: no upload is needed first
        for _ in range(AHEAD):
            called = _Call(transport, self._connect, entered)
            with self._lock:
                if not self._over:
                    self._called.append(called)
                    continue
            called.hang_up()
            return


class _Call:
    """One further connection: ssh's handshake starts at once, and our program starts as soon as it is on the box."""

    def __init__(
        self, transport: SshTransport, connect: Callable[[Transport], Engine], entered: threading.Event
    ) -> None:
        self._called = CalledAhead(transport)
        self._connect = connect
        self._entered = entered
        self._engine: Engine | None = None
        self._error: Exception | None = None
        self._greeting = threading.Thread(target=self._greet, daemon=True)
        self._greeting.start()

    def engine(self) -> Engine:
        """Wait for the engine; raise the reason why it did not connect, or has broken since."""
        self._greeting.join()
        if self._engine is None:
            raise self._error or LinkError("link.closed", "the call was ended")
        if self._engine.lost is not None:
            self._engine.close()
            raise self._engine.lost
        return self._engine

    def hang_up(self) -> None:
        """Close it in whatever state it is."""
        self._called.cut()
        self._entered.set()
        self._greeting.join()
        if self._engine is not None:
            self._engine.close()

    def _greet(self) -> None:
        self._entered.wait()
        try:
            self._engine = self._connect(self._called)
        except Exception as error:  # noqa: BLE001 - a thread's boundary: whoever takes the connection hears of it
            self._error = error


def _worth_calling(kept: dict[str, Any]) -> bool:
    try:
        return float(kept["round_trip_s"]) >= FAR_S and int(kept["pulled_bytes"]) >= _WORTH_BYTES
    except (KeyError, TypeError, ValueError):
        return False
