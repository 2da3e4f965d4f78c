"""Compare the box's files with what was sealed: by size, times and inode; by content before anything is deleted.

Times prove little: a process that writes in place can set mtime back, and a store into a mapped page that is already
dirty changes no time at all. Only a full read proves that the box holds what came home.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from leasehold.model.run.verdict import Finding, passes, refuses, unknown
from leasehold.model.values.units import say_bytes

Entry = Mapping[str, Any]
Cells = Mapping[str, Collection[Entry]]

_COMPARED = ("bytes", "mtime_ns", "inode")
_STATS = (*_COMPARED, "ctime_ns")


@dataclass(frozen=True)
class ReadInFull:
    """Files that the box has just read in full, by cell and path: their hashes, or why there is none."""

    entries: Mapping[tuple[str, str], Entry] = field(default_factory=dict)
    bytes: int = 0
    seconds: float = 0.0


def suspects(sealed: Cells, present: Cells, cells: Collection[str]) -> dict[tuple[str, str], int]:
    """List files whose times no longer prove that they are what was sealed: only their ctime changed."""
    found = {}
    for cell in cells:
        before = {str(entry["path"]): entry for entry in sealed.get(cell, ())}
        for entry in present.get(cell, ()):
            was = before.get(str(entry["path"]))
            if was is not None and not _difference(was, entry) and _ctime_moved(was, entry):
                found[cell, str(entry["path"])] = int(entry["bytes"])
    return found


def everything(sealed: Cells, cells: Collection[str]) -> dict[tuple[str, str], int]:
    """List all files of these cells that came home: they are read in full before a verb deletes them."""
    return {(cell, str(one["path"])): int(one["bytes"]) for cell in cells for one in sealed.get(cell, ())}


def judge_box_copy(
    run: str, cells: Collection[str], sealed: Cells, present: Cells, read: ReadInFull, in_full: bool
) -> list[Finding]:
    """Compare the files of cells that are home with those on the box; with in_full each must have been read."""
    findings, files, size = [], 0, 0
    for cell in sorted(cells):
        before = {str(entry["path"]): entry for entry in sealed.get(cell, ())}
        now = {str(entry["path"]): entry for entry in present.get(cell, ())}
        for path in sorted(before.keys() | now.keys()):
            problem = _problem(before.get(path), now.get(path), read.entries.get((cell, path)), in_full)
            if problem is not None:
                findings.append(_against(problem, f"{run}/{cell}: {path!r} {problem[0]}", f"lease pull {run}"))
            files, size = files + 1, size + int((before.get(path) or {}).get("bytes", 0))
    if files and not findings:
        findings.append(passes(f"{run}: {_say(files, size, read, in_full)}"))
    return findings


def _against(problem: tuple[str, bool], what: str, hint: str) -> Finding:
    return refuses(what, hint) if problem[1] else unknown(what, "repeat the command to check again")


def _say(files: int, size: int, read: ReadInFull, in_full: bool) -> str:
    many = "1 file" if files == 1 else f"{files:,} files"
    if in_full:
        return f"{many} read in full on the box ({say_bytes(read.bytes)} in {read.seconds:.1f} s), hash-equal"
    partly = f"; {len(read.entries):,} with a later ctime read in full, hash-equal" if read.entries else ""
    return (
        f"{many} on the box {'matches' if files == 1 else 'match'} the manifest by size, mtime and inode{partly}; "
        f"{say_bytes(size)} are read in full right before any deletion"
    )


def _problem(was: Entry | None, now: Entry | None, read: Entry | None, in_full: bool) -> tuple[str, bool] | None:
    """Return a file's problem and whether it is certain, or None."""
    if now is None:
        return "is gone from the box since it was sealed", True
    if was is None:
        return "is new on the box since the results were sealed", True
    said = _difference(was, now)
    if said:
        return said, True
    if read is None:
        doubtful = in_full or _ctime_moved(was, now)
        return ("may have been written since it was sealed, and was not read", False) if doubtful else None
    if "sha256" not in read:
        return f"was not read in full on the box: {read.get('problem') or 'no reason given'}", False
    if read["sha256"] != was["sha256"]:
        return "holds other bytes on the box than came home, though size and mtime are unchanged", True
    if any(read.get(key) != now.get(key) for key in _STATS):
        return "is being changed on the box", False
    return None


def _ctime_moved(was: Entry, now: Entry) -> bool:
    return "ctime_ns" in was and was["ctime_ns"] != now.get("ctime_ns")


def _difference(was: Entry, now: Entry) -> str:
    for key in _COMPARED:
        if was.get(key) != now.get(key):
            return f"changed on the box since it was sealed ({key} {was.get(key)} -> {now.get(key)})"
    return ""
