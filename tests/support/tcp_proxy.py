"""A loopback TCP relay that can be slow, silent, cut or shut: a bad network that needs no privileges."""

from __future__ import annotations

import collections
import contextlib
import select
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Callable, Deque, Dict, List, Optional, Tuple, Type

_CHUNK_BYTES = 65536
_WINDOW_BYTES = 8 << 20  # in flight one way: enough for 80 ms at 800 Mbit/s
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class TcpProxy:
    """Relay 127.0.0.1:port to 127.0.0.1:target_port. One thread; a context manager.

    delay_s is added to each direction and may be changed while links are open.
    """

    def __init__(self, target_port: int, delay_s: float = 0.0) -> None:
        self.target_port = target_port
        self.delay_s = delay_s
        self.port = 0
        self._listener: Optional[socket.socket] = None
        self._links: List[_Link] = []
        self._carried_bytes = 0
        self._cut_at_bytes: Optional[int] = None
        self._cuts_left = 0
        self._hold_at_bytes: Optional[int] = None
        self._links_left: Optional[int] = None
        self._stalled = False
        self._closing = False
        self._orders: Deque[Tuple[Callable[[], None], threading.Event]] = collections.deque()
        self._waker, self._wakee = socket.socketpair()
        self._wakee.setblocking(False)
        self._thread = threading.Thread(target=self._serve, name="tcp-proxy", daemon=True)

    def __enter__(self) -> TcpProxy:
        self.accept()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def carried_bytes(self) -> int:
        """Count the bytes relayed so far, both ways, all links."""
        return self._carried_bytes

    def links(self) -> int:
        """Count the open links."""
        return len(self._links)

    def stall(self) -> None:
        """Carry nothing more and close nothing, like a lost route: senders see their buffers fill."""
        self._order(lambda: setattr(self, "_stalled", True))

    def hold_after(self, limit_bytes: int) -> None:
        """Stall each link that has carried this many bytes, both ways together; the others go on."""
        self._order(lambda: setattr(self, "_hold_at_bytes", limit_bytes))

    def resume(self) -> None:
        """End a stall; what was sent meanwhile arrives."""

        def note() -> None:
            self._stalled = False
            self._hold_at_bytes = None

        self._order(note)

    def cut(self) -> None:
        """Reset every open link; new ones are taken."""
        self._order(self._cut)

    def cut_after(self, limit_bytes: int, times: int = 1) -> None:
        """Reset a link at the moment it has carried exactly this many bytes, both ways together.

        Holds for the next `times` links that get so far, open ones included; later ones pass.
        """

        def note() -> None:
            self._cut_at_bytes = limit_bytes
            self._cuts_left = times

        self._order(note)

    def refuse(self) -> None:
        """Refuse new links, as a machine without the server does; open ones go on."""
        self._order(self._refuse)

    def refuse_after(self, links: int) -> None:
        """Take so many links more, then refuse."""
        self._order(lambda: setattr(self, "_links_left", links))

    def accept(self) -> None:
        """Take links again on the same port."""
        self._order(self._accept)

    def close(self) -> None:
        """Reset the links and end the thread. Closing twice is closing once."""
        if self._closing:
            return
        self._order(self._refuse)
        self._order(self._cut)
        self._order(lambda: setattr(self, "_closing", True))
        self._thread.join(timeout=10.0)
        self._waker.close()
        self._wakee.close()

    def _order(self, action: Callable[[], None]) -> None:
        """Have the relay thread do it between two polls: under a poll a closed socket stays open."""
        if not self._thread.is_alive():
            action()
            return
        done = threading.Event()
        self._orders.append((action, done))
        self._waker.send(b"!")
        if not done.wait(timeout=20.0):
            raise TimeoutError("the relay thread did not answer")

    def _cut(self) -> None:
        for link in self._links:
            link.reset()
        self._links.clear()

    def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        if self._listener is None:
            self._listener = _listen(self.port)
            self.port = self._listener.getsockname()[1]

    def _serve(self) -> None:
        while not self._closing:
            now = time.monotonic()
            poll, owners = self._wishes(now)
            wait_s = self._until_due(now)
            ready = poll.poll(None if wait_s is None else max(1.0, wait_s * 1000))
            fds = [fd for fd, _ in ready]
            if self._wakee.fileno() in fds:
                self._obey()
            if self._listener is not None and self._listener.fileno() in fds:
                self._take_link(self._listener)
            for link in {owners[fd] for fd in fds if fd in owners}:
                if link in self._links:
                    self._move(link, time.monotonic())

    def _obey(self) -> None:
        self._wakee.recv(4096)
        while self._orders:
            action, done = self._orders.popleft()
            action()
            done.set()

    def _wishes(self, now: float) -> Tuple[select.poll, Dict[int, _Link]]:
        poll = select.poll()
        poll.register(self._wakee, select.POLLIN)
        if self._listener is not None:
            poll.register(self._listener, select.POLLIN)
        wishes: Dict[int, int] = {}
        owners: Dict[int, _Link] = {}
        for link in [] if self._stalled else filter(self._goes_on, self._links):
            for way in link.ways:
                for end, wish in ((way.source, way.wants_bytes()), (way.sink, way.wants_out(now))):
                    if wish:
                        fd = end.fileno()
                        wishes[fd] = wishes.get(fd, 0) | wish
                        owners[fd] = link
        for fd, wish in wishes.items():
            poll.register(fd, wish)
        return poll, owners

    def _until_due(self, now: float) -> Optional[float]:
        """Seconds until a waiting chunk is due; None when only an event can bring work."""
        if self._stalled:
            return None
        dues = [way.queue[0][0] for link in filter(self._goes_on, self._links) for way in link.ways if way.queue]
        later = [due - now for due in dues if due > now]
        return min(later) if later else None

    def _take_link(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.target_port), timeout=10.0)
        except OSError:
            _reset(client)
            return
        self._links.append(_Link(client, server))
        if self._links_left is not None:
            self._links_left -= 1
            if self._links_left <= 0:
                self._links_left = None
                self._refuse()

    def _goes_on(self, link: _Link) -> bool:
        return self._hold_at_bytes is None or link.carried_bytes < self._hold_at_bytes

    def _move(self, link: _Link, now: float) -> None:
        try:
            for way in link.ways:
                way.take_in(now + self.delay_s)
                self._carried_bytes += link.give_out(way, now, self._allowance(link))
        except OSError:
            link.reset()
        if self._cut_at_bytes is not None and link.carried_bytes >= self._cut_at_bytes and self._cuts_left:
            self._cuts_left -= 1
            link.reset()
        if link.over():
            link.close()
            self._links.remove(link)

    def _allowance(self, link: _Link) -> Optional[int]:
        if self._cut_at_bytes is None or not self._cuts_left:
            return None
        return max(0, self._cut_at_bytes - link.carried_bytes)


