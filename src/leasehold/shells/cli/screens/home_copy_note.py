"""Reports that the home copy is shown instead of the box, and keeps that for --json."""

from __future__ import annotations

from typing import Any

from leasehold.model.run.note import Note
from leasehold.shells.cli import output


class CopyScreen:
    """A screen that records whether a verb reads the home copy."""

    def __init__(self, json_wanted: bool) -> None:
        self._json = json_wanted
        self.facts: dict[str, Any] = {}  # for --json; empty where the box was read

    def report(self, note: Note) -> None:
        """Take a note; only that of a home copy is shown."""
        if note.kind != "home_copy":
            return
        self.facts = {"home_copy": note.data}
        if not self._json:
            output.say(f"this shows the {note.text}")
