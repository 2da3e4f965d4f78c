"""What lies on the box beside what was sealed: times first, bytes before anything is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.gates.end.box_copy import ReadInFull, everything, judge_box_copy, suspects
from leasehold.model.run.verdict import Outcome

STATS = {"path": "best.pt", "bytes": 3, "mtime_ns": 5, "ctime_ns": 6, "inode": 7}
SEALED = {"main": [{**STATS, "sha256": "a" * 64}]}
KEY = ("main", "best.pt")


def judged(present: Any = (STATS,), read: Any = None, in_full: bool = False, sealed: Any = SEALED) -> Any:
    found = ReadInFull({KEY: read} if read else {}, 3, 1.0)
    return judge_box_copy("toy-1", ("main",), sealed, {"main": list(present)}, found, in_full)


READ = {**STATS, "sha256": "a" * 64}
MOVED = {**STATS, "ctime_ns": 9}


@pytest.mark.parametrize(
    ("present", "read", "in_full", "outcome", "what"),
    [
        ([STATS], None, False, Outcome.PASSED, "3 B are read in full right before any deletion"),
        ([STATS], READ, True, Outcome.PASSED, "read in full on the box (3 B in 1.0 s), hash-equal"),
        ([STATS], None, True, Outcome.UNKNOWN, "was not read"),
        ([MOVED], None, False, Outcome.UNKNOWN, "was not read"),
        ([MOVED], {**MOVED, "sha256": "a" * 64}, False, Outcome.PASSED, "with a later ctime read in full, hash-equal"),
        ([MOVED], READ, True, Outcome.UNKNOWN, "is being changed on the box"),
        ([STATS], {**STATS, "sha256": "b" * 64}, True, Outcome.REFUSED, "holds other bytes on the box"),
        ([STATS], {"path": "best.pt", "problem": "cannot be read: I/O error"}, True, Outcome.UNKNOWN, "I/O error"),
        ([{**STATS, "inode": 8}], READ, True, Outcome.REFUSED, "inode 7 -> 8"),
        ([], READ, True, Outcome.REFUSED, "is gone from the box"),
        ([STATS, {**STATS, "path": "new.pt"}], READ, True, Outcome.REFUSED, "'new.pt' is new on the box"),
    ],
)
def test_each_reading_counts(present: Any, read: Any, in_full: bool, outcome: Outcome, what: str) -> None:
    (finding,) = judged(present, read, in_full)
    assert finding.outcome is outcome
    assert what in finding.what


def test_what_is_read_is_what_came_home_or_what_its_ctime_makes_doubtful() -> None:
    assert everything(SEALED, ("main",)) == {KEY: 3}
    assert everything(SEALED, ()) == {}
    assert suspects(SEALED, {"main": [STATS]}, ("main",)) == {}
    assert suspects(SEALED, {"main": [MOVED]}, ("main",)) == {KEY: 3}
    assert suspects(SEALED, {"main": [{**MOVED, "inode": 8}]}, ("main",)) == {}, "that refuses without a read"


def test_a_manifest_without_ctimes_is_compared_without_them() -> None:
    old = {"main": [{key: value for key, value in READ.items() if key != "ctime_ns"}]}
    assert suspects(old, {"main": [STATS]}, ("main",)) == {}
    assert [finding.outcome for finding in judged(sealed=old)] == [Outcome.PASSED]
    assert [finding.outcome for finding in judged(sealed=old, in_full=True)] == [Outcome.UNKNOWN]
