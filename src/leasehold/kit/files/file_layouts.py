"""The file layouts that this version reads; a reader of a newer layout stops instead of guessing."""

from __future__ import annotations

from typing import Any, Mapping

PLAN = "leasehold.plan/1"
STATUS = "leasehold.status/1"
JOURNAL = 1  # of the events; a file with another layout states it in its first event


class NewerLayout(ValueError):
    """A file of ours that only another version can read; str() names both."""


def require(value: Mapping[str, Any], known: str, what: str, writer: str = "") -> None:
    """Raise NewerLayout unless a document has the known layout ("family/number"); no layout means the first.

    writer: the version that wrote it, if that is known from elsewhere.
    """
    said = value.get("schema", known)
    if said == known:
        return
    by = str(value.get("leasehold") or writer)
    raise NewerLayout(words(what, said, known, by))


def words(what: str, said: Any, known: Any, writer: str = "") -> str:
    """Describe the layout found, the layouts read, and the version that reads it."""
    reads = "leasehold %s or newer reads it" % writer[:40] if writer else "the leasehold that wrote it reads it"
    return "%s is of layout %s, and this version reads %s: %s" % (what, str(said)[:60], known, reads)
