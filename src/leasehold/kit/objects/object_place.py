"""A bucket as a place: the same seven methods as a folder on a tier has."""

from __future__ import annotations

import base64
import hashlib
from typing import BinaryIO, Callable, Iterator, Mapping, Optional

from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.refuge.place import REFUSED, Absent, PlaceError, Stored

from . import listing
from .address import Account, Address, BadAddress, account_of, parse_address
from .bucket import CHECKSUM, Bucket, Request, Timing
from .create_only import SCRATCH, Creator
from .failures import Refused, place_error
from .put_object import put_object
from .read_ranges import ObjectReader
from .source import Source

Tick = Callable[[int], None]


class ObjectPlace:
    """Keeps objects below a prefix of a bucket. `tick` is called with the bytes as they move; it may pause."""

    page = 1000  # objects that one answer lists

    def __init__(
        self, address: Address, account: Account, timing: Optional[Timing] = None, tick: Tick = lambda _: None
    ) -> None:
        self.bucket = Bucket(address, account, timing)
        self.where = str(address)
        self._tick = tick
        self.creator = Creator(self.bucket)

    def put(self, key: str, source: BinaryIO, size: int, sha256: str) -> None:
        """Put a whole object; large ones in parts, resumed after a cut."""
        whole = self._key(key)
        begin = source.tell() if source.seekable() else 0
        if put_object(self.bucket, whole, Source(source, size, sha256, self._tick)) or self.read_back(key) == sha256:
            return
        # Parts of an earlier upload had the right ETags and other bytes. Its object is deleted, and all is sent again.
        self.delete(key)
        self.bucket.resumes = False
        source.seek(begin)
        put_object(self.bucket, whole, Source(source, size, sha256, self._tick))

    def put_new(self, key: str, data: bytes) -> bool:
        """Create an object only if the key is free."""
        return self.creator.create(self._key(key), data)

    def get(self, key: str, start: int = 0, length: Optional[int] = None) -> Iterator[bytes]:
        """Read an object or a part of it, several ranges at once, in order."""
        reader = ObjectReader(self.bucket, self._key(key), start, length).open()
        return (bytes(block) for block in reader.blocks())

    def list(self, prefix: str) -> Iterator[Stored]:
        """List whole objects whose key begins with the prefix."""
        skip = len(self.bucket.address.key("x")) - 1
        for one in listing.objects(self.bucket, self.bucket.address.prefix + "/" * bool(skip) + prefix, self.page):
            key = one.key[skip:]
            if key and not key.endswith("/"):  # consoles make folders that way
                yield Stored(key, one.bytes, one.modified_unix)

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is no error."""
        request = Request("DELETE", self._key(key))
        try:
            self.bucket.run_raw(lambda: request, lambda answer: answer.read())
        except Refused as refused:
            if not refused.absent:
                raise place_error(refused, self.bucket.asked(request)) from None

    def size(self, key: str) -> int:
        """Return an object's size; Absent if it is not there."""
        reader = ObjectReader(self.bucket, self._key(key), 0, 1).open()
        return reader.head.total

    def read_back(self, key: str) -> str:
        """Read the object again from the store, every byte, and return its sha256."""
        sha = hashlib.sha256()
        for block in ObjectReader(self.bucket, self._key(key)).open().blocks():
            sha.update(block)
            self._tick(len(block))
        return sha.hexdigest()

    def refuses_wrong_checksums(self, name: str) -> bool:
        """Put a scratch object with the checksum of other bytes; return whether the store refuses it."""
        key = self.bucket.address.key("%s/%s" % (SCRATCH, name))
        wrong = ((CHECKSUM, base64.b64encode(b"\0" * 32).decode("ascii")),)
        timing, self.bucket.timing = self.bucket.timing, self.bucket.timing._replace(tries=1)
        try:
            request = Request("PUT", key, headers=wrong, body=b"1")
            self.bucket.run_raw(lambda: request, lambda answer: answer.read())
        except Refused as refused:
            if refused.status == 400:
                return not refused.unsupported(CHECKSUM)
            raise place_error(refused, self.bucket.asked(request)) from None
        finally:
            self.bucket.timing = timing
            self.delete("%s/%s" % (SCRATCH, name))
        return False

    def end_unfinished(self, prefix: str, older_s: float) -> int:
        """End uploads below a prefix that began so long ago; return how many."""
        now = self.bucket.timing.now() + self.bucket.clock_ahead_s
        ended = 0
        for one in list(listing.uploads(self.bucket, self._key(prefix) if prefix else self.bucket.address.prefix)):
            if now - one.begun_unix >= older_s:
                request = Request("DELETE", one.key, (("uploadId", one.id),), verb="end an upload of")
                self.bucket.run(lambda request=request: request, lambda answer: answer.read())  # type: ignore[misc]
                ended += 1
        return ended

    def close(self) -> None:
        """Close idle connections."""
        self.bucket.close()

    def _key(self, key: str) -> str:
        try:
            return self.bucket.address.key(check_relative(key))
        except UnsafePath as error:
            raise PlaceError(REFUSED, "%s: %s" % (self.where, error)) from None


def open_bucket(
    text: str, environ: Mapping[str, str], timing: Optional[Timing] = None, tick: Tick = lambda _: None
) -> ObjectPlace:
    """Open s3://bucket/prefix with the environment's endpoint and keys; PlaceError if they cannot be used."""
    try:
        address = parse_address(text)
        return ObjectPlace(address, account_of(environ, address.bucket), timing, tick)
    except BadAddress as error:
        raise PlaceError(REFUSED, "%s: %s" % (text, error)) from None


__all__ = ["Absent", "ObjectPlace", "open_bucket"]
