"""Where a bucket is and with which keys: s3://bucket/prefix and the environment's variables, checked."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple
from urllib.parse import urlsplit

from leasehold.kit.files.paths import UnsafePath, check_relative

from .vendors import AWS, HOST, PATH, Vendor, region_of, vendor_of

SCHEME = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}\Z")
_ENDPOINTS = ("LEASEHOLD_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_HEADER = re.compile(r"[!-~]+\Z")
KEY_NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
SECRET_NAMES = (*KEY_NAMES, "AWS_SESSION_TOKEN", *_ENDPOINTS, *_REGIONS, "LEASEHOLD_S3_STYLE")


class BadAddress(ValueError):
    """An address or a variable that cannot be used; str() names it and says what to write."""


class Address(NamedTuple):
    """A bucket, and the prefix below which keys lie ("" for none; never ends with a slash)."""

    bucket: str
    prefix: str = ""

    def key(self, name: str) -> str:
        """Return the whole key of a name below the prefix."""
        return "%s/%s" % (self.prefix, name) if self.prefix and name else self.prefix or name

    def __str__(self) -> str:
        return SCHEME + self.key_path()

    def key_path(self) -> str:
        """Return bucket/prefix."""
        return "%s/%s" % (self.bucket, self.prefix) if self.prefix else self.bucket


class Account(NamedTuple):
    """An endpoint and the keys for it. Never printed: repr() leaves the secrets out."""

    secure: bool
    host: str
    port: int
    region: str
    style: str
    vendor: Vendor
    access_key: str
    secret_key: str
    token: str = ""

    def __repr__(self) -> str:
        return "Account(%s, %s, %s)" % (self.endpoint, self.region, self.vendor.name)

    @property
    def endpoint(self) -> str:
        """Return the endpoint as people write it."""
        usual = 443 if self.secure else 80
        return "%s://%s" % ("https" if self.secure else "http", netloc(self.host, self.port, usual))

    def host_of(self, bucket: str) -> str:
        """Return the Host header of requests to a bucket."""
        host = "%s.%s" % (bucket, self.host) if self.style == HOST else self.host
        return netloc(host, self.port, 443 if self.secure else 80)


def is_address(text: object) -> bool:
    """Return whether a text is meant as the address of a bucket."""
    return isinstance(text, str) and text.startswith(SCHEME)


def parse_address(text: str) -> Address:
    """Read s3://bucket/prefix; raises BadAddress."""
    bucket, _, prefix = text[len(SCHEME) :].partition("/") if is_address(text) else ("", "", "")
    if not _BUCKET.match(bucket):
        raise BadAddress("%r names no bucket; write it like s3://bucket/prefix" % (text,))
    prefix = prefix.rstrip("/")
    if prefix:
        try:
            check_relative(prefix)
        except UnsafePath as error:
            raise BadAddress("%r: %s" % (text, error)) from None
    return Address(bucket, prefix)


def account_of(environ: Mapping[str, str], bucket: str) -> Account:
    """Read endpoint, region and keys from the environment; raises BadAddress, which never quotes a secret."""
    endpoint = _first(environ, _ENDPOINTS)
    named = _first(environ, _REGIONS)
    if named and not _REGION.match(named):
        raise BadAddress("AWS_REGION is %r, which is no region's name" % named[:80])
    if not endpoint:
        region = named or AWS.region
        endpoint = "https://s3.%s.amazonaws.com%s" % (region, ".cn" if region.startswith("cn-") else "")
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadAddress("the endpoint is no address: %s" % error) from None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.path not in ("", "/"):
        shown = "%s://%s%s" % (parts.scheme, host, parts.path)
        raise BadAddress("the endpoint %r must be like https://host or http://host:port, without a path" % shown)
    access, secret, token = (environ.get(name, "").strip() for name in (*KEY_NAMES, "AWS_SESSION_TOKEN"))
    missing = [name for name, value in zip(KEY_NAMES, (access, secret)) if not value]
    if missing:
        raise BadAddress("%s is not set; a bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" % missing[0])
    if not _HEADER.match(access) or (token and not _HEADER.match(token)):
        raise BadAddress("AWS_ACCESS_KEY_ID or AWS_SESSION_TOKEN holds a space or a line break")
    vendor = vendor_of(host)
    secure = parts.scheme == "https"
    style = _style(environ.get("LEASEHOLD_S3_STYLE", ""), vendor, bucket)
    region = named or region_of(vendor, host)
    return Account(secure, host, port or (443 if secure else 80), region, style, vendor, access, secret, token)


def netloc(host: str, port: int, usual: int) -> str:
    """Return host:port, without the usual port."""
    shown = "[%s]" % host if ":" in host else host
    return shown if port == usual else "%s:%d" % (shown, port)


def _style(said: str, vendor: Vendor, bucket: str) -> str:
    if said and said not in (PATH, HOST):
        raise BadAddress("LEASEHOLD_S3_STYLE is %r; it is path or host" % said[:20])
    if said:
        return said
    dotted = "." in bucket and vendor.style == HOST  # no certificate covers a.b.s3.amazonaws.com
    return PATH if dotted else vendor.style


def _first(environ: Mapping[str, str], names: "tuple[str, ...]") -> str:
    return next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")
