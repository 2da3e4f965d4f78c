"""From what was read to a diagnosis: candidates from every source, ranked, with the first failing rank found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from leasehold.facts.ailments import Ailment, all_ailments
from leasehold.kit.scan import Hit
from leasehold.kit.signs import Book, Entry
from leasehold.kit.terminal import one_line

from .context import Context
from .finding import Diagnosis, Evidence, Finding
from .oom import human, rung
from .precedence import Candidate, ranked
from .reading import ReadLog
from .remedy import filled

_TEXT_CHARS = 600
_MOST_EVIDENCE = 8


def diagnose(book: Book, logs: Sequence[ReadLog], context: Context) -> Diagnosis:
    """Say what the logs, the exit code, the states and the readings show."""
    candidates = [_from_hit(book, log, hit) for log in logs for hit in log.scan.hits]
    failures = [item for item in candidates if item.entry.kind == "failure"]
    failures += _from_exit(book, context, bool(failures))
    failures += _from_states(book, context)
    notices = [item for item in candidates if item.entry.kind == "notice"]
    listed = ranked(book, failures, context)
    found = [_finding(item, context) for item in _first_rank_noted(listed)]
    also = [_finding(item, context) for item in ranked(book, notices, Context(platform=context.platform))]
    read = tuple({"name": log.name, "bytes": log.scan.size, "lines": log.scan.lines} for log in logs)
    return Diagnosis(tuple(found), tuple(also), read)


def _from_hit(book: Book, log: ReadLog, hit: Hit) -> Candidate:
    entry = book.entries[hit.entry]
    rank = hit.rank if hit.rank is not None else log.rank
    text = one_line(hit.first.text.strip())[:_TEXT_CHARS]
    evidence = Evidence(log.name, text, hit.first.line, hit.first.offset, hit.times, rank)
    likely = entry.id == "U9" and "out of memory" not in text.lower() and "oom" not in text.lower()
    return Candidate(entry, (evidence,), (hit.stamp, hit.first.offset), "likely" if likely else "certain")


def _from_exit(book: Book, context: Context, explained: bool) -> list[Candidate]:
    """An exit code says something only where the log does not, and never for sure."""
    code = context.exit_code
    if code in (None, 0) or explained:
        return []
    evidence = Evidence("exit code", str(code))
    fitting = [entry for entry in book.entries if code in entry.exits or (code > 128 and 128 - code in entry.exits)]
    mine = [entry for entry in fitting if entry.platform and entry.platform == context.family]
    general = [entry for entry in fitting if not entry.platform and (entry.id != "U1" or context.own_kill)]
    return [Candidate(entry, (evidence,), confidence="likely") for entry in (mine or general)[:1]]


def _from_states(book: Book, context: Context) -> list[Candidate]:
    found = []
    for state in context.states:
        for entry in book.entries:
            if any(re.search(pattern, state) for pattern in entry.states) and _state_fits(entry, context):
                found.append(Candidate(entry, (Evidence("state", one_line(state)[:_TEXT_CHARS]),)))
    return found


def _state_fits(entry: Entry, context: Context) -> bool:
    """States such as `offline` or `pending` mean a platform's own thing only on that platform."""
    owners = {"VAST": "vastai", "RP": "runpod", "LAM": "lambda", "PS": "paperspace", "NB": "kaggle"}
    prefix = entry.id.rstrip("0123456789")
    return prefix not in owners or owners[prefix] == context.family


def _first_rank_noted(items: list[Candidate]) -> list[Candidate]:
    """Where some ranks only timed out, say which rank failed first; R§48.3."""
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


def _finding(item: Candidate, context: Context) -> Finding:
    ailment = all_ailments().get(item.entry.id) or _unwritten(item.entry)
    numbers: dict[str, object] = {}
    note = item.note
    if item.numbers is not None or item.entry.id == "U10" or "U10" in item.entry.refines:
        numbers = {**(item.numbers.as_dict() if item.numbers else {}), "rung": rung(item.entry.id, item.numbers)}
        note = "; ".join(filter(None, (note, _spoken(item))))
    return Finding(
        id=ailment.id,
        title=ailment.title,
        klass=ailment.klass,
        severity=ailment.severity,
        cause=ailment.cause,
        fix=ailment.fix,
        source=ailment.source,
        evidence=item.evidence[:_MOST_EVIDENCE],
        confidence=item.confidence,
        commands=filled(ailment, item.evidence[0], context),
        instead_of=item.instead_of,
        note=note,
        numbers=numbers,
    )


def _spoken(item: Candidate) -> str:
    """Say the numbers of an out-of-memory line, and the rung."""
    numbers = item.numbers
    step = rung(item.entry.id, numbers)
    if numbers is None or numbers.requested is None:
        return step
    words = ("requested", "total", "free", "allocated", "reserved")
    said = [f"{word} {human(value)}" for word in words if (value := getattr(numbers, word)) is not None]
    return f"{', '.join(said)} -> {step}"


def _unwritten(entry: Entry) -> Ailment:
    """The texts and the book come from one source; this stands in when only one of them was replaced."""
    return Ailment(entry.id, "", entry.id, "", "", "", entry.klass, "crash", "log", "")
