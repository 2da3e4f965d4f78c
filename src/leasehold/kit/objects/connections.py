"""Kept connections to one endpoint: TLS checked, proxies respected, silent ones given up."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .address import Account

STALL_S = 60.0  # a connection on which nothing moves for this long is given up
_IDLE_S = 15.0  # servers close idle connections; one that is older is not tried again


class Kept(NamedTuple):
    """A connection that may carry another request."""

    wire: http.client.HTTPConnection
    used: bool
    since: float


class Loan:
    """A connection that is lent for one request; `response` is set by its user."""

    def __init__(self, kept: Kept) -> None:
        self.wire = kept.wire
        self.used = kept.used
        self.response: Optional[http.client.HTTPResponse] = None

    @property
    def whole(self) -> bool:
        """Return whether the answer was read to its end and the server keeps the connection."""
        return self.response is not None and self.response.isclosed() and self.wire.sock is not None


class Connections:
    """Connections to the host of one bucket; several threads may take one each."""

    def __init__(self, account: Account, bucket: str, stall_s: float = STALL_S) -> None:
        self._account = account
        self._name = account.host_of(bucket)
        host, _, port = self._name.rpartition(":")
        self._host = (host if port.isdigit() and host else self._name).strip("[]")
        self._stall_s = stall_s
        self._idle: List[Kept] = []
        self._lock = threading.Lock()
        self._tls: Optional[ssl.SSLContext] = None

    @contextlib.contextmanager
    def one(self) -> Iterator[Loan]:
        """Lend a connection; it is closed if the body raises or leaves bytes unread."""
        loan = Loan(self._take())
        try:
            yield loan
        finally:
            if loan.whole:
                with self._lock:
                    self._idle.append(Kept(loan.wire, True, time.monotonic()))
            else:
                loan.wire.close()

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for kept in idle:
            kept.wire.close()

    def _take(self) -> Kept:
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            if kept is None:
                return Kept(self._open(), False, time.monotonic())
            if time.monotonic() - kept.since < _IDLE_S:
                return kept
            kept.wire.close()

    def _open(self) -> http.client.HTTPConnection:
        secure, port = self._account.secure, self._account.port
        proxy = _proxy("https" if secure else "http", self._name)
        host, port_there = proxy or (self._host, port)
        if secure:
            self._tls = self._tls or ssl.create_default_context()
            wire: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port_there, timeout=self._stall_s, context=self._tls
            )
            if proxy:
                wire.set_tunnel(self._host, port)
        else:
            wire = http.client.HTTPConnection(host, port_there, timeout=self._stall_s)
        return wire


def send(wire: http.client.HTTPConnection, method: str, target: str, headers: Dict[str, str], body: object) -> None:
    """Send a request; when the server hangs up before it has all, its answer may still be there to read."""
    wire.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    for name, value in headers.items():
        wire.putheader(name, value)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        wire.endheaders(body or None)  # type: ignore[arg-type]


def plain_proxy(secure: bool, name: str) -> bool:
    """Return whether requests go through a proxy that needs the whole address in the request line."""
    return not secure and _proxy("http", name) is not None


def read_into(read: Callable[[memoryview], int], view: memoryview) -> int:
    """Fill a buffer; return how much came before the end."""
    got = 0
    while got < len(view):
        count = read(view[got:])
        if not count:
            break
        got += count
    return got


def say_trouble(error: BaseException) -> str:
    """Say why a connection failed, without any address."""
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "no byte came in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not accepted: %s" % error.verify_message
    if isinstance(error, socket.gaierror):
        return "its name is not known: %s" % error.strerror
    return "%s: %s" % (type(error).__name__, getattr(error, "strerror", None) or str(error)[:200])


def _proxy(scheme: str, name: str) -> Optional[Tuple[str, int]]:
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    said = getproxies().get(scheme)
    if not said or proxy_bypass(name):
        return None
    parts = urlsplit(said if "://" in said else "http://" + said)
    return (parts.hostname, parts.port or 80) if parts.hostname else None
