"""The HTTP door to a landlord's API: one request at a time, bounded in time and size, its key in a header only.

Reads are repeated a few times; an act is repeated only after "too fast", which says that it was not carried out; a
create is sent once. The standard library does it all: no HTTP/2, no pool and no streaming are needed here.
"""

from __future__ import annotations

import email.utils
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from leasehold import __version__
from leasehold.errors import AnswerLost, LandlordDown, TooFast, UserError
from leasehold.kit.text.safe_text import one_line
from leasehold.kit.wire.http_opener import open_here
from leasehold.platforms.landlords.answer import Answer

MOST_BYTES = 32 << 20
_PART_BYTES = 1 << 16
_SHOWN_CHARACTERS = 300
_FIRST_PAUSE_S = 1.0
_LOOK = "lease landlord sweep shows what the account holds"
_NEVER_LEFT = (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)  # no byte of it was sent
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Kind(Enum):
    """What a request does, which decides whether it may be repeated."""

    READ = "read"
    ACT = "act"  # harmless when carried out twice
    CREATE = "create"


@dataclass(frozen=True)
class Ask:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None  # as JSON; None: no body
    kind: Kind = Kind.READ


@dataclass(frozen=True)
class Reply:
    """One answer that arrived whole, with whatever status."""

    status: int
    value: Any  # JSON; None if there was no body, or none that is JSON
    text: str  # the beginning of the body, safe to show
    door: str

    @property
    def ok(self) -> bool:
        """Return whether the status is a success."""
        return 200 <= self.status < 300

    @property
    def answer(self) -> Answer:
        """Return the body as an object to read fields from."""
        return Answer(self.door, self.value)

    def made(self, read: Callable[[Answer], str]) -> str:
        """Read the id of what a create made; a success without a readable id leaves it unknown."""
        try:
            return read(self.answer)
        except LandlordDown as error:
            raise AnswerLost(
                "landlord.answer_lost",
                f"{self.door} answered a create with {self.status} and no id; whether it made a box is unknown",
                seen=f"{error.message}: {self.text}",
                hint=_LOOK,
            ) from None


