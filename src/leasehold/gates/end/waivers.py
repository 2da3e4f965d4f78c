"""Waived cells at the teardown gate: a waiver covers the files that existed when it was typed, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.kit.text.units import count
from leasehold.model.run.verdict import Finding, passes, refuses, unknown
from leasehold.model.values.units import say_bytes

Entry = Mapping[str, Any]

_NAMED = 5  # files listed in one line; the rest are counted
_COMPARED = ("bytes", "mtime_ns", "ctime_ns", "inode")  # the last three only if the waiver recorded them


def judge_given_up(run: str, cell: str, covered: Sequence[Entry], present: Sequence[Entry]) -> Finding:
    """Compare every file of the cell now on the box with those that the waiver covers."""
    known = {str(entry["path"]): entry for entry in covered}
    stray = [_stray(known.get(str(entry["path"])), entry) for entry in present]
    named = [text for text in stray if text]
    given_up = f"{run}/{cell}: given up by a person (waiver)"
    if not named:
        size = say_bytes(sum(int(entry["bytes"]) for entry in present))
        here = f"; on the box: {count(len(present), 'file')}, {size}" if present else ""
        return passes(f"{given_up}{here}")
    more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    verb = "is" if len(named) == 1 else "are"
    what = f"{count(len(named), 'file')} on the box {verb} not covered: {', '.join(named[:_NAMED])}{more}"
    hint = (
        f"to keep: lease waive {run} {cell} --take-back, then lease pull {run} if the cell finished; "
        f"to give up: lease waive {run} {cell} once more, which copies and names what is there"
    )
    return refuses(f"{given_up}, but {what}", hint)


def judge_absent(run: str, cell: str) -> Finding:
    """Judge a cell that was given up while its run was, or may have been, on the box, when the run is now absent.

    Its disk may be missing, with files on it that nobody has seen since.
    """
    what = f"{run}/{cell}: given up by a person (waiver), but the run is no longer on the box: what it left is unknown"
    hint = f"mount the disk with our folder; if it is gone for good: lease waive {run} {cell} once more"
    return unknown(what, hint)


def _stray(known: Entry | None, entry: Entry) -> str:
    """Return what is wrong with a file; empty when the waiver covers it unchanged."""
    if known is None:
        return f"{str(entry['path'])!r} (not known when it was given up)"
    same = all(known[key] == entry.get(key) for key in _COMPARED if key in known)
    return "" if same else f"{str(entry['path'])!r} (changed since)"
