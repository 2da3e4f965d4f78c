"""The terminal: its width, what it can show, and its colour codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

ANSI = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}
LINES = ("36", "33", "32", "35", "34", "31")  # colours of the curves in one frame


class Look(NamedTuple):
    """The capabilities of the terminal."""

    columns: int
    rows: int = 24
    glyphs: bool = True
    colour: bool = False


def look_of_stdout(rows: int = 24) -> Look:
    """Return stdout's screen size and what it can show; 80 columns and this many rows where a program reads."""
    import shutil  # imported here, with its decompressors: few commands draw

    columns, rows = shutil.get_terminal_size((80, rows))
    colour = shows_colour(sys.stdout) and bool(os.environ.get("TERM"))
    glyphs = "utf" in (sys.stdout.encoding or "").lower() and shows_glyphs(os.environ)
    return Look(columns, rows, glyphs, colour)


def shows_colour(stream: Any) -> bool:
    """Return whether a stream is a terminal on which a person wants colours."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def shows_glyphs(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal's locale shows more than ASCII."""
    given = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or ""
    if given == "C.UTF-8" and not (environment.get("LC_ALL") or "UTF" in environment.get("LANG", "").upper()):
        return False  # Python itself sets this LC_CTYPE in a C locale (PEP 538)
    return "UTF8" in given.upper().replace("-", "") and environment.get("TERM") != "linux"
