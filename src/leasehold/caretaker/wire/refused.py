"""Refusal of a request by the box."""

from __future__ import annotations


class Refused(Exception):
    """A refusal: a code that home knows, a sentence, and the remedy."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
