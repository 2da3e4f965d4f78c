"""Rules for the hand-written pages and for test names: width, size of the glossary, files that a guide names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.repository.pages import ROOT, SOURCES, Line, lines, manual

COLUMNS = 100
TERMS = 30
_LINK = re.compile(r"\]\([^)]*\)|https?://\S+")
_NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|py|json))`")
_PLACEHOLDERS = {"NAME", "TOPIC"}


def too_wide(line: Line) -> bool:
    """Decide whether prose is wider than the limit; the target of a link does not count."""
    return not line.code and not line.text.startswith("|") and len(_LINK.sub("]", line.text)) > COLUMNS


def test_no_line_of_prose_is_wider_than_100_columns() -> None:
    pages = [page for page in manual() if page.name != "ARCHITECTURE.md"]  # a generator writes half of it
    assert [line.where for line in lines(pages) if too_wide(line)] == []


@pytest.mark.parametrize(
    ("text", "code", "wide"),
    [
        ("a" * 100, False, False),
        ("a" * 101, False, True),
        ("a" * 101, True, False),
        ("| " + "a" * 101, False, False),
        ("[a](" + "b" * 101 + ")", False, False),
    ],
)
def test_what_counts_as_too_wide(text: str, code: bool, wide: bool) -> None:
    assert too_wide(Line("page:1", text, code)) is wide


def test_the_glossary_has_at_most_30_terms() -> None:
    rows = [line.text for line in lines([ROOT / "docs" / "glossary.md"]) if line.text.startswith("| ")]
    terms = [row.split("|")[1].strip() for row in rows if not row.startswith("| term ")]
    assert 0 < len(terms) <= TERMS
    assert len(terms) == len(set(terms))


def _guide() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition("## Where does my change go\n")[2].partition("\n## ")[0]


def test_the_guide_for_changes_has_ten_examples() -> None:
    assert len(re.findall(r"^### \d+\. ", _guide(), re.MULTILINE)) == 10


def _exists(name: str) -> bool:
    """Look in the sources, then in the repository; a bare name may lie in any folder of either."""
    if _PLACEHOLDERS & set(re.split(r"[/.]", name)):
        name = name.rpartition("/")[0]
    if "/" in name or not name:
        return any((place / name).exists() for place in (SOURCES, ROOT))
    return any(_find(place, name) for place in (SOURCES, ROOT / "tests", ROOT / "docs")) or (ROOT / name).exists()


def _find(place: Path, name: str) -> bool:
    return any(place.rglob(name))


def test_every_file_that_the_guide_for_changes_names_exists() -> None:
    named = set(_NAMED.findall(_guide()))
    assert len(named) > 30
    assert sorted(name for name in named if not _exists(name)) == []


def _own_texts() -> list[Path]:
    """List the files in which comments and pages refer to pages of this repository."""
    folders = ("src", "tools", "bench", "examples", "docs")
    endings = (".py", ".md", ".sh", ".yaml", ".json")
    return [path for name in folders for path in sorted((ROOT / name).rglob("*")) if path.suffix in endings]


def test_no_text_refers_to_a_page_that_is_not_here() -> None:
    numbered = "R" + "§"  # the sections of a page that was never in this repository
    found = []
    for path in _own_texts():
        text = path.read_text(encoding="utf-8")
        pages = set(re.findall(r"(?<![\w/.])docs/[\w/-]+\.md\b", text))
        wrong = [page for page in pages if not (ROOT / page).exists()] + [numbered] * (numbered in text)
        found += [f"{path.relative_to(ROOT)}: {page}" for page in wrong]
    assert found == []
