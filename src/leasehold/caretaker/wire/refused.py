"""How the box says no."""

from __future__ import annotations


class Refused(Exception):
    """An answer of no: a code that home knows, a sentence, and what to do."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
