"""The pages of this repository that people write by hand, and what can be read out of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "src" / "leasehold"
_FRONT = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
_GENERATED = ("catalogue.md", "cli.md", "errors.md", "job-keys.md", "platforms.md")


class Line(NamedTuple):
    """A line of a page and whether it stands in a block of code."""

    where: str  # page:number, for messages
    text: str
    code: bool


def all_pages() -> list[Path]:
    """List every page, generated ones included."""
    return [*(ROOT / name for name in _FRONT), *sorted((ROOT / "docs").rglob("*.md"))]


def manual() -> list[Path]:
    """List what a person wrote that must be true today: no history, and no decision of another day."""
    pages = [*(ROOT / name for name in _FRONT if name != "CHANGELOG.md"), *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in pages if page.name not in _GENERATED]


def lines(pages: list[Path]) -> Iterator[Line]:
    """Read pages line by line."""
    for page in pages:
        fenced = False
        for number, text in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if text.lstrip().startswith("```"):
                fenced = not fenced
                continue
            yield Line(f"{page.relative_to(ROOT)}:{number}", text, fenced or text.startswith("    "))


def code_words(line: Line) -> list[str]:
    """List what stands between backticks in a line of prose; all of a line of code."""
    return [line.text] if line.code else re.findall(r"`([^`]+)`", line.text)
