"""Create an object only if its key is free: by the store where it can, by tickets where it cannot.

A store that knows neither If-None-Match nor a header of its own overwrites without a word, so each store is tried on a
scratch key before it is trusted. Without its help: every contender leaves a ticket and lists them. Whoever lists last
sees all, so two that both see only their own are impossible; one that sees another's takes its own back and waits. The
creator deletes its ticket after the object is there. A ticket of a process that died blocks others for TICKET_S. So
this rests on lists that show what was written before (S3 and its kin promise that since 2020), on requests that arrive
within the time left, and on the store's own clock.
"""

from __future__ import annotations

import hashlib
import random
import time
import uuid
from typing import Callable, Iterator, List, Optional, Tuple

from leasehold.kit.refuge.place import UNREACHABLE, PlaceError

from . import listing
from .bucket import Bucket, Request
from .failures import Refused, place_error
from .put_object import checked

TICKET_S = 120.0  # a ticket that is older was left by a process that died
_SAFE_S = TICKET_S / 3  # the object must be on its way this soon after its ticket
_ROUNDS = 40
_TICKETS = "leasehold/tickets"
SCRATCH = "leasehold/scratch"

Header = Tuple[str, str]
_STANDARD: Header = ("If-None-Match", "*")


class Creator:
    """Creates objects of one bucket exclusively."""

    def __init__(self, bucket: Bucket, name: Callable[[], str] = lambda: uuid.uuid4().hex) -> None:
        self.bucket = bucket
        self._name = name
        self._header: Optional[Header] = None
        self._tried = False

    @property
    def by(self) -> str:
        """Say who guarantees it: the header that the store obeys, or tickets."""
        header = self.header()
        return header[0] if header else "tickets"

    def header(self) -> Optional[Header]:
        """Return the header that this store was seen to obey; None if there is none."""
        if not self._tried:
            own = self.bucket.account.vendor.forbid
            offers = [_STANDARD, *([(own, "true")] if own else [])]
            self._header = next((offer for offer in offers if self._obeys(offer)), None)
            self._tried = True
        return self._header

    def create(self, key: str, data: bytes) -> bool:
        """Create an object; False if the key is taken. `key` is the whole key."""
        header = self.header()
        return self._by_header(key, data, header) if header else self._by_tickets(key, data)

    def _obeys(self, offer: Header) -> bool:
        """Create a scratch object twice: the second try must be refused because it exists."""
        key = self.bucket.address.key("%s/%s" % (SCRATCH, self._name()))
        try:
            if not _put(self.bucket, key, b"1", offer):
                return False
            return not _put(self.bucket, key, b"2", offer)
        except Refused as refused:
            if refused.unsupported(offer[0]) or refused.status in (400, 501):
                return False
            raise place_error(refused, self.bucket.asked(Request("PUT", key))) from None
        finally:
            _delete(self.bucket, key)

    def _by_header(self, key: str, data: bytes, header: Header) -> bool:
        cuts = self.bucket.requests
        try:
            if _put(self.bucket, key, data, header):
                return True
        except Refused as refused:
            raise place_error(refused, self.bucket.asked(Request("PUT", key, verb="create"))) from None
        # A first try whose answer was cut may have created it: then the second finds our own bytes.
        return self.bucket.requests - cuts > 1 and bool(self._holds(key, data))

    # ---------------------------------------------------------------- tickets

    def _by_tickets(self, key: str, data: bytes) -> bool:
        folder = self.bucket.address.key("%s/%s/" % (_TICKETS, hashlib.sha256(key.encode("utf-8")).hexdigest()[:32]))
        for turn in range(_ROUNDS):
            if self._holds(key) is not None:
                return False
            ticket = folder + self._name()
            begun = time.monotonic()
            _put(self.bucket, ticket, b"", None)
            try:
                if not self._others(folder, ticket):
                    won = self._alone(key, data, begun)
                    if won is not None:
                        return won
            finally:
                _delete(self.bucket, ticket)
            self.bucket.timing.sleep(random.random() * min(4.0, 0.1 * 2 ** min(turn, 6)))
        asked = self.bucket.asked(Request("PUT", key))
        raise PlaceError(UNREACHABLE, "%s: others try to create it all the time; try again later" % asked.where)

    def _alone(self, key: str, data: bytes, begun: float) -> Optional[bool]:
        """Create the object as the only contender; None if too much time went by to be sure."""
        if self._holds(key) is not None:
            return False
        if time.monotonic() - begun > _SAFE_S:
            return None
        _put(self.bucket, key, data, None)
        if time.monotonic() - begun > TICKET_S:
            return None  # our ticket may have been taken for a dead one; the next round reads who has it
        return bool(self._holds(key, data))

    def _others(self, folder: str, ours: str) -> bool:
        """Return whether another contender is at work; tickets of dead ones are deleted."""
        found: List[listing.Listed] = list(listing.objects(self.bucket, folder))
        mine = next((one.modified_unix for one in found if one.key == ours), None)
        if mine is None:
            return True  # a list that lacks what was just written proves nothing
        dead = [one for one in found if mine - one.modified_unix > TICKET_S]
        for one in dead:
            _delete(self.bucket, one.key)
        return len(found) - len(dead) > 1

    def _holds(self, key: str, data: Optional[bytes] = None) -> Optional[bool]:
        """Return whether the key holds these bytes; None if it holds nothing."""
        from leasehold.kit.refuge.place import Absent

        from .read_ranges import ObjectReader

        try:
            blocks: Iterator[memoryview] = ObjectReader(self.bucket, key, 0, len(data or b"") + 1).open().blocks()
        except Absent:
            return None
        return data is None or b"".join(bytes(block) for block in blocks) == data


def _put(bucket: Bucket, key: str, data: bytes, header: Optional[Header]) -> bool:
    """Put a small object; False if a conditional one is refused because it exists."""

    def put() -> bool:
        digest = hashlib.sha256(data)
        headers = (*((header,) if header else ()), *bucket.checksum_headers(digest.digest()))
        request = Request("PUT", key, headers=headers, body=data, sha256=digest.hexdigest(), verb="create")
        try:
            bucket.run_raw(lambda: request, lambda answer: answer.read())
        except Refused as refused:
            if header is not None and refused.exists:
                return False
            raise
        return True

    if header is None:
        return checked(bucket, key, put)
    try:
        return put()
    except Refused as refused:
        if not bucket.checksums or "checksum" not in str(refused.fault.message).lower():
            raise
        bucket.checksums = False
        return put()


def _delete(bucket: Bucket, key: str) -> None:
    """Delete a scratch object; what cannot be deleted is empty and found by its age."""
    request = Request("DELETE", key)
    try:
        bucket.run_raw(lambda: request, lambda answer: answer.read())
    except (Refused, PlaceError):
        return
