"""Who owns a run: the highest claimed epoch. A claim is created and never replaced, so that of two exactly one wins."""

from __future__ import annotations

import json
from typing import Dict, List, NamedTuple, Optional

from leasehold.kit.files.canonical_json import canonical

from .layout import HIGHEST_EPOCH, epoch_key, epoch_of, epochs_prefix
from .place import Absent, Place
from .read_object import read_object

SCHEMA = "leasehold.epoch/1"
_MOST_BYTES = 64 << 10


class Claim(NamedTuple):
    """One claim of a run; the nonce tells the one who made it from all others."""

    epoch: int
    nonce: str
    home: str = ""
    box: str = ""
    lease: str = ""
    at_unix: float = 0.0


def claim(place: Place, run: str, wanted: Claim) -> bool:
    """Claim an epoch; return whether it is ours, also if an earlier try of ours created it."""
    value = dict(wanted._asdict(), schema=SCHEMA)
    if place.put_new(epoch_key(run, wanted.epoch), canonical(value)):
        return True
    there = read_claim(place, run, wanted.epoch)
    return there is not None and there.nonce == wanted.nonce


def epochs(place: Place, run: str) -> List[int]:
    """Return the claimed epochs, the highest first; a claim that cannot be read counts as well."""
    found = [epoch_of(one.key) for one in place.list(epochs_prefix(run))]
    return sorted({one for one in found if one is not None and 1 <= one <= HIGHEST_EPOCH}, reverse=True)


def highest(place: Place, run: str) -> int:
    """Return the highest claimed epoch; 0 for none."""
    return max(epochs(place, run), default=0)


def read_claim(place: Place, run: str, epoch: int) -> Optional[Claim]:
    """Return a claim; None if there is none. One that cannot be read belongs to somebody unknown."""
    try:
        data = read_object(place, epoch_key(run, epoch), _MOST_BYTES)
    except Absent:
        return None
    try:
        value: Dict[str, object] = json.loads(data.decode("utf-8"))
        at_unix = value.get("at_unix")
        words = {name: str(value.get(name) or "")[:200] for name in ("nonce", "home", "box", "lease")}
        return Claim(epoch, at_unix=float(at_unix) if isinstance(at_unix, (int, float)) else 0.0, **words)
    except (ValueError, AttributeError, RecursionError):
        return Claim(epoch, nonce="")
