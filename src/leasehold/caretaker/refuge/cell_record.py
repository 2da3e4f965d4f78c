"""What the worker knows of a cell's copies, kept on the box's own disk: a killed worker continues from it."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from leasehold.kit.files.atomic import read_json, write_json

_MOST_NAMES = 2000


class CellRecord:
    """The copy under way, and for each refuge what is there and in which order it came."""

    def __init__(self, path: str) -> None:
        self._path = path
        known = read_json(path) or {}
        self.intent: Dict[str, Any] = _mapping(known.get("intent"))
        self.number = known["number"] if isinstance(known.get("number"), int) else 0
        self._places = {str(key): _mapping(one) for key, one in _mapping(known.get("places")).items()}

    def copied_mark(self, where: str) -> str:
        """Return the mark of the state that a refuge has; it is empty before the first."""
        return str(self._place(where).get("mark", ""))

    def begun_unix(self, where: str) -> float:
        """Return when the last copy that succeeded began; 0 before the first."""
        began = self._place(where).get("begun_unix")
        return float(began) if isinstance(began, (int, float)) else 0.0

    def names(self, where: str) -> List[str]:
        """Return the states that we copied to a refuge, the oldest first."""
        return [str(one) for one in self._place(where).get("names") or []]

    def begun_names(self, where: str) -> List[str]:
        """Return the states of which we may have left files without a manifest."""
        return [str(one) for one in self._place(where).get("begun") or []]

    def begin(self, where: str, name: str) -> None:
        """Note a copy before its first byte."""
        if name not in self.begun_names(where):
            self._place(where)["begun"] = (self.begun_names(where) + [name])[-_MOST_NAMES:]
        self.save()

    def finish(self, where: str, name: str, mark: str, begun_unix: float) -> None:
        """Note a copy after its pointer; only one that succeeded makes the next one wait."""
        place = self._place(where)
        place["mark"], place["begun_unix"] = mark, begun_unix
        place["names"] = ([one for one in self.names(where) if one != name] + [name])[-_MOST_NAMES:]
        place["begun"] = [one for one in self.begun_names(where) if one != name]
        self.save()

    def forget(self, where: str, names: List[str]) -> None:
        """Note that states were deleted."""
        place = self._place(where)
        place["names"] = [one for one in self.names(where) if one not in names]
        place["begun"] = [one for one in self.begun_names(where) if one not in names]
        self.save()

    def intend(self, intent: Optional[Dict[str, Any]], number: int) -> None:
        """Note the state that is copied next; None when it is done."""
        self.intent, self.number = intent or {}, max(self.number, number)
        self.save()

    def save(self) -> None:
        """Write it down."""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        write_json(self._path, {"intent": self.intent, "number": self.number, "places": self._places})

    def _place(self, where: str) -> Dict[str, Any]:
        return self._places.setdefault(where, {})


def _mapping(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}
