"""What versions before the refuge left on the durable tier when a box was taken away: rescued/<run>/<cell>/."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, NamedTuple, Optional

from leasehold.kit.files.paths import UnsafePath, check_name, check_relative
from leasehold.kit.files.sha256 import new_sha256

from .place import LYING, Absent, Place, PlaceError
from .read_object import read_object

_RECORD = "rescued.json"
_MOST_BYTES = 16 << 20


class Rescued(NamedTuple):
    """A checkpoint by the paths of its files below $LEASE_OUT."""

    run: str
    cell: str
    made_unix: float
    files: Dict[str, str]  # path -> sha256


def old_rescue(place: Place, run: str, cell: str) -> Optional[Rescued]:
    """Return what was rescued of a cell; None if nothing was, or its record is damaged."""
    try:
        data = read_object(place, _key(run, cell, _RECORD), _MOST_BYTES)
        value: Any = json.loads(data.decode("utf-8"))
        files = {check_relative(path): str(sha256) for path, sha256 in value["files"].items()}
        made_unix = float(value.get("state_unix") or 0.0)
    except (Absent, UnsafePath, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Rescued(run, cell, made_unix, files) if files else None


def read_rescued(place: Place, rescued: Rescued, path: str) -> Iterator[bytes]:
    """Yield a file's bytes; PlaceError(lying) at the end if they are not those that were rescued."""
    sha = new_sha256(1 << 20)
    for part in place.get(_key(rescued.run, rescued.cell, path)):
        sha.update(part)
        yield part
    if sha.hexdigest() != rescued.files[path]:
        raise PlaceError(LYING, "%s in %s is not what was rescued" % (path, place.where))


def _key(run: str, cell: str, path: str) -> str:
    return "leasehold/rescued/%s/%s/%s" % (check_name(run, "run"), check_name(cell, "cell"), check_relative(path))