class _Way:
    """One direction of a link: chunks wait in the queue until they are due; b"" is the end of the stream."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.queue: Deque[Tuple[float, bytes]] = collections.deque()
        self.queued_bytes = 0
        self.ended = False
        self.done = False

    def wants_bytes(self) -> int:
        return select.POLLIN if not self.ended and self.queued_bytes < _WINDOW_BYTES else 0

    def wants_out(self, now: float) -> int:
        return select.POLLOUT if self.queue and self.queue[0][0] <= now else 0

    def take_in(self, due: float) -> None:
        if not self.wants_bytes():
            return
        with contextlib.suppress(BlockingIOError):
            chunk = self.source.recv(_CHUNK_BYTES)
            self.queue.append((due, chunk))
            self.queued_bytes += len(chunk)
            self.ended = not chunk

    def give_out(self, now: float, allowance: Optional[int]) -> int:
        """Pass on what is due, at most allowance bytes; return how many went."""
        given = 0
        while self.wants_out(now) and (allowance is None or given < allowance):
            due, chunk = self.queue.popleft()
            if not chunk:
                self.sink.shutdown(socket.SHUT_WR)
                self.done = True
                break
            piece = chunk if allowance is None else chunk[: allowance - given]
            try:
                sent = self.sink.send(piece)
            except BlockingIOError:
                sent = 0
            given += sent
            self.queued_bytes -= sent
            if sent < len(chunk):
                self.queue.appendleft((due, chunk[sent:]))
                break
        return given


class _Link:
    """A client's connection and ours to the target."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = (client, server)
        for end in self.ends:
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ways = (_Way(client, server), _Way(server, client))
        self.carried_bytes = 0

    def give_out(self, way: _Way, now: float, allowance: Optional[int]) -> int:
        given = way.give_out(now, allowance)
        self.carried_bytes += given
        return given

    def reset(self) -> None:
        for end in self.ends:
            _reset(end)

    def over(self) -> bool:
        return all(way.done for way in self.ways) or self.ends[0].fileno() < 0

    def close(self) -> None:
        for end in self.ends:
            end.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    listener.setblocking(False)
    return listener


def _reset(end: socket.socket) -> None:
    """Close with RST, so that the peer sees an error and not an orderly end."""
    if end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        end.close()
