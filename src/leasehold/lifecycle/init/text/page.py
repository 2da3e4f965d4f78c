"""A job file for people: YAML with comments, in which every text keeps its value."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

import yaml

from leasehold.kit.text.safe_text import one_line

FILL_IN = "FILL IN"
PLACEHOLDER = "FILL_IN"  # the same as a single word, for use in a command
GUESS = "GUESS"
COMMANDS_SAY = (
    "Commands may say {{out}} (the folder that comes home), {{run}}, {{cell}}, {{attempt}}; quotes are put for you."
)
_WIDTH = 112


@dataclass
class Page:
    """Lines of a job file, built from the top."""

    lines: list[str] = field(default_factory=list)

    def say(self, *texts: str) -> None:
        """Add comment lines, wrapped."""
        for text in texts:
            self.lines += _wrapped(text)

    def suggest(self, line: str, why: str = "", indent: int = 0) -> None:
        """Add a line that becomes part of the job once its comment mark is removed."""
        self.lines.append(f"{' ' * indent}# {clean(line)}{_aside(why)}")

    def gap(self) -> None:
        """Add an empty line between sections."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def put(self, key: str, value: str, why: str = "", indent: int = 0) -> None:
        """Add a key with a text; a multi-line one becomes a block."""
        pad = " " * indent
        if "\n" not in value:
            self.lines.append(f"{pad}{scalar(key)}: {scalar(value)}{_aside(why)}")
            return
        style = "|" if value.endswith("\n") else "|-"
        block = [f"{pad}{scalar(key)}: {style}{_aside(why)}"]
        block += [f"{pad}  {line}" if line else "" for line in value.removesuffix("\n").split("\n")]
        if _reads_as("\n".join(block) + "\n", value):
            self.lines += block
        else:
            self.lines.append(f"{pad}{scalar(key)}: {scalar(value)}{_aside(why)}")

    def open(self, key: str, why: str = "", indent: int = 0) -> None:
        """Add a key whose children follow."""
        self.lines.append(f"{' ' * indent}{scalar(key)}:{_aside(why)}")

    def put_list(self, key: str, values: Iterable[str], why: str = "", indent: int = 0) -> None:
        """Add a key with a short list."""
        inside = ", ".join(scalar(value, in_flow=True) for value in values)
        self.lines.append(f"{' ' * indent}{scalar(key)}: [{inside}]{_aside(why)}")

    def put_number(self, key: str, value: int | bool, why: str = "", indent: int = 0) -> None:
        """Add a key with a number or a boolean."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self.lines.append(f"{' ' * indent}{key}: {text}{_aside(why)}")

    def put_env(self, name: str, value: str, why: str = "") -> None:
        """Add a variable under `env:`."""
        self.put(name, value, why, indent=2)

    def text(self) -> str:
        """Return the whole file."""
        return "\n".join(self.lines).rstrip() + "\n"


def lines_to_fill_in(text: str) -> list[int]:
    """List the lines of a job file that the person must fill in; the line that explains the mark is not one."""
    lines = enumerate(text.splitlines(), 1)
    marks = (FILL_IN, PLACEHOLDER)
    return [at for at, line in lines if any(mark in line for mark in marks) and f"{FILL_IN} marks what" not in line]


def scalar(text: str, in_flow: bool = False) -> str:
    """Format a text so that YAML reads exactly it, quoted only where needed."""
    value: object = [text] if in_flow else text
    style = '"' if "\n" in text else None  # the other quotes would span lines
    dumped = yaml.safe_dump(value, allow_unicode=True, width=1 << 20, default_flow_style=True, default_style=style)
    dumped = dumped.strip()
    if in_flow:
        return dumped[1:-1]
    return dumped.removesuffix("...").strip()


def clean(text: str, most: int = 300) -> str:
    """Make a text safe for a comment: one line, without characters that a terminal or YAML would misread."""
    shown = one_line(" ".join(text.split()))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _aside(why: str) -> str:
    return f"  # {clean(why)}" if why else ""


def _wrapped(text: str) -> list[str]:
    indent = "  " if text.startswith("  ") else ""
    lines = textwrap.wrap(clean(text, 2000), _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"# {indent if number == 0 else indent + '  '}{line}".rstrip() for number, line in enumerate(lines)]


def _reads_as(block: str, value: str) -> bool:
    """Return whether a block reads as exactly the value; unusual first lines and characters do not survive in one."""
    try:
        read = yaml.safe_load(textwrap.dedent(block))
    except yaml.YAMLError:
        return False
    return isinstance(read, dict) and list(read.values()) == [value]
