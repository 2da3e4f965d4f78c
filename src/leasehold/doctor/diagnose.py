"""Turn suspects into a diagnosis: each with the catalogue's texts, numbers and filled commands."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.facts.ailments import Ailment, all_ailments
from leasehold.kit.failure.catalogue import Book, Entry
from leasehold.kit.failure.evidence import Context
from leasehold.kit.failure.oom import rung
from leasehold.kit.failure.precedence import Candidate
from leasehold.kit.failure.suspects import ReadLog, suspects
from leasehold.kit.text.units import say_binary

from .finding import Diagnosis, Finding
from .remedy import filled

_MOST_EVIDENCE = 8


def diagnose(book: Book, logs: Sequence[ReadLog], context: Context) -> Diagnosis:
    """Diagnose from the logs, the exit code, the states and the readings."""
    failures, notices = suspects(book, logs, context)
    found = [_finding(item, context) for item in failures]
    also = [_finding(item, context) for item in notices]
    read = tuple({"name": log.name, "bytes": log.scan.size, "lines": log.scan.lines} for log in logs)
    return Diagnosis(tuple(found), tuple(also), read)


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
    """Format the numbers of an out-of-memory line, and the proposed remedy."""
    numbers = item.numbers
    step = rung(item.entry.id, numbers)
    if numbers is None or numbers.requested is None:
        return step
    words = ("requested", "total", "free", "allocated", "reserved")
    said = [f"{word} {say_binary(value)}" for word in words if (value := getattr(numbers, word)) is not None]
    return f"{', '.join(said)} -> {step}"


def _unwritten(entry: Entry) -> Ailment:
    """Return a placeholder text: texts and catalogue come from one source, unless only one of them was replaced."""
    return Ailment(entry.id, "", entry.id, "", "", "", entry.klass, "crash", "log", "")
