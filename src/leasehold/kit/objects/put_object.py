"""Put one object: small ones at once, large ones in parts that arrive side by side and are resumed after a cut."""

from __future__ import annotations

from typing import Callable, TypeVar

from leasehold.kit.refuge.place import SourceChanged

from .bucket import CHECKSUM, Bucket, Request
from .failures import Refused, is_full, place_error
from .source import Source
from .upload_parts import PartedUpload, begin_upload

SINGLE_BYTES = 16 << 20  # up to this size one request carries the object

_T = TypeVar("_T")


def put_object(bucket: Bucket, key: str, source: Source) -> bool:
    """Put a whole object; return whether its bytes were proven to be the source's by what this call itself sent.

    False: parts of an earlier, cut upload were taken over because only their ETags agree, so read the object back.
    """
    if source.size <= SINGLE_BYTES:
        put_small(bucket, key, source.all(), source.sha256)
        return True
    return checked(bucket, key, lambda: _in_parts(bucket, key, source))


def put_small(bucket: Bucket, key: str, data: bytes, sha256: str) -> None:
    """Put an object in one request."""
    digest = bytes.fromhex(sha256)

    def put() -> None:
        headers = (("Content-Type", "application/octet-stream"), *bucket.checksum_headers(digest))
        request = Request("PUT", key, headers=headers, body=data, sha256=sha256)
        bucket.run_raw(lambda: request, lambda answer: answer.read())

    checked(bucket, key, put)


def checked(bucket: Bucket, key: str, act: Callable[[], _T]) -> _T:
    """Do something that sends checksums; once more without them where the store refuses the header."""
    try:
        try:
            return act()
        except Refused as refused:
            if not bucket.checksums or not (refused.unsupported(CHECKSUM) or refused.unsupported("checksum")):
                raise
            bucket.checksums = False
            return act()
    except Refused as refused:
        raise place_error(refused, bucket.asked(Request("PUT", key))) from None


def _in_parts(bucket: Bucket, key: str, source: Source) -> bool:
    source.rewind()
    upload = begin_upload(bucket, key, source.size, bucket.resumes)
    try:
        upload.send(source)
        return upload.complete()
    except SourceChanged:
        upload.abort()
        raise
    except Refused as refused:
        if refused.fault.code in ("NoSuchUpload", "InvalidPart", "InvalidPartOrder"):
            return _from_nothing(bucket, key, source, upload)
        if is_full(refused):
            upload.abort()  # its parts take up the room that is missing
        raise


def _from_nothing(bucket: Bucket, key: str, source: Source, old: PartedUpload) -> bool:
    """Send everything again: the upload that was continued was ended, or changed by somebody else."""
    old.abort()
    source.rewind()
    upload = begin_upload(bucket, key, source.size, resume=False)
    upload.send(source)
    return upload.complete()