@dataclass
class Door:
    """A landlord's API at one address with one key."""

    name: str  # for errors
    base: str
    headers: Mapping[str, str] = field(repr=False)
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    timeout_s: float = 20.0
    tries: int = 3
    patience_s: float = 20.0  # how long the pauses of one request may be in all
    ahead_s: float = 0.0  # the landlord's clock minus ours, from its latest answer

    def __post_init__(self) -> None:
        parts = urlsplit(self.base)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise UserError(
                "landlord.bad_url",
                f"{self.name}: {self.base} would send the key in the clear",
                hint="use https; http is allowed on this machine only",
            )

    def ours(self, vendor_unix: float) -> float:
        """Convert a time of the landlord's clock to ours."""
        return vendor_unix - self.ahead_s

    def send(self, ask: Ask) -> Reply:
        """Send a request and return what came; TooFast, LandlordDown and AnswerLost are raised here."""
        tries = self.tries if ask.kind is Kind.READ else 1
        paused_s, failures, pause_s = 0.0, 0, _FIRST_PAUSE_S
        while True:
            try:
                return self._once(ask)
            except TooFast as error:
                wait_s = pause_s if error.retry_after_s is None else error.retry_after_s
                if ask.kind is Kind.CREATE or paused_s + wait_s > self.patience_s:
                    raise
            except LandlordDown:
                failures, wait_s = failures + 1, pause_s
                if failures >= tries or paused_s + wait_s > self.patience_s:
                    raise
            self.sleep(wait_s)
            paused_s, pause_s = paused_s + wait_s, pause_s * 2

    def _once(self, ask: Ask) -> Reply:
        try:
            status, headers, body = self._exchange(ask)
        except (urllib.error.URLError, OSError, HTTPException, ValueError) as error:
            raise self._unanswered(ask, error) from None
        self._read_clock(headers)
        text = self.clean(body[: _SHOWN_CHARACTERS * 4].decode("utf-8", "replace"))
        if status == 429:
            raise TooFast(
                "landlord.too_fast",
                f"{self.name} was asked too often",
                seen=text,
                hint="wait a little, then repeat the command",
                retry_after_s=_seconds(headers.get("Retry-After"), self.clock() + self.ahead_s),
            )
        if status >= 500 or status == 408:
            raise self._failed(ask, f"{self.name} answered {status}", text)
        if 300 <= status < 400:
            raise self._failed(ask, f"{self.name} redirects {ask.path} elsewhere ({status})", text)
        value = self._value(ask, status, body, text)
        return Reply(status, value, text if value is None else self._spelled(value), self.name)

    def _exchange(self, ask: Ask) -> tuple[int, Mapping[str, str], bytes]:
        url = self.base.rstrip("/") + ask.path + ("?" + urlencode(ask.query) if ask.query else "")
        data = None if ask.body is None else json.dumps(ask.body, ensure_ascii=False).encode("utf-8")
        request = urllib.request.Request(url, data=data, method=ask.method)
        for name, value in {"Accept": "application/json", "User-Agent": f"leasehold/{__version__}"}.items():
            request.add_header(name, value)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in self.headers.items():
            request.add_unredirected_header(name, value)
        until = time.monotonic() + self.timeout_s * 2
        try:
            with open_here(request, self.timeout_s) as reply:
                return reply.status, dict(reply.headers), _bounded(reply, until)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), _bounded(error.fp, until)

    def _value(self, ask: Ask, status: int, body: bytes, text: str) -> Any:
        if not body.strip():
            return None
        try:
            return json.loads(body, parse_float=Decimal, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            if not 200 <= status < 300:
                return None
            raise self._failed(ask, f"{self.name} answered {status} with something that is not JSON", text) from None

    def _spelled(self, value: Any) -> str:
        """Spell a body as people read it: escapes such as \\u6682 become letters."""
        return self.clean(json.dumps(value, ensure_ascii=False, default=str))

    def _unanswered(self, ask: Ask, error: Exception) -> LandlordDown | AnswerLost:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        what = self.clean(str(reason) or type(reason).__name__)
        if isinstance(reason, _NEVER_LEFT):
            return LandlordDown("landlord.down", f"{self.name} cannot be reached", seen=what, hint="check the network")
        return self._failed(ask, f"{self.name} did not answer", what)

    def _failed(self, ask: Ask, message: str, seen: str) -> LandlordDown | AnswerLost:
        if ask.kind is Kind.READ:
            return LandlordDown("landlord.down", message, seen=seen, hint="repeat the command later")
        what = "whether it made a box" if ask.kind is Kind.CREATE else "whether it was carried out"
        return AnswerLost(
            "landlord.answer_lost",
            f"{message}; {what} is unknown",
            seen=seen,
            hint=_LOOK,
        )

    def _read_clock(self, headers: Mapping[str, str]) -> None:
        try:
            told = email.utils.parsedate_to_datetime(headers.get("Date", ""))
        except (TypeError, ValueError):
            return
        ahead = told.timestamp() - self.clock()
        self.ahead_s = ahead if abs(ahead) > 2 else 0.0  # below that it is rounding and the way here

    def clean(self, text: str) -> str:
        """Make a landlord's text safe to show: one short line, without the key."""
        for value in self.headers.values():
            for secret in {value, value.rpartition(" ")[2]}:
                text = text.replace(secret, "…") if secret else text
        return one_line(" ".join(text.split()))[:_SHOWN_CHARACTERS]


def _bounded(reply: Any, until: float) -> bytes:
    """Read a body whole, up to a size and a time: a server that sends a byte now and then must not hold us."""
    parts, size = [], 0
    while part := reply.read1(_PART_BYTES):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError(f"its answer is longer than {MOST_BYTES} bytes")
        if time.monotonic() > until:
            raise TimeoutError("its answer comes too slowly")
    if reply.length:
        raise ValueError(f"its answer was cut off {reply.length} bytes before its end")
    return b"".join(parts)


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _seconds(text: str | None, vendor_now: float) -> float | None:
    """Read Retry-After: seconds, or a date of the landlord's own clock."""
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - vendor_now)
    except (TypeError, ValueError):
        return None
