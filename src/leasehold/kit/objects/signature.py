"""Sign requests with AWS Signature Version 4, in the Authorization header."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import Dict, Mapping, NamedTuple, Sequence, Tuple
from urllib.parse import quote

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()

Query = Sequence[Tuple[str, str]]


class Keys(NamedTuple):
    """What a signature is made with."""

    access: str
    secret: str
    token: str
    region: str


def quote_path(path: str) -> str:
    """Encode a path as S3 signs and takes it: once, each byte but the unreserved ones and the slash."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/-_.~")


def quote_query(query: Query) -> str:
    """Encode a query, sorted, as the signature needs it."""
    return "&".join("%s=%s" % pair for pair in sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in query))


def signed(
    keys: Keys, method: str, path: str, query: Query, headers: Mapping[str, str], payload: str, unix: float
) -> Dict[str, str]:
    """Return the headers with date, payload hash, token and Authorization; `headers` must name the Host."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(unix))
    out = dict(headers)
    out["x-amz-date"], out["x-amz-content-sha256"] = stamp, payload
    if keys.token:
        out["x-amz-security-token"] = keys.token
    lower = {name.lower(): " ".join(value.split()) for name, value in out.items()}
    names = ";".join(sorted(lower))
    lines = "".join("%s:%s\n" % (name, lower[name]) for name in sorted(lower))
    canonical = "\n".join((method, quote_path(path), quote_query(query), lines, names, payload))
    scope = "%s/%s/s3/aws4_request" % (stamp[:8], keys.region)
    digest = hashlib.sha256(canonical.encode("utf-8")).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, digest))
    proof = hmac.new(_signing_key(keys, stamp[:8]), text.encode("utf-8"), hashlib.sha256).hexdigest()
    out["Authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (
        keys.access, scope, names, proof,
    )  # fmt: skip
    return out


def _signing_key(keys: Keys, day: str) -> bytes:
    key = ("AWS4" + keys.secret).encode("utf-8")
    for part in (day, keys.region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode("utf-8"), hashlib.sha256).digest()
    return key
