"""Download from a bucket: an object is a file, a prefix is a folder; several ranges arrive at once, in order."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping

from leasehold.kit.files.paths import UnsafePath, check_relative
from leasehold.kit.objects.address import SCHEME
from leasehold.kit.objects.bucket import Timing
from leasehold.kit.objects.object_place import ObjectPlace, open_bucket
from leasehold.kit.objects.read_ranges import ObjectReader
from leasehold.kit.refuge.place import LYING, UNREACHABLE, Absent, PlaceError
from leasehold.kit.tables.download_sources import Source, is_near

from .download_file import Failed, Wanted
from .http import Answer, Gone, Route


def list_objects(source: Source, item: Mapping[str, Any], environ: Mapping[str, str]) -> List[Wanted]:
    """List the files of s3://bucket/key, or below s3://bucket/folder/; raises Failed."""
    bucket, _, key = source.name.partition("/")
    try:
        place = open_bucket(SCHEME + bucket, environ)
        _refuse_open_door(place, item)
        if not key.endswith("/"):
            try:
                return [_one(place, key, str(item["to"]), place.size(key), item)]
            except Absent:
                key += "/"
        found = _below(place, key, str(item["to"]))
    except PlaceError as error:
        raise Failed("%s%s" % (error, _hint(str(error)))) from None
    if not found:
        raise Failed("%s%s: there is no such object, and none below it" % (SCHEME, source.name.rstrip("/")))
    if item.get("sha256"):
        raise Failed("%s%s/ is a folder, and the sha256 is of one file" % (SCHEME, source.name.rstrip("/")))
    return found


class ObjectOpener:
    """Opens one object of a bucket for the downloader, which counts tries and checks the bytes."""

    def __init__(self, place: ObjectPlace, key: str) -> None:
        self._place = place
        self._key = key

    def open_at(self, offset: int, validator: str, stall_s: float) -> Answer:
        """Open at a byte; from 0 if the object has another ETag than before, or is shorter now."""
        self._place.bucket.timing = Timing(stall_s=stall_s)
        reader = self._open(offset)
        if offset and (reader.head.total <= offset or (validator and reader.head.tag != validator)):
            offset, reader = 0, self._open(0)
        return Answer(_Body(reader.blocks()), offset, reader.head.total, reader.head.tag)

    def _open(self, offset: int) -> ObjectReader:
        try:
            return ObjectReader(self._place.bucket, self._key, offset).open()
        except PlaceError as error:
            raise _judged(error) from None


class _Body:
    """The bytes of an object as a body that is read piece by piece."""

    def __init__(self, blocks: Iterator[memoryview]) -> None:
        self._blocks = blocks

    def read1(self, _: int) -> bytes:
        """Return the next bytes; empty at the end."""
        try:
            return next((bytes(block) for block in self._blocks if len(block)), b"")
        except PlaceError as error:
            raise _judged(error) from None

    def close(self) -> None:
        """End what is still arriving."""
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()


def _judged(error: PlaceError) -> Exception:
    """Separate what a later try may cure from what it cannot."""
    return OSError(str(error)) if error.kind in (UNREACHABLE, LYING) else Gone(str(error))


def _below(place: ObjectPlace, folder: str, to: str) -> List[Wanted]:
    found = []
    for stored in place.list(folder):
        name = stored.key[len(folder) :]
        try:
            check_relative(name)
        except UnsafePath as error:
            raise Failed("the list of objects is not to be trusted: %s" % error) from None
        found.append(_one(place, stored.key, "%s/%s" % (to, name), stored.bytes, {}))
    return found


def _one(place: ObjectPlace, key: str, to: str, size: int, item: Mapping[str, Any]) -> Wanted:
    promised = int(item.get("size_bytes") or 0)
    if promised and promised != size:
        raise Failed("%s/%s has %d bytes, %d were promised" % (place.where, key, size, promised))
    route = Route("%s/%s" % (place.where, key), opener=ObjectOpener(place, key))
    return Wanted(to, (route,), size, str(item.get("sha256") or ""))


def _refuse_open_door(place: ObjectPlace, item: Mapping[str, Any]) -> None:
    account = place.bucket.account
    if not account.secure and not item.get("sha256") and not is_near(account.endpoint):
        raise Failed("%s: what comes by http can be changed on its way; use https, or give sha256" % account.endpoint)


def _hint(text: str) -> str:
    return "; put it into `secrets`" if "is not set" in text else ""
