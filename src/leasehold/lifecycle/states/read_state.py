"""Check that a state that came home loads, in confined processes. This is a reading, never a receipt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leasehold.kit.tables.file_endings import guess_kind
from leasehold.kit.text.safe_text import one_line
from leasehold.lifecycle.confine.check_loads import LoadRequest, LoadResult, check_loads

_OTHER_KINDS = ("checkpoint", "pickle")
_LIMITS = "read_memory"  # a reader that needs more than it may use says so, and nothing about the file


@dataclass(frozen=True)
class Reading:
    """What the readers found: `damaged` names the first file that is not what its format demands."""

    words: str
    damaged: str = ""


def read_state(files: Sequence[Path]) -> Reading:
    """Read every file of a state with the reader of its kind."""
    results = _tried([LoadRequest(str(path), guess_kind(path.name), allow_opaque=True) for path in files])
    for kind in _OTHER_KINDS:  # a name says little: many write a plain pickle as .pt
        wrong = [one for one in results if not one.ok and _LIMITS not in one.reason]
        if not wrong:
            break
        again = {one.path: one for one in _tried([LoadRequest(one.path, kind, allow_opaque=True) for one in wrong])}
        results = [again[one.path] if one.path in again and again[one.path].ok else one for one in results]
    bad = [one for one in results if not one.ok and _LIMITS not in one.reason]
    if bad or len(results) != len(files):
        first = f"{Path(bad[0].path).name}: {bad[0].reason}" if bad else "a reader gave no answer"
        return Reading("does not load", one_line(first))
    unread = [one for one in results if not _was_read(one)]
    if len(unread) == len(results):
        return Reading("hash-equal, not read: no reader for its kind" if all(one.ok for one in unread) else "not read")
    return Reading("loads" if not unread else f"loads, {len(unread)} of its files not read")


def _tried(requests: list[LoadRequest]) -> list[LoadResult]:
    return check_loads(requests, python=os.environ.get("LEASEHOLD_PYTHON") or None)


def _was_read(result: LoadResult) -> bool:
    return result.ok and result.reading.get("kind") != "bytes"
