"""Prove on a scratch key what a refuge needs of a place: put, read back, ranges, create only, list, delete."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import time
from typing import Callable, List, NamedTuple, Optional, Tuple

from leasehold.kit.refuge.place import Absent, Place, PlaceError
from leasehold.kit.text.units import say_bytes

from .create_only import SCRATCH

_BYTES = 256 << 10
_CREATORS = 4

Step = Callable[[], Tuple[bool, str]]


class Proof(NamedTuple):
    """One thing that was tried: proven, refuted, or not tried because another one failed (None)."""

    what: str
    proven: Optional[bool]
    seen: str


def check_place(again: Callable[[], Place], name: str, guarantee: Callable[[Place], str] = lambda _: "") -> List[Proof]:
    """Try everything on keys below leasehold/scratch/<name>, which are deleted again.

    `again` opens the place as another process would; `guarantee` says how it creates exclusively.
    """
    trial = _Trial(again, "%s/%s" % (SCRATCH, name), guarantee)
    steps = [
        ("put", trial.put), ("read back", trial.read_back), ("get a range", trial.part), ("list", trial.listed),
        ("replace", trial.replace), ("create only once", trial.create), ("delete", trial.delete),
    ]  # fmt: skip
    found: List[Proof] = []
    for what, step in steps:
        if found and not found[0].proven:
            found.append(Proof(what, None, "not tried"))
            continue
        found.append(_tried(what, step))
    trial.tidy()
    return found


def _tried(what: str, step: Step) -> Proof:
    begun = time.monotonic()
    try:
        proven, seen = step()
    except PlaceError as error:
        return Proof(what, False, "%s [%s]" % (error, error.kind))
    return Proof(what, proven, "%s, %.0f ms" % (seen, 1000 * (time.monotonic() - begun)))


class _Trial:
    def __init__(self, again: Callable[[], Place], folder: str, guarantee: Callable[[Place], str]) -> None:
        self._again = again
        self._place = again()
        self._guarantee = guarantee
        self._key = folder + "/object"
        self._claim = folder + "/claim"
        self._folder = folder
        self._data = os.urandom(_BYTES)

    def put(self) -> Tuple[bool, str]:
        self._put(self._data)
        return True, "wrote %s" % say_bytes(len(self._data))

    def read_back(self) -> Tuple[bool, str]:
        same = self._again().read_back(self._key) == hashlib.sha256(self._data).hexdigest()
        return same, "the same sha256" if same else "OTHER bytes than were written"

    def part(self) -> Tuple[bool, str]:
        got = b"".join(self._again().get(self._key, 1000, 4096))
        same = got == self._data[1000:5096]
        return same, "4,096 bytes from byte 1,000" if same else "other bytes: %d came" % len(got)

    def listed(self) -> Tuple[bool, str]:
        found = [(one.key, one.bytes) for one in self._again().list(self._folder + "/")]
        return found == [(self._key, len(self._data))], "listed are %d of 1" % len(found)

    def replace(self) -> Tuple[bool, str]:
        self._data = self._data[::-1]
        self._put(self._data)
        same = self._again().read_back(self._key) == hashlib.sha256(self._data).hexdigest()
        return same, "the new bytes are read" if same else "the OLD bytes are still read"

    def create(self) -> Tuple[bool, str]:
        won: List[bytes] = []
        failed: List[PlaceError] = []

        def contend(nonce: bytes) -> None:
            try:
                if self._again().put_new(self._claim, nonce):
                    won.append(nonce)
            except PlaceError as error:
                failed.append(error)

        contenders = [threading.Thread(target=contend, args=(b"%d" % number,)) for number in range(_CREATORS)]
        for one in contenders:
            one.start()
        for one in contenders:
            one.join()
        if failed and not won:
            raise failed[0]
        holds = b"".join(self._again().get(self._claim))
        late = self._again().put_new(self._claim, b"late")
        proven = won == [holds] and not late
        by = self._guarantee(self._place)
        return proven, "%d of %d at once created it, a later one %s%s" % (
            len(won), _CREATORS, "DID" if late else "did not", " (by %s)" % by if by else "",
        )  # fmt: skip

    def delete(self) -> Tuple[bool, str]:
        self._place.delete(self._key)
        self._place.delete(self._claim)
        try:
            b"".join(self._again().get(self._key))
        except Absent:
            left = len(list(self._again().list(self._folder + "/")))
            return left == 0, "gone" if not left else "the list still shows %d" % left
        return False, "it is STILL read after it was deleted"

    def tidy(self) -> None:
        """Delete what a failed step left."""
        for key in (self._key, self._claim):
            try:
                self._place.delete(key)
            except PlaceError:
                return

    def _put(self, data: bytes) -> None:
        self._place.put(self._key, io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest())
