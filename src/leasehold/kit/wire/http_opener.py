"""Open an HTTP address, with or without following redirects: proxies are respected, secrets stay with their host."""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

_MOST_REDIRECTS = 10


class UnsafeRedirect(Exception):
    """A server redirects to an address that must not be followed; str() gives the reason."""


def open_here(request: urllib.request.Request, timeout_s: float) -> Any:
    """Open an address whose secret is for this host alone; a redirect raises HTTPError with its 3xx code."""
    return urllib.request.build_opener(_NoRedirects()).open(request, timeout=timeout_s)


def open_following(request: urllib.request.Request, timeout_s: float) -> Any:
    """Open an address and follow redirects; an HTTPError's `filename` is the address that answered."""
    return urllib.request.build_opener(_Redirects()).open(request, timeout=timeout_s)


def escaped(url: str) -> str:
    """Escape characters that an address must not contain: spaces, 中文."""
    return quote(url, safe="%/:=&?~#+!$,;'@()*[]")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; passes Authorization on to the same origin only, and never from https to http."""

    max_redirections = _MOST_REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request:
        target = urljoin(req.full_url, newurl)
        old, new = urlsplit(req.full_url), urlsplit(target)
        if new.scheme not in ("http", "https") or (old.scheme == "https" and new.scheme != "https"):
            raise UnsafeRedirect("it redirects to %s://, which is not safe" % new.scheme)
        request = urllib.request.Request(escaped(target), headers=dict(req.headers))
        auth = req.unredirected_hdrs.get("Authorization")
        if auth and (old.scheme, old.netloc) == (new.scheme, new.netloc):
            request.add_unredirected_header("Authorization", auth)
        return request

    def http_error_308(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Follow 308 as 302: Python 3.8 does not know it."""
        return self.http_error_302(req, fp, code, msg, headers)
