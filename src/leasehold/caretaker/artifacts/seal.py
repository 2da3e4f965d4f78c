"""Seal a cell: every promised artifact exists, is a plain file, is not empty, was made by this run, and is hashed.

Runs in its own child. The list of what is missing is complete, so that one check shows everything. The sums are
cached, so that bringing the results home need not read the files again.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from leasehold.caretaker.process.child_answer import answer
from leasehold.caretaker.run.disk_reserve import with_room
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files import journal, manifest
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.files.canonical_json import digest
from leasehold.kit.files.globbing import Found, matching
from leasehold.kit.files.paths import UnsafePath, check_relative

if TYPE_CHECKING:
    from leasehold.kit.wire.frames import Frame

_SLACK_S = 2.0  # how far a filesystem's own clock may lag
_MOST_LISTED = 100


def seal(folder: RunFolder, cell: str) -> int:
    """Answer {ok, files, bytes, sha256, from_before}, {lacking}, or {occupied} while a process still writes there.

    In a child, since it may take hours.
    """
    from leasehold.caretaker.status.wait_clear import found_in

    present = found_in(folder, cell)
    return answer({"occupied": present} if any(present.values()) else sealed(folder, cell) or {})


def sealed(folder: RunFolder, cell: str, most_bytes: Optional[int] = None) -> Optional[Dict[str, Any]]:
    """Seal a cell; return None, with nothing done, where there is more to read than most_bytes."""
    plan = folder.read_plan() or {}
    patterns = promises(folder, plan)
    root = folder.out(cell)
    try:
        hits = matching(root, patterns)
    except OSError as error:
        return {"lacking": ["%s cannot be read: %s" % (root, error)]}
    found = manifest.unique(hits)
    if most_bytes is not None and sum(one.info.st_size for one in found) > most_bytes:
        return None
    born_unix, newest_unix = _births(folder, cell)
    lacking = [
        "nothing in $LEASE_OUT matches %r" % pattern for pattern, listed in zip(patterns, hits) if not listed
    ]  # fmt: skip
    if lacking:
        from leasehold.caretaker.run.request_args import strayed

        lacking += [hint for hint in [strayed(folder, [cell], {"patterns": patterns}).lstrip("; ")] if hint]
    lacking += [line for one in found for line in _faults(one, born_unix)]
    if lacking:
        return {"lacking": lacking[:_MOST_LISTED]}
    try:
        entries = _hashed(folder, cell, found) if most_bytes is None else manifest.hash_all(root, found)
    except manifest.ManifestError as error:
        return {"lacking": [str(error)]}
    before = [one.path for one in found if _made_unix(one) < newest_unix - _SLACK_S]
    return _write(folder, cell, entries, before)


def promises(folder: RunFolder, plan: Dict[str, Any]) -> List[str]:
    """Return the promised patterns: as home last corrected them, else as planned."""
    mended = (read_json(folder.promises) or {}).get("patterns")
    if isinstance(mended, list) and mended and all(isinstance(item, str) for item in mended):
        return mended
    return list(plan.get("patterns") or [])


def _write(folder: RunFolder, cell: str, entries: List[Dict[str, Any]], before: List[str]) -> Dict[str, Any]:
    body = [{"path": entry["path"], "bytes": entry["bytes"], "sha256": entry["sha256"]} for entry in entries]
    total = sum(entry["bytes"] for entry in entries)
    facts = {"files": len(entries), "bytes": total, "sha256": digest(body), "from_before": before[:_MOST_LISTED]}
    whole = dict(facts, cell=cell, sealed_unix=round(time.time(), 3), entries=body)
    with_room(folder, lambda: write_json(folder.sealed(cell), whole))
    return dict(facts, ok=True)


def _faults(found: Found, born_unix: float) -> List[str]:
    try:
        check_relative(found.path)
    except UnsafePath as error:
        return [str(error)]
    if not found.is_file:
        return ["%s is %s; artifacts must be plain files" % (found.path, "a symlink" if found.is_link else "no file")]
    if found.info.st_size == 0:
        return ["%s is empty (0 bytes)" % found.path]
    if born_unix and _made_unix(found) < born_unix - _SLACK_S:
        return ["%s is older than this run's first attempt" % found.path]
    return []


def _made_unix(found: Found) -> float:
    """Return when the file came to be here: a copy may keep its source's mtime, but never its ctime."""
    return max(found.info.st_mtime, found.info.st_ctime)


def _births(folder: RunFolder, cell: str) -> Tuple[float, float]:
    """Return when the cell's first and newest training began, in today's clock, which may have been set back since."""
    events, _ = journal.read_from(folder.journal, 0)
    mine = [event for event in events if event["k"] == "attempt_started" and event.get("cell") == cell]
    starting = {event.get("attempt"): event for event in events if event["k"] == "attempt_starting"}
    trained = [event for event in mine if "stage" not in starting.get(event.get("attempt"), {})]
    if not trained:
        return 0.0, 0.0
    return _then(trained[0]), _then(trained[-1])


def _then(event: Dict[str, Any]) -> float:
    """Convert an attempt's start to today's clock, unless the machine was restarted since."""
    at, up_s = float(event.get("at", 0.0)), event.get("up_s")
    if not isinstance(up_s, (int, float)) or up_s > time.monotonic():
        return at
    set_by_s = (time.time() - time.monotonic()) - (at - float(up_s))
    return min(at, at + set_by_s)


class _Nobody:
    """Listener that ignores everything: a chart is drawn here only for the sums and their cache."""

    gone = False

    def reply(self, value: Dict[str, Any]) -> None:
        """Ignore a reply."""

    def data(self, chunk: bytes) -> None:
        """Ignore bytes."""

    def body(self) -> "Iterator[Frame]":
        """Send nothing: every sum is taken here."""
        return iter(())


def _hashed(folder: RunFolder, cell: str, found: List[Found]) -> List[Dict[str, Any]]:
    """Hash many bytes at once; cached sums need not be read again when the results are brought home."""
    from .chart import Chart
    from .hash_cache import HashMemory

    memory = HashMemory(os.path.join(folder.address, "hashes.json"))
    drawn = Chart(_Nobody(), {cell: folder.out(cell)}, memory)
    for one in found:
        drawn.add(cell, one)
    sums = drawn.take_sums() or {}
    drawn.remember()
    return sums.get(cell, [])
