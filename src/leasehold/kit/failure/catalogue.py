"""The failure catalogue's matching half, compiled to JSON beside this file.

`tools/gen_catalogue.py` writes catalogue.json from facts/catalogue/*.yaml. A sign is a regex over one line with
literals, at least one of which is in every match; an anchor is a short string, chosen so that few anchors cover all
literals. Literals and anchors are compared with digits masked: a log's lines differ mostly in their numbers, so
masked lines repeat and each has to be checked once.
"""

from __future__ import annotations

import json
import pkgutil
import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Pattern, Tuple

FORMAT = 1
MASK = bytes.maketrans(b"123456789\r", b"000000000\n")  # a carriage return ends a line too


class Entry(NamedTuple):
    """The part of a failure mode that the matcher needs."""

    id: str
    kind: str  # failure or notice: a notice is informative, and never an alarm
    klass: str
    tier: int  # order of evidence: lower is nearer to the hardware
    refines: Tuple[str, ...]
    soft: bool  # counts only if nothing shows that the run continued after it
    follows: bool  # a consequence: an earlier entry is the cause, if there is one
    least: int  # how many lines must match
    platform: str  # only on this platform, if one is named
    exits: Tuple[int, ...]
    states: Tuple[str, ...]


class Sign:
    """One regex of an entry; compiled when a literal of it is first seen."""

    def __init__(self, entry: int, pattern: str, literals: List[str], after: str) -> None:
        self.entry = entry
        self.pattern = pattern
        self.literals = [literal.encode("utf-8") for literal in literals]
        self.has_after = bool(after)
        self._after = after
        self._regex: Optional[Pattern[bytes]] = None
        self._after_regex: Optional[Pattern[bytes]] = None

    def found_in(self, line: bytes) -> bool:
        """Return whether the line matches."""
        if self._regex is None:
            self._regex = re.compile(self.pattern.encode("utf-8"))
        return self._regex.search(line) is not None

    def follows_from(self, before: bytes) -> bool:
        """Return whether the text before the line holds the required predecessor."""
        if not self._after:
            return True
        if self._after_regex is None:
            self._after_regex = re.compile(self._after.encode("utf-8"))
        return self._after_regex.search(before) is not None


class Book:
    """All entries that can be found in a log, by exit code or by state, and the anchors that lead to them."""

    def __init__(self, value: Dict[str, Any]) -> None:
        if value.get("format") != FORMAT:
            raise ValueError("the catalogue has format %r, this code reads %d" % (value.get("format"), FORMAT))
        self.entries = [_entry(item) for item in value["entries"]]
        self.signs: List[Sign] = []
        for index, item in enumerate(value["entries"]):
            for sign in item.get("signs", ()):
                self.signs.append(Sign(index, sign["re"], sign["any"], sign.get("after", "")))
        self.anchors = [anchor.encode("utf-8") for anchor in value["anchors"]]
        self.table = [
            (text.translate(MASK), number) for number, sign in enumerate(self.signs) for text in sign.literals
        ]
        for text, _ in self.table:
            if not any(anchor in text for anchor in self.anchors):
                raise ValueError("no anchor leads to %r" % text)

    def signs_in(self, masked: bytes) -> FrozenSet[int]:
        """Return the signs of which a masked line holds a literal."""
        return frozenset(number for text, number in self.table if text in masked)

    def literals(self) -> List[bytes]:
        """Return every literal once: a line without any of them matches nothing."""
        return sorted({literal for sign in self.signs for literal in sign.literals})

    def index_of(self) -> Dict[str, int]:
        """Map each id to its position."""
        return {entry.id: index for index, entry in enumerate(self.entries)}


def shipped() -> Book:
    """Read the catalogue that lies beside this file, also from inside a zip."""
    data = pkgutil.get_data("leasehold.kit.failure", "catalogue.json")
    if data is None:
        raise ValueError("catalogue.json is missing beside leasehold.kit.failure")
    return Book(json.loads(data.decode("utf-8")))


def _entry(item: Dict[str, Any]) -> Entry:
    return Entry(
        id=item["id"],
        kind=item.get("kind", "failure"),
        klass=item["class"],
        tier=item.get("tier", 5),
        refines=tuple(item.get("refines", ())),
        soft=item.get("soft", False),
        follows=item.get("follows", False),
        least=item.get("least", 1),
        platform=item.get("platform", ""),
        exits=tuple(item.get("exits", ())),
        states=tuple(item.get("states", ())),
    )
