"""The catalogue's texts: the symptom of a failure, its cause, its remedy; read from the compiled JSON."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources

from leasehold.errors import HomeError


@dataclass(frozen=True)
class Ailment:
    """One catalogue entry for people."""

    id: str
    topic: str
    title: str
    symptom: str
    cause: str
    fix: str
    klass: str
    severity: str
    found_by: str
    source: str
    refines: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    zh: str = ""
    commands: tuple[str, ...] = ()
    take: str = ""


@functools.cache
def all_ailments() -> dict[str, Ailment]:
    """Read every entry, by id."""
    try:
        text = resources.files("leasehold.facts").joinpath("catalogue.json").read_text("utf-8")
        return {name: _ailment(name, item) for name, item in json.loads(text).items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HomeError("catalogue.damaged", f"the failure catalogue: {error!r}", hint="reinstall leasehold") from None


def find(word: str) -> Ailment | None:
    """Find an entry by its id or an alias, whatever the case."""
    wanted = word.lower()
    for ailment in all_ailments().values():
        if wanted in (ailment.id.lower(), *(alias.lower() for alias in ailment.aliases)):
            return ailment
    return None


def _ailment(name: str, item: dict[str, object]) -> Ailment:
    words = {
        key: str(item[key]) for key in ("topic", "title", "symptom", "cause", "fix", "severity", "found_by", "source")
    }
    return Ailment(
        id=name,
        klass=str(item["class"]),
        refines=_texts(item, "refines"),
        aliases=_texts(item, "aliases"),
        zh=str(item.get("zh", "")),
        commands=_texts(item, "do"),
        take=str(item.get("take", "")),
        **words,
    )


def _texts(item: dict[str, object], key: str) -> tuple[str, ...]:
    value = item.get(key, ())
    return tuple(str(text) for text in value) if isinstance(value, (list, tuple)) else ()
