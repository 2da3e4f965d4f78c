"""Have the box read files in full before it may go, and report how much was read and how long it took."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leasehold.gates.end.box_copy import ReadInFull
from leasehold.model.run.note import Note, Report
from leasehold.model.values.units import say_bytes
from leasehold.model.values.wording import ago

if TYPE_CHECKING:
    from leasehold.platforms.contract import Engine


_SAY_EVERY_S = 1.0
_NOT_READ = "the box did not answer for it"


def read_in_full(engine: Engine, run: str, wanted: Mapping[tuple[str, str], int], report: Report) -> ReadInFull:
    """Read these files of a run in full on the box; wanted maps each file to its expected size and may be empty."""
    items, total = sorted(wanted), sum(wanted.values())
    if not items:
        return ReadInFull()
    report(Note("reading_box", f"{run}: the box reads {_files(items)} in full, {say_bytes(total)}"))
    begun = said = time.monotonic()
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for answer in engine.proof.prove(run, items):
        for entry in answer.get("entries", ()):
            found[str(entry.get("cell")), str(entry.get("path"))] = dict(entry)
        now = time.monotonic()
        if now - said >= _SAY_EVERY_S:
            said = now
            report(_progress(run, int(answer["upto"]), total, now - begun))
    took_s = time.monotonic() - begun
    entries = {item: found.get(item, {"path": item[1], "problem": _NOT_READ}) for item in items}
    size = sum(int(entry.get("bytes", 0)) for entry in entries.values())
    text = f"{run}: the box read {_files(items)} in full, {say_bytes(size)} in {took_s:.1f} s"
    report(Note("box_read", text, {"files": len(items), "bytes": size, "seconds": round(took_s, 3)}))
    return ReadInFull(entries, size, took_s)


def _progress(run: str, upto: int, total: int, took_s: float) -> Note:
    rate = upto / took_s
    left = f", {ago((total - upto) / rate)} left" if rate > 1 and upto < total else ""
    text = f"{run}: read {say_bytes(upto)} of {say_bytes(total)} on the box, {say_bytes(rate)}/s{left}"
    return Note("reading_box", text, {"bytes": upto, "total": total, "bytes_per_s": int(rate)})


def _files(items: Sequence[Any]) -> str:
    return "1 file" if len(items) == 1 else f"{len(items):,} files"
