"""The only module that prints: data to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leasehold.errors import HomeError, LeaseholdError
from leasehold.model.run.note import Note
from leasehold.model.values.wording import one_line, without_secrets

from .terminal import ANSI, shows_colour

_QUIET = {"event"}
_GOOD = {"receipt", "smoke_passed", "detach_proven", "closed", "hashes_equal", "loads"}
_BAD = {"unknown", "warning", "hogs", "danger", "waiver_asked", "by_hand", "unreachable", "nonfinite"}
_SILENT_EVENTS = {"attempt_starting"}

Colours = Mapping[str, Mapping[str, str]]  # column heading -> cell content -> colour


def paint(text: str, colour: str) -> str:
    """Colour a part of a message, which goes to stderr; no colour leaves it as it is."""
    return _painted(text, colour, sys.stderr)


def paint_data(text: str, colour: str) -> str:
    """Colour a part of the data, which goes to stdout: a pipe gets no colour, whatever stderr is."""
    return _painted(text, colour, sys.stdout)


def _painted(text: str, colour: str, stream: Any) -> str:
    return f"\x1b[{ANSI[colour]}m{text}\x1b[0m" if colour and shows_colour(stream) else text


class Screen:
    """Renders notes as they arrive; log lines carry a bar to set them apart."""

    last_run = ""  # for the last message after Ctrl-C

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet

    def report(self, note: Note) -> None:
        """Show one note."""
        Screen.last_run = str(note.data.get("run", "")) or Screen.last_run
        if self._quiet:
            return
        if note.kind == "log":
            self._log(note)
            return
        if note.kind in _QUIET and note.data.get("k") in _SILENT_EVENTS:
            return
        colour = "green" if note.kind in _GOOD else "yellow" if note.kind in _BAD else ""
        colour = "dim" if note.kind == "event" else "yellow" if note.data.get("nonfinite") else colour
        text = note.text if note.kind == "by_hand" else "\n".join(one_line(line) for line in note.text.split("\n"))
        say(paint(text, colour) if colour else text)

    def _log(self, note: Note) -> None:
        for line in note.text.rstrip("\n").split("\n"):
            say(f"  {paint('|', 'dim')} {line}")


def say(text: str) -> None:
    """Print a message for a person, on stderr."""
    print(text, file=sys.stderr, flush=True)


def data(text: str, end: str = "\n") -> None:
    """Print data, on stdout."""
    print(text, end=end, flush=True)


def to_file(place: str, content: bytes) -> None:
    """Write a file that a person requested, and report it."""
    try:
        Path(place).write_bytes(content)
    except OSError as error:
        raise HomeError("home.unwritable", f"{place}: {error.strerror}", hint="choose another --out") from None
    say(f"wrote {place}")


def as_yaml(values: Iterable[Mapping[str, Any]]) -> str:
    """Format objects as one stream of YAML documents, as kubectl takes them."""
    import yaml

    return "---\n".join(yaml.safe_dump(dict(value), sort_keys=False, width=100) for value in values)


def as_json(value: Any) -> None:
    """Print data as JSON, on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str), flush=True)


def error(problem: LeaseholdError, json_wanted: bool) -> None:
    """Render an error once, without the secrets it may quote."""
    shown = without_secrets(problem.as_dict())
    if json_wanted:
        as_json({"error": shown})
        return
    say(paint(f"error[{problem.code}]", "red") + f": {one_line(shown['message'])}")
    for label, text in (("seen", shown["seen"]), ("hint", shown["hint"])):
        first, *more = text.splitlines() if text else [""]
        if first:
            say(f"  {label}: {one_line(first)}")
        for line in more:
            say(f"        {one_line(line)}")


def defect(problem: Exception, json_wanted: bool) -> None:
    """Report a defect of leasehold itself, and keep the traceback in a file that can be sent."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="leasehold-defect-", suffix=".txt", delete=False) as file:
        file.write(without_secrets("".join(traceback.format_exception(problem))))
    hint = f"runs on boxes are not touched by this; please report it with {file.name}"
    error(LeaseholdError("leasehold.defect", f"{type(problem).__name__}: {problem}", hint=hint), json_wanted)


def columns() -> int:
    """Return the width of the terminal that shows data; 0 when a program reads it."""
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0


def lines(texts: Iterable[str]) -> None:
    """Print lines of data, with control characters from a box made harmless."""
    for text in texts:
        print(one_line(text), flush=True)


def table(rows: list[list[str]], head: list[str], colours: Colours | None = None) -> None:
    """Print columns, as narrow as their content."""
    Columns(head, rows, colours).show(rows)


class Columns:
    """Columns as wide as some rows need; rows may then be printed in parts, with the header before the first."""

    def __init__(self, head: list[str], rows: list[list[str]], colours: Colours | None = None) -> None:
        self._head = head
        self._widths = [_widest(cells) for cells in zip(head, *rows, strict=True)]
        self._colours = [(head.index(name), of) for name, of in (colours or {}).items()]
        self._begun = False

    def show(self, rows: list[list[str]]) -> None:
        """Print some rows."""
        if not rows:
            return
        coloured = bool(self._colours) and shows_colour(sys.stdout)
        lines = [self._line(row, coloured) for row in rows]
        if not self._begun:
            lines.insert(0, paint_data(self._line(self._head), "dim"))
            self._begun = True
        data("\n".join(lines))

    def _line(self, row: list[str], coloured: bool = False) -> str:
        if _is_plain(row):
            padded = list(map(str.ljust, row, self._widths))
        else:
            cells = [one_line(cell) for cell in row]
            padded = [cell + " " * (width - _width(cell)) for cell, width in zip(cells, self._widths, strict=True)]
        if coloured:
            for place, colours in self._colours:
                content = row[place]
                if content in colours:  # padding stays uncoloured
                    padded[place] = paint_data(content, colours[content]) + padded[place][len(content) :]
        return "  ".join(padded).rstrip()


def bullets(items: Iterable[str]) -> None:
    """Print a list on stderr."""
    for item in items:
        say(f"  - {one_line(item)}")


def _widest(cells: Sequence[str]) -> int:
    return max(map(len, cells) if _is_plain(cells) else (_width(one_line(cell)) for cell in cells))


def _is_plain(cells: Sequence[str]) -> bool:
    """Check for printable ASCII, where length is width; nearly all cells are, in tables of thousands."""
    text = "".join(cells)
    return text.isascii() and text.isprintable()


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from .term_text import display_width

    return display_width(text)
