"""Read `notify:` of a job file: topics and channels by name; a project never contains addresses."""

from __future__ import annotations

from typing import Any

from leasehold.kit.tables.topics import TOPICS, USUAL

from .job import NotifyWish
from .keys import NOTIFY_WORDS
from .known_keys import Bad, refuse_unknown

_HINT = "for example: notify: {on: [ended, failed, budget], channels: [phone]}"


def parse_notify(value: Any, bad: Bad) -> NotifyWish | None:
    """Check the key; None if the job does not have it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return NotifyWish(USUAL if value else ())
    if not isinstance(value, dict):
        raise bad("notify", f"must be a mapping or false, not {type(value).__name__}", _HINT)
    said = {"on" if key is True else key: item for key, item in value.items()}  # YAML 1.1 reads a bare `on` as true
    refuse_unknown(said, "notify", NOTIFY_WORDS, bad)
    topics = _words(said.get("on", list(USUAL)), "notify.on", bad)
    for topic in topics:
        if topic not in TOPICS:
            raise bad("notify.on", f"{topic!r} is not a topic", f"known: {', '.join(TOPICS)}")
    channels = _words(said.get("channels", []), "notify.channels", bad)
    if any("://" in name for name in channels):
        raise bad(
            "notify.channels", "holds an address, and job files are stored", "lease notify add, then name it here"
        )
    return NotifyWish(topics, channels)


def _words(value: Any, key: str, bad: Bad) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise bad(key, "must be a list of words", _HINT)
    return tuple(value)
