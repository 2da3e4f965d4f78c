"""Reconcile the roster with reality: one state per cell, and for every gap the command that closes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leasehold.model.run.sweep import Account, Part, Word

_FAST = 0.5  # of the expected time: a cell that ends sooner has probably failed
_SLACK_S = 2.0  # clocks of file servers differ from those of nodes
_TINY_BYTES = 256  # small files of two cells may well be equal


Say = Callable[..., Account]


def reconcile(roster: Sequence[str], parts: Sequence[Part], expect_s: float = 0.0) -> list[Account]:
    """Give every promised cell its state, in the roster's order."""
    holders: dict[str, list[Part]] = {}
    for part in parts:
        for cell in part.cells:
            holders.setdefault(cell, []).append(part)
    twins = _twins(parts)
    accounts = []
    for cell in roster:
        found = [_account(cell, part, expect_s, twins) for part in holders.get(cell, ())]
        accounts.append(min(found, key=_rank) if found else _nowhere(cell, parts))
    return accounts


def _rank(account: Account) -> int:
    return list(Word).index(account.word)


def _nowhere(cell: str, parts: Sequence[Part]) -> Account:
    resume = parts[0].resume if parts else "the same lease run"
    return Account(cell, Word.MISSING, what="promised, and given to no box", mend=resume)


def _account(cell: str, part: Part, expect_s: float, twins: Mapping[tuple[str, str], str]) -> Account:
    def said(word: Word, what: str = "", mend: str = "", remarks: tuple[str, ...] = ()) -> Account:
        return Account(cell, word, part.run, part.box, what, mend, remarks)

    if cell in part.waived:
        return said(Word.WAIVED, "given up by a person")
    seen = part.seen.get(cell)
    remarks = _remarks(cell, part, seen, expect_s, twins)
    if cell in part.home:
        return said(Word.HOME, remarks=remarks)
    if seen is None:
        why = part.problem or "its box does not know it"
        return said(Word.UNKNOWN, why, f"lease status {part.run} --refresh")
    return _unsettled(cell, part, seen, said, remarks)


def _unsettled(cell: str, part: Part, seen: Mapping[str, Any], said: Say, remarks: tuple[str, ...]) -> Account:
    state, why = str(seen.get("state", "")), str(seen.get("why") or "")
    if state in ("running", "starting", "ended"):
        return said(Word.RUNNING, f"attempt {seen.get('attempt', 0)}", f"lease watch {part.run}", remarks)
    if state == "pending":
        return said(Word.WAITING, str(seen.get("waits") or "its turn has not come"), f"lease watch {part.run}")
    if state == "failed":
        what = why or f"exit code {seen.get('code')}"
        return said(Word.FAILED, f"{what} (lease doctor {part.run} says more)", part.resume)
    if state == "stopped":
        return said(Word.STOPPED, "stopped before its end", part.resume)
    return _finished(cell, part, seen, said, remarks)


def _finished(cell: str, part: Part, seen: Mapping[str, Any], said: Say, remarks: tuple[str, ...]) -> Account:
    files = part.files.get(cell, ())
    again = f"lease waive {part.run} {cell}"  # or a corrected script and lease run --again, which is another sweep
    if not files:
        return said(Word.MISSING, "it exited with 0 and left none of the promised files", again)
    empty = [str(entry["path"]) for entry in files if not entry["bytes"]]
    if empty:
        return said(Word.EMPTY, f"{empty[0]} has no bytes", again)
    started = float(seen.get("started_unix") or 0.0)
    old = [
        str(entry["path"])
        for entry in files
        if started and 0 < int(entry.get("mtime_ns") or 0) < (started - _SLACK_S) * 1e9
    ]
    if len(old) == len(files):
        return said(Word.STALE, f"{old[0]} is older than the attempt that should have written it", again)
    if cell in part.refused:
        return said(Word.BROKEN, part.refused[cell], again)
    return said(Word.ON_BOX, f"{len(files)} files", f"lease pull {part.run}", remarks)


def _remarks(
    cell: str, part: Part, seen: Mapping[str, Any] | None, expect_s: float, twins: Mapping[tuple[str, str], str]
) -> tuple[str, ...]:
    found = []
    started, ended = (float((seen or {}).get(key) or 0.0) for key in ("started_unix", "ended_unix"))
    took_s = ended - started
    if expect_s and 0 < started < ended and took_s < expect_s * _FAST:
        found.append(f"took {took_s:.0f} s of the expected {expect_s:.0f} s: check that it did its work")
    twin = twins.get((part.run, cell))
    if twin:
        found.append(f"byte for byte the same results as {twin}: is its parameter used?")
    return tuple(found)


def _twins(parts: Sequence[Part]) -> dict[tuple[str, str], str]:
    """Find cells whose every larger file equals another cell's; the later one is named after the earlier."""
    first: dict[tuple[str, ...], str] = {}
    found = {}
    for part in parts:
        for cell, entries in part.files.items():
            sums = tuple(sorted(str(e["sha256"]) for e in entries if e.get("sha256") and e["bytes"] > _TINY_BYTES))
            if sums and first.setdefault(sums, cell) != cell:
                found[(part.run, cell)] = first[sums]
    return found
