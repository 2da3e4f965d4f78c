"""Which layouts of our files this version reads; whoever finds a newer one stops instead of guessing."""

from __future__ import annotations

from typing import Any, Mapping

PLAN = "leasehold.plan/1"
STATUS = "leasehold.status/1"
JOURNAL = 1  # of the events; one of another layout says so where it opens


class NewerLayout(ValueError):
    """A file of ours that only another version can read; str() says which."""


def require(value: Mapping[str, Any], known: str, what: str, writer: str = "") -> None:
    """Raise NewerLayout unless a document is of the known layout ("family/number"); without a word it is of the first.

    writer: the version that wrote it, where that is known from elsewhere.
    """
    said = value.get("schema", known)
    if said == known:
        return
    by = str(value.get("leasehold") or writer)
    raise NewerLayout(words(what, said, known, by))


def words(what: str, said: Any, known: Any, writer: str = "") -> str:
    """Say which layout was found, which is read, and which version reads it."""
    reads = "leasehold %s or newer reads it" % writer[:40] if writer else "the leasehold that wrote it reads it"
    return "%s is of layout %s, and this version reads %s: %s" % (what, str(said)[:60], known, reads)
