"""Places of the contract suite: add a row for another kind, with what opens it and closes it again."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import uuid
from pathlib import Path
from typing import Callable, ContextManager, Dict, Iterator

from leasehold.kit.objects.object_place import ObjectPlace, open_bucket
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.place import Place
from tests.support import object_stores
from tests.support.fault_store import FaultStore


class Opened:
    """A place, opened again and again as by several processes, and its objects as its own system shows them."""

    def __init__(self, again: Callable[[], Place], spoil: Callable[[str, bytes], None], page: int = 20) -> None:
        self.again = again
        self.rewrites = ""  # characters that its own system changes in names
        self.page = page  # how many objects one answer lists
        self.spoil = spoil  # replaces the bytes of an object behind the place's back


@contextlib.contextmanager
def folder(scratch: Path) -> Iterator[Opened]:
    """Give a folder on this disk."""
    root = scratch / "tier"
    root.mkdir()

    def spoil(key: str, data: bytes) -> None:
        (root / key).write_bytes(data)

    yield Opened(lambda: FolderPlace(str(root)), spoil)


@contextlib.contextmanager
def bucket(name: str, scratch: Path) -> Iterator[Opened]:
    """Give a prefix of its own in the bucket of a real store."""
    with _environ(name) as environ:
        yield from _bucket(name, environ)


@contextlib.contextmanager
def _environ(name: str) -> Iterator[Dict[str, str]]:
    if name in object_stores.STORES:
        yield object_stores.store(name).environ
    else:
        with FaultStore(obeys=name == "in memory") as found:
            yield found.environ


def _bucket(name: str, environ: Dict[str, str]) -> Iterator[Opened]:
    address = "s3://%s/a prefix/%s" % (object_stores.BUCKET, uuid.uuid4().hex)
    opened = []

    def again() -> ObjectPlace:
        place = open_bucket(address, environ)
        place.page = 7
        opened.append(place)
        return place

    def spoil(key: str, data: bytes) -> None:
        again().put(key, io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest())

    try:
        found = Opened(again, spoil, page=7)
        found.rewrites = "\\" if name == "weed" else ""
        yield found
    finally:
        for place in opened:
            place.close()


PLACES: Dict[str, Callable[[Path], ContextManager[Opened]]] = {
    "folder": folder,
    "in memory": functools.partial(bucket, "in memory"),
    "that overwrites": functools.partial(bucket, "that overwrites"),
    "rclone": functools.partial(bucket, "rclone"),
    "weed": functools.partial(bucket, "weed"),
}
