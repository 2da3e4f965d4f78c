"""Make text from a box safe to show: no escape sequence reaches the user's terminal."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x80-\x9f]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def plain(text: str) -> str:
    """Strip escape sequences and control characters; keep newlines and tabs."""
    text = _ESCAPES.sub("", text)
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(_CONTROLS.sub("", _last_redraw(line)) for line in lines)


def one_line(text: str) -> str:
    """Show a path or name on one line: controls become visible escapes."""
    if text.isprintable():  # no control, so no escape either: the common case, thousands of times in a table
        return text
    cleaned = _ESCAPES.sub("", text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cleaned)


def _last_redraw(line: str) -> str:
    """Keep the last text that a progress bar drew over its own line."""
    parts = [part for part in line.split("\r") if part]
    return parts[-1] if parts else ""
