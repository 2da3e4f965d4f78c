"""Which finding counts: evidence nearest to the hardware first, the more specific before the broader, causes
before their consequences (docs/doctor.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Set, Tuple

from .catalogue import Book, Entry
from .evidence import Context, Evidence
from .oom import OutOfMemory, parse

_FALLBACK = 9
_OUTLIVED = 4  # with exit code 0, only entries below this tier, and dynamics, still count
_DYNAMICS = 7
_NEARLY_FULL = 0.95
_SUMMARIES = ("ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "RayTaskError", "ActorDiedError")


@dataclass(frozen=True)
class Candidate:
    """An entry with its evidence, before it is known whether it is reported."""

    entry: Entry
    evidence: Tuple[Evidence, ...]
    order: Tuple[str, int] = ("", 0)  # time as written, then place
    confidence: str = "certain"
    instead_of: Tuple[str, ...] = ()
    note: str = ""
    numbers: Optional[OutOfMemory] = None


def ranked(book: Book, candidates: List[Candidate], context: Context) -> List[Candidate]:
    """Keep what counts, most significant first."""
    kept = [item for item in candidates if not item.entry.platform or item.entry.platform == context.family]
    if context.exit_code == 0:
        kept = [item for item in kept if item.entry.tier < _OUTLIVED or item.entry.tier == _DYNAMICS]
    kept = [_specialised(book, item, context) for item in kept]
    kept = _without_broader(book, _merged(kept))
    kept = _without_fallbacks(kept)
    causes = any(not item.entry.follows for item in kept)
    return sorted(kept, key=lambda item: (causes and item.entry.follows, item.entry.tier, item.order))


def _specialised(book: Book, item: Candidate, context: Context) -> Candidate:
    """Replace a broad entry by the specific one that the numbers and readings show."""
    entry = item.entry
    if entry.id == "U10" or "U10" in entry.refines:
        numbers = parse(item.evidence[0].text)
        item = replace(item, numbers=numbers)
        wanted = _memory_case(numbers, context) if entry.id == "U10" else ""
        return _become(book, item, wanted)
    if entry.id == "U6":
        return _become(book, item, _disk_case(context))
    if entry.id == "U9" and item.confidence == "likely" and context.oom_kills == 0:
        return _become(book, item, "GEN6" if context.rebooted else "U3", "the kernel killed nothing for memory here")
    if entry.id in ("SSH.T8", "U12", "SSH11") and context.own_kill:
        return _become(book, item, "U1", "we ended the run ourselves just before")
    return item


def _memory_case(numbers: Optional[OutOfMemory], context: Context) -> str:
    case = numbers.case if numbers else "plain"
    if case == "neighbour" or (context.vram_used_before or 0) > 0.25:
        return "U11"
    return {"fragmentation": "M8", "big request": "M2"}.get(case, "")


def _disk_case(context: Context) -> str:
    if (context.inodes_used or 0) >= _NEARLY_FULL and (context.disk_used or 0) < _NEARLY_FULL:
        return "AD4" if context.family == "autodl" else "U7"
    if context.family == "runpod" and (context.overlay_used or 0) >= _NEARLY_FULL:
        return "RP11"
    return ""


def _become(book: Book, item: Candidate, wanted: str, note: str = "") -> Candidate:
    if not wanted or wanted == item.entry.id:
        return item
    at = book.index_of().get(wanted)
    # An entry without signs, exits or states is not in the catalogue: it inherits this one's place.
    entry = book.entries[at] if at is not None else item.entry._replace(id=wanted, refines=(item.entry.id,))
    return replace(item, entry=entry, instead_of=(*item.instead_of, item.entry.id), note=note or item.note)


def _merged(items: List[Candidate]) -> List[Candidate]:
    """Join candidates of one entry: several logs, or log and exit code."""
    found: Dict[str, Candidate] = {}
    for item in sorted(items, key=lambda one: (one.confidence != "certain", one.order)):
        first = found.get(item.entry.id)
        if first is None:
            found[item.entry.id] = item
        else:
            broader = tuple(dict.fromkeys((*first.instead_of, *item.instead_of)))
            found[item.entry.id] = replace(first, evidence=(*first.evidence, *item.evidence), instead_of=broader)
    return list(found.values())


def _without_broader(book: Book, items: List[Candidate]) -> List[Candidate]:
    """Drop an entry that another one refines, along the whole chain."""
    known = {entry.id: entry for entry in book.entries}
    present = {item.entry.id: item for item in items}
    dropped: Dict[str, List[str]] = {}
    for item in items:
        waiting = list(item.entry.refines)
        while waiting:
            broader = waiting.pop()
            if broader in present:
                dropped.setdefault(item.entry.id, []).append(broader)
            waiting.extend(known[broader].refines if broader in known else ())
    gone = {name for names in dropped.values() for name in names}
    return [
        replace(item, instead_of=tuple(dict.fromkeys((*item.instead_of, *dropped.get(item.entry.id, ())))))
        for item in items
        if item.entry.id not in gone
    ]


def _without_fallbacks(items: List[Candidate]) -> List[Candidate]:
    """Drop a bare traceback or a launcher's summary beside a real finding, or on another finding's line."""
    named = {_place(item) for item in items if item.entry.tier < _FALLBACK or item.entry.follows}
    items = [item for item in items if item.entry.tier < _FALLBACK or item.entry.follows or not _echo(item, named)]
    if any(item.entry.tier < _FALLBACK and not item.entry.follows for item in items):
        return [item for item in items if item.entry.tier < _FALLBACK]
    caused = any(not item.entry.follows for item in items)
    return [item for item in items if item.entry.tier < _FALLBACK or not item.entry.follows or not caused]


def _echo(item: Candidate, named: Set[Tuple[str, int]]) -> bool:
    """Return whether a fallback only repeats another finding: the same line, or a launcher's own exception."""
    summary = any(word in item.evidence[0].text for word in _SUMMARIES)
    return _place(item) in named or (bool(named) and summary)


def _place(item: Candidate) -> Tuple[str, int]:
    return item.evidence[0].source, item.evidence[0].offset
