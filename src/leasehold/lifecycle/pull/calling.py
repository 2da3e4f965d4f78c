"""Connections for a pull: where a box is known to be far, several are called before anybody needs them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.kit.atomic import read_json, write_json
from leasehold.transport.ahead import CalledAhead
from leasehold.transport.openssh import SshTransport

if TYPE_CHECKING:  # the first call goes out before all that is imported
    from leasehold.platforms.engines.caretaker import CaretakerEngine
    from leasehold.transport.contract import Transport

FAR_S = 0.015  # of a round trip: beyond it one TCP connection cannot fill the way
AHEAD = 8  # with the first one below what sshd's MaxStartups (10:30:100) lets in unasked
_AFTER_S = 0.1  # the first one is waited for: the keys of the others are not made beside it
_WORTH_BYTES = 16 << 20  # of the last pull: less than this comes before further connections would


class Calls:
    """The connections of one pull. Called ahead is only ssh: nothing of ours starts on the box until it is needed."""

    def __init__(self, transport: Transport, connect: Callable[[Transport], CaretakerEngine], memory: Path) -> None:
        """Take the way to the box, how to connect by a way, and where it is kept how far the box was."""
        self._transport = transport
        self._connect = connect
        self._memory = memory
        self._lock = threading.Lock()
        self._called: list[CalledAhead] = []
        self._begun = False
        self._over = False

    def begin(self) -> None:
        """Call a box whose key we know, without waiting; several times where the last pull says that it pays."""
        transport = self._transport
        if not isinstance(transport, SshTransport) or not transport.pinned:
            return
        self._begun = True
        self._called.append(CalledAhead(transport))
        if self._worth_calling():
            threading.Thread(target=self._call, args=(transport,), daemon=True).start()

    def first(self) -> CaretakerEngine:
        """Open the first connection, the others being called beside it."""
        if not self._begun:
            self.begin()
        self._begun = False  # after a lost link the next first one is called anew
        return self.more()

    def more(self) -> CaretakerEngine:
        """Open one more; raises LinkError or BoxError when the box lets none in."""
        with self._lock:
            called = self._called.pop(0) if self._called else None
        return self._connect(called or self._transport)

    def remember(self, round_trip_s: float, pulled_bytes: int) -> None:
        """Keep how far the box was and how much came; a home that cannot write forgets."""
        with contextlib.suppress(OSError):
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            kept = {"round_trip_s": round_trip_s, "pulled_bytes": pulled_bytes}
            write_json(str(self._memory), kept, durable=False)

    def hang_up(self) -> None:
        """End the calls that nobody took. A second call does nothing."""
        with self._lock:
            self._over = True
            called, self._called = self._called, []
        for one in called:
            threading.Thread(target=one.hang_up).start()

    def _worth_calling(self) -> bool:
        kept = read_json(str(self._memory)) or {}
        try:
            return float(kept["round_trip_s"]) >= FAR_S and int(kept["pulled_bytes"]) >= _WORTH_BYTES
        except (KeyError, TypeError, ValueError):
            return False

    def _call(self, transport: SshTransport) -> None:
        time.sleep(_AFTER_S)
        for _ in range(AHEAD):
            called = CalledAhead(transport)
            with self._lock:
                if not self._over:
                    self._called.append(called)
                    continue
            called.hang_up()
            return
