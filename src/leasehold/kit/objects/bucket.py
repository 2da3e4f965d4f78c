"""One bucket: signed requests over kept connections, with bounded tries."""

from __future__ import annotations

import base64
import hashlib
import http.client
import random
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple, TypeVar, Union

from leasehold.kit.refuge.place import REFUSED, PlaceError
from leasehold.kit.text.safe_text import one_line

from .address import Account, Address
from .connections import STALL_S, Connections, plain_proxy, say_trouble, send
from .failures import Asked, Refused, cut_error, place_error
from .replies import MOST_BYTES, BadReply, Node, parse, parse_fault
from .signature import EMPTY_SHA256, UNSIGNED, Keys, Query, quote_path, quote_query, signed

_T = TypeVar("_T")
_CUT = (OSError, http.client.HTTPException)
CHECKSUM = "x-amz-checksum-sha256"
TRIES = 6
_FIRST_PAUSE_S = 0.4
_MOST_PAUSE_S = 20.0
_AGENT = "leasehold"

Body = Union[bytes, memoryview]


class Request(NamedTuple):
    """One request; `key` is the whole key in the bucket."""

    method: str
    key: str = ""
    query: Query = ()
    headers: Tuple[Tuple[str, str], ...] = ()
    body: Body = b""
    sha256: str = ""  # of the body, if the caller knows it
    verb: str = ""  # for messages


class Timing(NamedTuple):
    """Clock and pauses; a test gives its own."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    stall_s: float = STALL_S
    tries: int = TRIES


class Bucket:
    """A bucket of a store. Threads may share it."""

    def __init__(self, address: Address, account: Account, timing: Optional[Timing] = None) -> None:
        self.address = address
        self.account = account
        self.timing = timing or Timing()
        self.region = account.region
        self.clock_ahead_s = 0.0  # of the store's clock, once it has refused ours
        self.checksums = account.vendor.checksum
        self.resumes = True  # continue uploads that were cut
        self.requests = 0
        self._wires = Connections(account, address.bucket, self.timing.stall_s)

    def close(self) -> None:
        """Close idle connections."""
        self._wires.close()

    def ask(self, request: Request) -> "Answer":
        """Send a request and read its whole, short answer; raises PlaceError."""
        return self.run(lambda: request, _read_short)

    def ask_xml(self, request: Request) -> Node:
        """Send a request and read its XML; an answer that is no XML raises PlaceError."""
        answer = self.ask(request)
        try:
            return parse(answer.body)
        except BadReply as error:
            asked = self.asked(request)
            raise PlaceError(
                REFUSED, "%s: cannot %s: the answer is not S3's: %s" % (asked.where, asked.verb, error)
            ) from None

    def run(self, make: Callable[[], Request], take: Callable[[http.client.HTTPResponse], _T]) -> _T:
        """Send what `make` returns until `take` has read a good answer; raises PlaceError after bounded tries."""
        try:
            return self.run_raw(make, take)
        except Refused as refused:
            raise place_error(refused, self.asked(make())) from None

    def run_raw(self, make: Callable[[], Request], take: Callable[[http.client.HTTPResponse], _T]) -> _T:
        """As run(), but the last refusal is raised as Refused; PlaceError only where no answer came."""
        tries, healed = 0, set()
        while True:
            tries += 1
            last: Exception
            try:
                return self._once(make(), take)
            except Refused as refused:
                cure = self._heal(refused)
                if cure and cure not in healed:
                    healed.add(cure)
                    continue
                if not refused.again or tries >= self.timing.tries:
                    raise
                last = refused
            except ssl.SSLCertVerificationError as error:
                asked = self.asked(make())
                text = "%s: cannot %s: %s: %s" % (asked.where, asked.verb, asked.endpoint, say_trouble(error))
                raise PlaceError(REFUSED, text) from None
            except _CUT as error:
                if tries >= self.timing.tries:
                    raise cut_error(say_trouble(error), self.asked(make())) from None
                last = error
            self.timing.sleep(_pause(tries, last))

    def asked(self, request: Request) -> Asked:
        """Describe a request for messages."""
        where = one_line("s3://%s/%s" % (self.address.bucket, request.key) if request.key else str(self.address))
        return Asked(request.verb or request.method.lower(), where, self.address.bucket, self.account.endpoint)

    def checksum_headers(self, digest: bytes) -> Tuple[Tuple[str, str], ...]:
        """Return the header by which a store can check what arrived, if it takes it."""
        return ((CHECKSUM, base64.b64encode(digest).decode("ascii")),) if self.checksums else ()

    # ---------------------------------------------------------------- one try

    def _once(self, request: Request, take: Callable[[http.client.HTTPResponse], _T]) -> _T:
        while True:
            with self._wires.one() as loan:
                try:
                    loan.response = response = self._send(loan.wire, request)
                except _CUT:
                    if loan.used:
                        continue  # the server had closed it while it was idle
                    raise
                if 200 <= response.status < 300:
                    return take(response)
                raise self._refused(response)

    def _send(self, wire: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        self.requests += 1
        host = self.account.host_of(self.address.bucket)
        path = "/" + request.key if self.account.style == "host" else "/%s/%s" % (self.address.bucket, request.key)
        if self.account.style != "host" and not request.key:
            path = "/" + self.address.bucket
        headers = {"Host": host, "User-Agent": _AGENT, **dict(request.headers)}
        if request.method in ("PUT", "POST"):
            headers["Content-Length"] = str(len(request.body))
        keys = Keys(self.account.access_key, self.account.secret_key, self.account.token, self.region)
        ready = signed(
            keys, request.method, path, request.query, _to_sign(headers), self._payload(request),
            self.timing.now() + self.clock_ahead_s,
        )  # fmt: skip
        target = quote_path(path) + ("?" + quote_query(request.query) if request.query else "")
        if plain_proxy(self.account.secure, host):
            target = "http://%s%s" % (host, target)
        send(wire, request.method, target, {**headers, **ready}, request.body)
        return wire.getresponse()

    def _payload(self, request: Request) -> str:
        """Return the hash that is signed: over http always the body's, over https where it is known."""
        if not request.body:
            return EMPTY_SHA256
        if request.sha256:
            return request.sha256
        return UNSIGNED if self.account.secure else hashlib.sha256(request.body).hexdigest()

    def _refused(self, response: http.client.HTTPResponse) -> Refused:
        fault = parse_fault(response.read(256 << 10))
        facts = dict(fault.facts)
        for name, header in (("Date", "Date"), ("BucketRegion", "x-amz-bucket-region")):
            facts[name] = response.headers.get(header) or ""
        return Refused(response.status, fault._replace(facts=facts))

    def _heal(self, refused: Refused) -> str:
        """Correct what the refusal itself explains, each at most once: our clock, the region, an unknown header."""
        if refused.skewed:
            there = _unix(refused.fault.facts.get("Date", "")) or _unix_iso(refused.fault.facts.get("ServerTime", ""))
            if there is None or abs(there - self.timing.now() - self.clock_ahead_s) < 60:
                return ""
            self.clock_ahead_s = there - self.timing.now()
            return "clock"
        region = refused.fault.facts.get("BucketRegion") or refused.fault.facts.get("Region") or ""
        if refused.status in (301, 307, 400) and region and region != self.region and region.replace("-", "").isalnum():
            self.region = region
            return "region"
        return ""


