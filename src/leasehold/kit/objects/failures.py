"""What a store's refusals mean: try again, or a kind of PlaceError with a sentence that says what to do."""

from __future__ import annotations

from typing import NamedTuple

from leasehold.kit.refuge.place import FULL, LYING, READ_ONLY, REFUSED, UNREACHABLE, Absent, PlaceError

from .replies import Fault

_AGAIN_STATUS = (408, 429, 500, 502, 503, 504)
_AGAIN_CODES = ("RequestTimeout", "SlowDown", "InternalError", "ServiceUnavailable", "ConditionalRequestConflict",
                "OperationAborted", "Throttling", "TooManyRequests", "BadDigest", "XAmzContentSHA256Mismatch",
                "IncompleteBody")  # fmt: skip
_SKEW = ("RequestTimeTooSkewed", "RequestExpired")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "SecurityTokenExpired")
_FULL = ("QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "StorageFull", "InsufficientStorage",
         "InsufficientCapacity", "StorageQuotaExceeded", "StorageLimitExceeded", "cap_exceeded", "StorageCapExceeded",
         "TransactionCapExceeded", "EntityTooLarge", "UserDisable")  # fmt: skip
_READ_ONLY = ("MethodNotAllowed", "ReadOnly", "ReadOnlyFileSystem", "AccountReadOnly", "InvalidObjectState",
              "ObjectLocked")  # fmt: skip
_CORRUPT = ("BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "InvalidDigest")
EXISTS = ("PreconditionFailed", "FileAlreadyExists", "ObjectAlreadyExists")
_UNSUPPORTED = ("NotImplemented", "InvalidArgument", "InvalidRequest", "UnsupportedHeader", "XNotImplemented")


class Asked(NamedTuple):
    """What was asked for, as messages name it."""

    verb: str  # "put", "read", "list", …
    where: str  # s3://bucket/key
    bucket: str
    endpoint: str


class Refused(Exception):
    """The store answered with an error; `status` and `fault` say which."""

    def __init__(self, status: int, fault: Fault) -> None:
        super().__init__("HTTP %d %s" % (status, fault.code))
        self.status = status
        self.fault = fault

    @property
    def again(self) -> bool:
        """Return whether the same request may succeed later."""
        if is_full(self):
            return False
        return self.fault.code in _AGAIN_CODES or (self.status in _AGAIN_STATUS and self.fault.code not in _CORRUPT)

    @property
    def skewed(self) -> bool:
        """Return whether the store takes our clock for wrong."""
        late = self.fault.code == "AccessDenied" and "expired" in self.fault.message.lower()
        return self.fault.code in _SKEW or late

    @property
    def exists(self) -> bool:
        """Return whether a conditional request found that the object is there."""
        return self.fault.code in EXISTS or self.status == 412

    @property
    def absent(self) -> bool:
        """Return whether the object, not its bucket, is missing."""
        return self.status == 404 and self.fault.code not in ("NoSuchBucket", "NoSuchUpload")

    def unsupported(self, header: str) -> bool:
        """Return whether the store refuses a header of ours."""
        text = (self.fault.message + " " + " ".join(self.fault.facts.values())).lower()
        named = header.lower() in text or "header" in text
        return self.status == 501 or (self.status in (400, 405) and self.fault.code in _UNSUPPORTED and named)


def is_full(refused: Refused) -> bool:
    """Return whether the bucket or account has no room or a reached quota."""
    return refused.status == 507 or refused.fault.code in _FULL


def place_error(refused: Refused, asked: Asked) -> PlaceError:
    """Turn an answer into the error that callers see."""
    code, seen = refused.fault.code, _seen(refused)
    start = "%s: cannot %s: " % (asked.where, asked.verb)
    if is_full(refused):
        return PlaceError(FULL, start + "no room or a reached quota (%s); delete what is not needed or raise it" % seen)
    if code == "NoSuchBucket":
        text = "%s has no bucket %r (%s); create it, or correct the name or the endpoint"
        return PlaceError(REFUSED, start + text % (asked.endpoint, asked.bucket, seen))
    if refused.absent:
        return Absent("%s: it is not there (%s)" % (asked.where, seen))
    if code in _EXPIRED:
        return PlaceError(REFUSED, start + "the session token has expired or is not valid (%s); give new keys" % seen)
    if refused.skewed:
        return PlaceError(REFUSED, start + "this machine's clock is wrong (%s); set it" % seen)
    if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthorizationHeaderMalformed", "InvalidSecurity"):
        text = "%s does not accept the keys (%s); check the AWS_* secrets, the region and the endpoint"
        return PlaceError(REFUSED, start + text % (asked.endpoint, seen))
    if code in _READ_ONLY or refused.status == 405:
        return PlaceError(READ_ONLY, start + "it takes no writes (%s)" % seen)
    if code in _CORRUPT:
        return PlaceError(LYING, start + "other bytes arrived than were sent, more than once (%s)" % seen)
    if refused.status in (401, 403):
        return PlaceError(REFUSED, start + "the keys may not do this (%s); allow it in the bucket's policy" % seen)
    if refused.again:
        return PlaceError(UNREACHABLE, start + "the store stays busy or broken (%s); it is tried again later" % seen)
    return PlaceError(REFUSED, start + "the store refused (%s)" % seen)


def cut_error(why: str, asked: Asked) -> PlaceError:
    """Return the error of a store that cannot be reached, or whose connections keep breaking."""
    text = "%s: cannot %s: %s does not answer (%s)"
    return PlaceError(UNREACHABLE, text % (asked.where, asked.verb, asked.endpoint, why))


def _seen(refused: Refused) -> str:
    text = "HTTP %d" % refused.status
    if refused.fault.code:
        text += " %s" % refused.fault.code
    if refused.fault.message:
        text += ": %s" % " ".join(refused.fault.message.split())[:160]
    return text
