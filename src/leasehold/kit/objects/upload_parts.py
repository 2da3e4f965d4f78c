"""A multipart upload: parts side by side, parts that a cut upload left are not sent again."""

from __future__ import annotations

import base64
import hashlib
import http.client
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Deque, Dict, List, NamedTuple, Optional, Tuple
from xml.sax.saxutils import escape

from leasehold.kit.refuge.place import REFUSED, PlaceError

from . import listing
from .bucket import Bucket, Request
from .failures import Refused
from .replies import BadReply, Node, parse, parse_fault
from .source import Source

PART_BYTES = 16 << 20
STREAMS = 4
_MOST_PARTS = 9000  # S3 takes 10,000
_MOST_BUFFER = 256 << 20
_STALE_S = 7 * 86400.0  # an unfinished upload of a key that we put again
_MIB = 1 << 20


class Sent(NamedTuple):
    """A part as the completing request names it."""

    number: int
    tag: str
    sha256: str  # base64


def part_bytes(size: int) -> int:
    """Return the size of each part but the last; the same for every upload of this many bytes."""
    least = -(-size // _MOST_PARTS)
    return max(PART_BYTES, -(-least // _MIB) * _MIB)


def begin_upload(bucket: Bucket, key: str, size: int, resume: bool = True) -> "PartedUpload":
    """Continue the newest unfinished upload of this very key and geometry, or begin one."""
    if resume:
        found = _unfinished(bucket, key, size)
        if found is not None:
            return found
    headers: Tuple[Tuple[str, str], ...] = (("Content-Type", "application/octet-stream"),)
    if bucket.checksums:
        headers += (("x-amz-checksum-algorithm", "SHA256"),)
    request = Request("POST", key, (("uploads", ""),), headers, verb="begin an upload of")
    root = parse_or_cut(bucket.run_raw(lambda: request, lambda answer: answer.read(1 << 20)))
    return PartedUpload(bucket, key, size, root.say("UploadId"))


class PartedUpload:
    """One upload; send() its parts, then complete()."""

    def __init__(
        self, bucket: Bucket, key: str, size: int, upload: str, there: Optional[Dict[int, listing.Part]] = None
    ) -> None:
        if not upload:
            raise PlaceError(REFUSED, "%s: the store begins an upload without an id" % str(bucket.address))
        self.bucket = bucket
        self.key = key
        self.size = size
        self.id = upload
        self.part_bytes = part_bytes(size)
        self.reused = 0  # parts that were there already
        self._there = there or {}
        self._by_tag = False
        self._sent: List[Sent] = []
        self._lock = threading.Lock()

    def send(self, source: Source) -> None:
        """Read the source in order and send the parts that are missing."""
        spans = [(at, min(self.part_bytes, self.size - at)) for at in range(0, self.size, self.part_bytes)]
        streams = max(1, min(STREAMS, len(spans), _MOST_BUFFER // self.part_bytes))
        pool = ThreadPoolExecutor(streams, "objects")
        waiting: Deque[Tuple["Future[None]", bytearray]] = Deque()
        free = [bytearray(min(self.part_bytes, self.size)) for _ in range(streams + 1)]
        try:
            for number, (_, size) in enumerate(spans, 1):
                if not free:
                    _free_one(waiting, free)
                room = free.pop()
                view = memoryview(room)[:size]
                source.fill(view)
                waiting.append((pool.submit(self._send_part, number, view), room))
            source.finish()
            while waiting:
                _free_one(waiting, free)
        finally:
            for future, _ in waiting:
                future.cancel()
            pool.shutdown(wait=True)

    def complete(self) -> bool:
        """Make the object of the parts; return whether every part is proven by more than an ETag."""
        rows = []
        for sent in sorted(self._sent):
            check = "<ChecksumSHA256>%s</ChecksumSHA256>" % sent.sha256 if sent.sha256 else ""
            rows.append(
                '<Part><PartNumber>%d</PartNumber><ETag>"%s"</ETag>%s</Part>' % (sent.number, escape(sent.tag), check)
            )
        body = "<CompleteMultipartUpload>%s</CompleteMultipartUpload>" % "".join(rows)
        headers = (("Content-Type", "application/xml"),)
        request = Request("POST", self.key, (("uploadId", self.id),), headers, body.encode("utf-8"), verb="complete")
        tries = [0]

        def make() -> Request:
            tries[0] += 1
            return request

        try:
            self.bucket.run_raw(make, _completed)
        except Refused as refused:
            if refused.fault.code != "NoSuchUpload" or tries[0] < 2:
                raise
            return False  # the first try was cut after the store had done it; the object's bytes must tell
        return not self._by_tag

    def abort(self) -> None:
        """Delete the parts; what remains is found and ended later."""
        request = Request("DELETE", self.key, (("uploadId", self.id),), verb="end an upload of")
        try:
            self.bucket.run_raw(lambda: request, lambda answer: answer.read())
        except (Refused, PlaceError):
            return

    def _send_part(self, number: int, view: memoryview) -> None:
        digest = hashlib.sha256(view).digest()
        code = base64.b64encode(digest).decode("ascii") if self.bucket.checksums else ""
        have = self._there.get(number)
        if have is not None and self._same(have, view, digest):
            self._note(Sent(number, have.tag, code))
            return
        query = (("partNumber", str(number)), ("uploadId", self.id))
        headers = self.bucket.checksum_headers(digest)
        request = Request("PUT", self.key, query, headers, view, digest.hex(), "put part %d of" % number)
        tag = self.bucket.run_raw(lambda: request, _tag)
        self._note(Sent(number, tag, code))

    def _same(self, have: listing.Part, view: memoryview, digest: bytes) -> bool:
        """Return whether the store's part is this one: by its checksum, or for now by its ETag."""
        if have.bytes != len(view):
            return False
        if have.sha256:
            same = have.sha256 == base64.b64encode(digest).decode("ascii")
        else:
            same = have.tag.lower() == hashlib.md5(view).hexdigest()
        with self._lock:
            self.reused += same
            # Neither proves what the store holds: it repeats what it was told, or hashed on arrival.
            self._by_tag = self._by_tag or same
        return same

    def _note(self, sent: Sent) -> None:
        with self._lock:
            self._sent.append(sent)


def _unfinished(bucket: Bucket, key: str, size: int) -> Optional[PartedUpload]:
    """Find an upload to continue; end those of this key that nobody continues."""
    try:
        found = sorted((one for one in listing.uploads(bucket, key) if one.key == key), key=lambda one: -one.begun_unix)
    except PlaceError as error:
        if error.kind != REFUSED:
            raise
        return None  # the keys may not list, or the store cannot: begin anew
    now = bucket.timing.now() + bucket.clock_ahead_s
    for one in found:
        if now - one.begun_unix > _STALE_S:
            PartedUpload(bucket, key, size, one.id).abort()
            continue
        try:
            there = listing.parts(bucket, key, one.id)
        except PlaceError:
            continue
        if there and _fits(there, size):
            return PartedUpload(bucket, key, size, one.id, there)
    return None


def _fits(there: Dict[int, listing.Part], size: int) -> bool:
    """Return whether parts were cut as we cut this size; another program's upload is left alone."""
    step = part_bytes(size)
    count = -(-size // step)
    return all(
        1 <= number <= count and part.bytes == min(step, size - (number - 1) * step) for number, part in there.items()
    )


def _free_one(waiting: "Deque[Tuple[Future[None], bytearray]]", free: List[bytearray]) -> None:
    future, room = waiting.popleft()
    future.result()
    free.append(room)


def _tag(answer: http.client.HTTPResponse) -> str:
    answer.read()
    return (answer.headers.get("ETag") or "").strip().strip('"')


def _completed(answer: http.client.HTTPResponse) -> None:
    """Read the outcome, which may be an error in an answer that began as a success."""
    data = answer.read(1 << 20)
    root = parse_or_cut(data)
    if root.name != "CompleteMultipartUploadResult":
        fault = parse_fault(data)
        raise Refused(500 if fault.code in ("", "InternalError", "SlowDown", "ServiceUnavailable") else 400, fault)


def parse_or_cut(data: bytes) -> Node:
    """Read XML; what is none counts as a cut answer, which is asked for again."""
    try:
        return parse(data)
    except BadReply as error:
        raise http.client.HTTPException("the answer %s" % error) from None
