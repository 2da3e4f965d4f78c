"""Send one POST to a secret address: proxies are respected, redirects are not followed, errors name no address."""

from __future__ import annotations

import base64
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional

from leasehold.kit.wire.http_opener import escaped, open_here

_TIMEOUT_S = 20.0
_MOST_ANSWER_BYTES = 64 << 10
_SHORTEST_SECRET = 6  # shorter parts of an address are words like `send`
_PUBLIC = ("webhook", "cgi-bin", "services", "open-apis")  # in every such address, and in the vendors' own texts


class Trouble(Exception):
    """A notice that was not accepted: the reason, whether a retry may help, and how long the server asks us to wait."""

    def __init__(self, text: str, again: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.again = again
        self.wait_s = wait_s


class Post(NamedTuple):
    """The request."""

    url: str
    body: bytes
    headers: Mapping[str, str]


class Answer(NamedTuple):
    """The response."""

    status: int
    body: bytes
    wait_s: float  # Retry-After


def post(what: Post) -> Answer:
    """Send; return every HTTP answer, refusals included. Anything else raises OSError or HTTPException."""
    if not what.url.startswith(("https://", "http://")):
        raise Trouble("its address is not an http(s) address")
    request = urllib.request.Request(escaped(what.url), data=what.body, headers=dict(what.headers), method="POST")
    request.add_header("User-Agent", "leasehold")
    try:
        with open_here(request, _TIMEOUT_S) as answer:
            return _read(answer, answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return _read(error, error.code)


def taken(answer: Answer) -> None:
    """Judge by the HTTP status alone."""
    if 200 <= answer.status < 300:
        return
    said = answer.body.decode("utf-8", "replace").strip()
    if 300 <= answer.status < 400:
        said = "it points to another address, and secrets are not carried there: give that one"
    text = "HTTP %d %s" % (answer.status, http.client.responses.get(answer.status, ""))
    again = answer.status in (408, 425, 429) or answer.status >= 500
    raise Trouble(text.strip() + (": " + said if said else ""), again, answer.wait_s)


def hide(text: str, secrets: Iterable[str]) -> str:
    """Remove every secret, and every identifying part of one, from a text; the result is one line."""
    for word in sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True):
        text = text.replace(word, "(hidden)")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _read(answer: Any, status: int) -> Answer:
    return Answer(status, answer.read(_MOST_ANSWER_BYTES), _wait_s(answer.headers.get("Retry-After")))


def _wait_s(text: Optional[str]) -> float:
    if not text:
        return 0.0
    if text.strip().isdigit():
        return float(text.strip()[:9])
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may come back: whole, escaped, in base64, or part of an address."""
    whole, _, address = secret.rpartition("://")
    if whole:
        login, _, place = address.rpartition("@") if "@" in address.partition("/")[0] else ("", "", address)
        path = place.partition("/")[2]
        for part in [login, path, *re.split("[/?&=#:]", path), *login.split(":")]:
            yield from _forms(part)
    if len(secret) >= _SHORTEST_SECRET and secret not in _PUBLIC:
        yield secret
        yield urllib.parse.quote(secret)
        yield urllib.parse.quote(secret, safe="")
        yield base64.b64encode(secret.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")
