"""Every kind of journal event with its sentence: the one place that describes an event to a person."""

from __future__ import annotations

from typing import Dict, Optional

from leasehold.kit.run.continued import is_setback
from leasehold.kit.tables.topics import HIGH
from leasehold.kit.text.safe_text import one_line

from . import cluster_events, failure_events, refuge_events, run_events, setup_events
from .sentence import Event, Sentence, whose

NOTICE_CHARS = 600

SENTENCES: Dict[str, Sentence] = {
    **run_events.SENTENCES,
    **failure_events.SENTENCES,
    **setup_events.SENTENCES,
    **cluster_events.SENTENCES,
    **refuge_events.SENTENCES,
}


def describe(event: Event) -> str:
    """Describe an event on a screen, in one line or a few; text from an untrusted box cannot move the cursor."""
    kind = str(event.get("k"))
    sentence = SENTENCES.get(kind)
    try:
        said = sentence.line(event) if sentence else kind.replace("_", " ")
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):  # from a newer or older box
        said = kind.replace("_", " ")
    return "\n".join(one_line(line) for line in said.split("\n"))


def notified(event: Event) -> Optional[Sentence]:
    """Return how an event is notified; None for kinds that do not send a notice."""
    sentence = SENTENCES.get(str(event.get("k")))
    if sentence is None or not sentence.topic:
        return None
    if event.get("k") == "attempt_began" and (event.get("alarm") or not is_setback(event)):
        return None  # it continued, as expected; or a separate alarm is sent
    if event.get("k") == "alarm_raised" and event.get("level") != "warn":
        return sentence._replace(priority=HIGH)
    return sentence


def notice_text(event: Event) -> str:
    """Describe an event in a notice: one line of limited length."""
    kind = str(event.get("k"))
    sentence = SENTENCES.get(kind)
    try:
        said = (sentence.notice or sentence.line)(event) if sentence else kind.replace("_", " ")
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):  # from a newer or older writer
        said = kind.replace("_", " ")
    named = bool(whose(event)) and said.startswith(whose(event))
    return shortened(said if named else said[:1].upper() + said[1:])


def shortened(text: str) -> str:
    """Join text into one line and cut it to the length limit of a notice."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= NOTICE_CHARS else line[: NOTICE_CHARS - 2] + " …"
