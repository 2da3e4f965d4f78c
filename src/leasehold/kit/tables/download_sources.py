"""The source of a download: a URL, a bucket's object or folder, or a repository of a hub with a revision and files."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from leasehold.kit.files.paths import UnsafePath, check_relative

HUBS = ("hf", "hf-dataset", "modelscope")
BUCKET = "s3"
ADDRESSES = ("url", BUCKET)  # kinds that bring no sizes and hashes of their own
_HUB = re.compile(r"(hf|hf-dataset|modelscope):([^@:]+)(?:@([^:]+))?(?::(.+))?\Z", re.DOTALL)
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}\Z")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*\Z")
_NEAR = ("127.0.0.1", "localhost", "::1")


class BadSource(ValueError):
    """A source that cannot be used; str() gives the reason."""


class Source(NamedTuple):
    """One source of a download."""

    kind: str  # url, s3, or one of HUBS
    name: str  # the URL, bucket/key, or org/name
    revision: str = ""
    pattern: str = ""  # files of a repository; empty: all

    @property
    def safe(self) -> bool:
        """Return whether nobody in between can change what arrives."""
        return self.kind != "url" or self.name.startswith("https://") or is_near(self.name)


def parse_source(text: object) -> Source:
    """Read https://…, s3://…, hf:org/name[@revision][:files], hf-dataset:… or modelscope:…; raises BadSource."""
    if not isinstance(text, str) or not text.strip() or any(ord(char) < 33 for char in text):
        raise BadSource("%r is not an address: spaces and control characters must be escaped" % (text,))
    if text.startswith("s3://"):
        return _bucket(text)
    hub = _HUB.match(text)
    if hub is None:
        return _url(text)
    kind, name, revision, pattern = hub.group(1), hub.group(2), hub.group(3) or "", hub.group(4) or ""
    if not _REPO.match(name) or (kind == "modelscope" and "/" not in name):
        raise BadSource("%r names no repository; write it like %s:org/name" % (name, kind))
    if revision and (not _REVISION.match(revision) or ".." in revision):
        raise BadSource("%r is not a branch, tag or commit" % revision)
    if pattern:
        try:
            check_relative(pattern)
        except UnsafePath as error:
            raise BadSource(str(error)) from None
    return Source(kind, name, revision, pattern)


def plain_url(text: str) -> str:
    """Format an address without its query and user: those may hold tokens."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        netloc = host + (":%d" % parts.port if parts.port else "")
    except ValueError:
        return "(address)"
    return urlunsplit((parts.scheme, netloc, parts.path, "", "")) if parts.scheme in ("http", "https") else text


def is_near(url: str) -> bool:
    """Return whether an address is this machine itself."""
    return urlsplit(url).hostname in _NEAR


def _bucket(text: str) -> Source:
    bucket, _, key = text[len("s3://") :].partition("/")
    if not _BUCKET.match(bucket) or not key.strip("/"):
        raise BadSource("%r names no bucket and key; write it like s3://bucket/key, or s3://bucket/folder/" % text)
    try:
        check_relative(key.rstrip("/"))
    except UnsafePath as error:
        raise BadSource(str(error)) from None
    return Source(BUCKET, "%s/%s" % (bucket, key))


def _url(text: str) -> Source:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise BadSource("%r is not an address: %s" % (text, error)) from None
    if parts.scheme not in ("https", "http") or not host:
        raise BadSource("%r is neither https://…, s3://… nor %s" % (text, ", ".join("%s:…" % hub for hub in HUBS)))
    if parts.username or parts.password:
        raise BadSource("%s carries a user or password; job files are stored" % plain_url(text))
    if not parts.path or parts.path.endswith("/"):
        raise BadSource("%s names no file" % plain_url(text))
    return Source("url", text)
