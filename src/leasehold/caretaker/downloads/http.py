"""Read HTTP answers one at a time: ranges, permanent failures, and connections that fall silent."""

from __future__ import annotations

import http.client
import re
import socket
import time
import urllib.error
import urllib.request
from typing import Any, Dict, Mapping, NamedTuple, Optional, Protocol
from urllib.parse import urlsplit

from leasehold.kit.tables.download_sources import is_near
from leasehold.kit.wire.http_opener import UnsafeRedirect, escaped, open_following

_CHUNK_BYTES = 1 << 18
_MOST_WAIT_S = 60.0
_FINAL = (400, 401, 404, 405, 406, 410, 451)
_RANGE = re.compile(r"bytes (\d+)-\d*/(\d+|\*)\Z")
TROUBLE = (OSError, http.client.HTTPException, ValueError)  # HTTPError and URLError are OSErrors


class Gone(Exception):
    """This route will never serve the file; str() gives the reason."""


class Later(OSError):
    """The server asks to retry later."""

    def __init__(self, text: str, wait_s: float) -> None:
        super().__init__(text)
        self.wait_s = min(wait_s, _MOST_WAIT_S)


class Opener(Protocol):
    """Opens an object at a byte."""

    def open_at(self, offset: int, validator: str, stall_s: float) -> "Answer":
        """Return the bytes from offset on, or from 0 if the object is another one now."""


class Route(NamedTuple):
    """One route to the same bytes."""

    url: str
    token: str = ""  # sent to this host alone, and only by https or to a host nearby
    opener: Optional[Opener] = None  # an object in a bucket: it signs its requests and reads several ranges at once

    @property
    def host(self) -> str:
        """Name for people."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def via(self) -> str:
        """Describe the way there: direct, or by which proxy."""
        parts = urlsplit(self.url)
        proxy = urllib.request.getproxies().get(parts.scheme)
        if not proxy or urllib.request.proxy_bypass(parts.netloc):
            return "direct"
        return "proxy " + (urlsplit(proxy).hostname or "")


class Answer(NamedTuple):
    """An open body: its start, the total length (None: not given), and the identifier of this version."""

    body: Any
    offset: int
    total: Optional[int]
    validator: str

    def read(self) -> bytes:
        """Return the bytes that came, up to a chunk; empty at the end. A silent connection raises."""
        data: bytes = self.body.read1(_CHUNK_BYTES)
        return data


def open_at(route: Route, offset: int, validator: str, stall_s: float) -> Answer:
    """Request the bytes from offset on; the answer may begin at 0 when the server does not support ranges."""
    if route.opener is not None:
        return route.opener.open_at(offset, validator, stall_s)
    headers = {"Accept-Encoding": "identity", "User-Agent": "leasehold"}
    if offset:
        headers["Range"] = "bytes=%d-" % offset
        if validator:
            headers["If-Range"] = validator
    try:
        body = _open(route, headers, stall_s)
    except urllib.error.HTTPError as error:
        if error.code == 416 and offset:
            return _open_past_end(route, stall_s)
        raise
    found = body.headers
    mark = found.get("ETag") or ""
    validator = "" if mark.startswith("W/") else mark or found.get("Last-Modified") or ""
    length = _whole(found.get("Content-Length"))
    if body.status != 206:
        return Answer(body, 0, length, validator)
    ranged = _RANGE.match(found.get("Content-Range") or "")
    if ranged is None or int(ranged.group(1)) != offset:
        raise ValueError("asked for byte %d on, answered %r" % (offset, found.get("Content-Range")))
    return Answer(body, offset, _whole(ranged.group(2)), validator)


def get_text(route: Route, stall_s: float, most_bytes: int) -> bytes:
    """Fetch a short answer as a whole."""
    with _open(route, {"User-Agent": "leasehold", "Accept": "application/json"}, stall_s) as body:
        data: bytes = body.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Gone("the answer is longer than %d bytes" % most_bytes)
    return data


def say(error: BaseException) -> str:
    """Format an error without any address."""
    if isinstance(error, urllib.error.HTTPError):
        return "HTTP %d %s" % (error.code, error.reason)
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        error = error.reason
    if isinstance(error, socket.timeout):
        return "no byte came in time"
    return "%s: %s" % (type(error).__name__, getattr(error, "strerror", None) or str(error)[:200])


def _open_past_end(route: Route, stall_s: float) -> Answer:
    """Start again: what we have is longer than the file."""
    body = _open(route, {"Accept-Encoding": "identity", "User-Agent": "leasehold"}, stall_s)
    return Answer(body, 0, _whole(body.headers.get("Content-Length")), "")


def _open(route: Route, headers: Mapping[str, str], stall_s: float) -> Any:
    request = urllib.request.Request(escaped(route.url), headers=dict(headers))
    if route.token and (route.url.startswith("https://") or is_near(route.url)):
        request.add_unredirected_header("Authorization", "Bearer " + route.token)
    try:
        return open_following(request, stall_s)
    except UnsafeRedirect as error:
        raise Gone(str(error)) from None
    except urllib.error.HTTPError as error:
        with error:
            _judge(error, error.filename != request.full_url, bool(route.token))
        raise


def _judge(error: urllib.error.HTTPError, moved: bool, had_token: bool) -> None:
    """Separate permanent failures from those worth a retry; a signed address that expired is requested anew."""
    if error.code in (401, 403) and not moved:
        hint = "the token was refused" if had_token else "is it gated or private? Put HF_TOKEN into `secrets`"
        raise Gone("HTTP %d %s (%s)" % (error.code, error.reason, hint)) from None
    if error.code in _FINAL:
        raise Gone("HTTP %d %s" % (error.code, error.reason)) from None
    wait = error.headers.get("Retry-After") if error.headers else None
    if error.code in (429, 503) and wait and wait.isdigit():
        raise Later("HTTP %d %s" % (error.code, error.reason), float(wait)) from None


def measure(route: Route, offset: int, limits: Mapping[str, float]) -> Dict[str, Any]:
    """Measure this route by the first seconds of the real transfer; discard the bytes and return their rate."""
    said: Dict[str, Any] = {"route": route.host, "via": route.via()}
    begun = time.monotonic()
    got = 0
    try:
        answer = open_at(route, offset, "", limits["probe_s"] * 3)
        with answer.body:
            while got < limits["probe_bytes"] and time.monotonic() - begun < limits["probe_s"]:
                chunk = answer.read()
                if not chunk:
                    break
                got += len(chunk)
    except (Gone, *TROUBLE) as error:
        return dict(said, bytes_per_s=0, problem=say(error) if not isinstance(error, Gone) else str(error))
    return dict(said, bytes_per_s=int(got / max(0.001, time.monotonic() - begun)))


def _whole(text: Optional[str]) -> Optional[int]:
    return int(text) if text and text.isdigit() else None
