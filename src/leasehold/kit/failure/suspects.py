"""Rank every source of evidence into suspects and note the first failing rank. Both ends use it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import List, Optional, Sequence, Tuple

from leasehold.kit.text.safe_text import one_line

from .catalogue import Book, Entry
from .evidence import Context, Evidence
from .log_scan import Hit, Scan
from .precedence import Candidate, ranked

_TEXT_CHARS = 600


@dataclass(frozen=True)
class ReadLog:
    """One log after reading: its name, the rank that wrote it if known, its findings."""

    name: str
    rank: Optional[int]
    scan: Scan


def suspects(book: Book, logs: Sequence[ReadLog], context: Context) -> Tuple[List[Candidate], List[Candidate]]:
    """Rank what the logs, the exit code, the states and the readings show: failures, and notices."""
    candidates = [_from_hit(book, log, hit) for log in logs for hit in log.scan.hits]
    failures = [item for item in candidates if item.entry.kind == "failure"]
    failures += _from_exit(book, context, bool(failures))
    failures += _from_states(book, context)
    notices = [item for item in candidates if item.entry.kind == "notice"]
    listed = ranked(book, failures, context)
    return _first_rank_noted(listed), ranked(book, notices, Context(platform=context.platform))


def _from_hit(book: Book, log: ReadLog, hit: Hit) -> Candidate:
    entry = book.entries[hit.entry]
    rank = hit.rank if hit.rank is not None else log.rank
    text = one_line(hit.first.text.strip())[:_TEXT_CHARS]
    evidence = Evidence(log.name, text, hit.first.line, hit.first.offset, hit.times, rank)
    likely = entry.id == "U9" and "out of memory" not in text.lower() and "oom" not in text.lower()
    return Candidate(entry, (evidence,), (hit.stamp, hit.first.offset), "likely" if likely else "certain")


def _from_exit(book: Book, context: Context, explained: bool) -> List[Candidate]:
    """Return suspects from the exit code, which counts only if the log shows nothing, and never for certain."""
    code = context.exit_code
    if code in (None, 0) or explained:
        return []
    evidence = Evidence("exit code", str(code))
    fitting = [entry for entry in book.entries if code in entry.exits or (code > 128 and 128 - code in entry.exits)]
    mine = [entry for entry in fitting if entry.platform and entry.platform == context.family]
    general = [entry for entry in fitting if not entry.platform and (entry.id != "U1" or context.own_kill)]
    return [Candidate(entry, (evidence,), confidence="likely") for entry in (mine or general)[:1]]


def _from_states(book: Book, context: Context) -> List[Candidate]:
    found = []
    for state in context.states:
        for entry in book.entries:
            if any(re.search(pattern, state) for pattern in entry.states) and _state_fits(entry, context):
                found.append(Candidate(entry, (Evidence("state", one_line(state)[:_TEXT_CHARS]),)))
    return found


def _state_fits(entry: Entry, context: Context) -> bool:
    """Return whether a state applies: `offline` or `pending` has its special meaning only on its own platform."""
    owners = {"VAST": "vastai", "RP": "runpod", "LAM": "lambda", "PS": "paperspace", "NB": "kaggle"}
    prefix = entry.id.rstrip("0123456789")
    return prefix not in owners or owners[prefix] == context.family


def _first_rank_noted(items: List[Candidate]) -> List[Candidate]:
    """If some ranks only timed out, note which rank failed first."""
    waited = [item for item in items if item.entry.follows and item.entry.id in ("MN3", "NC1")]
    causes = [item for item in items if not item.entry.follows]
    if not waited or not causes:
        return items
    first = min(causes, key=lambda item: item.order)
    at = items.index(first)
    spoken = [evidence.rank for evidence in first.evidence if evidence.rank is not None]
    who = f"rank {spoken[0]} failed first" if spoken else f"this came first, in {first.evidence[0].source}"
    noted = replace(first, note=f"{who}; the other ranks waited for it until their time-out (D20)")
    rest = items[:at] + items[at + 1 :]
    return [noted, *rest]