class Answer(NamedTuple):
    """A short answer: its headers, lower case, and its body."""

    headers: Mapping[str, str]
    body: bytes


def _read_short(response: http.client.HTTPResponse) -> Answer:
    promised = response.length
    body = response.read(MOST_BYTES + 1)
    if promised is not None and len(body) < min(promised, MOST_BYTES):
        raise http.client.IncompleteRead(body, promised - len(body))
    if len(body) > MOST_BYTES:
        raise http.client.HTTPException("the answer is longer than %d bytes" % MOST_BYTES)
    headers: Dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Answer(headers, body)


def _to_sign(headers: Mapping[str, str]) -> Dict[str, str]:
    """Leave out what proxies on the way may change."""
    return {name: value for name, value in headers.items() if name not in ("User-Agent", "Content-Length")}


def _pause(tries: int, last: Any) -> float:
    """Return how long to wait: twice as long each time, and by chance, so that many do not come at once."""
    longest: float = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1))
    busy = isinstance(last, Refused) and last.status in (429, 503)
    return longest * (1.0 if busy else 0.5) * (0.5 + random.random() / 2)


def _unix(date: str) -> Optional[float]:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (TypeError, ValueError, IndexError):
        return None


def _unix_iso(date: str) -> Optional[float]:
    return unix_of(date) if date else None


def unix_of(date: str) -> Optional[float]:
    """Read a time as S3 writes it: 2026-11-19T20:54:59.996Z."""
    import calendar

    try:
        return float(calendar.timegm(time.strptime(date[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None
