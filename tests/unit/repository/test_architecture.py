"""ARCHITECTURE.md names rooms, files and layers as they are, and the decisions are all there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.unit.repository.pages import ROOT, SOURCES, all_pages, lines

PAGE = ROOT / "ARCHITECTURE.md"
DECISIONS = ROOT / "docs" / "decisions"
PARTS = ["Context", "Decision", "Price", "What would reverse it"]
_FILE = re.compile(r"`((?:[\w*-]+/)*[\w*-]+\.(?:py|sh)|catalogue\.json)`")


def _rooms() -> dict[str, str]:
    """Read the table: room -> what it holds."""
    rows = re.findall(r"^\| `([\w/]+)/` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def _found(place: Path, named: str) -> list[Path]:
    """List the files below a place that are meant: a bare name may lie in any of its folders."""
    return list(place.glob(named) if "/" in named else place.rglob(named))


def test_every_room_has_its_row() -> None:
    built = {path.parent.name for path in SOURCES.glob("*/__init__.py")}
    assert {room.partition("/")[0] for room in _rooms()} == built


def test_a_file_is_in_the_room_whose_row_names_it() -> None:
    named = [(room, name) for room, held in _rooms().items() for name in _FILE.findall(held)]
    named += [(room, name) for room, held in _rooms().items() for name in re.findall(r"`(\w+)/`", held)]
    assert named
    assert [f"{room}: {name}" for room, name in named if not _found(SOURCES / room, name)] == []


def test_every_source_file_on_the_page_exists() -> None:
    named = _FILE.findall(PAGE.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not _found(SOURCES, name)] == []


def test_the_layers_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kept = project["tool"]["importlinter"]["contracts"][0]["layers"]
    block = re.search(r"^    shells > .*\n(?:    .*\n)*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert block
    assert [layer.strip() for layer in block[0].split(">")] == [re.sub(r"[()]", "", layer) for layer in kept]


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in sorted(DECISIONS.iterdir())]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_decision_has_its_number_and_its_four_parts() -> None:
    wrong = []
    for path in sorted(DECISIONS.iterdir()):
        text = path.read_text(encoding="utf-8")
        head = re.match(r"# (\d+)[.:] ", text)
        parts = re.findall(r"^(?:## |\*\*)([A-Z][a-z ]+?)(?:\.\*\*.*)?$", text, re.MULTILINE)
        if head is None or int(head[1]) != int(path.name[:4]) or parts != PARTS:
            wrong.append(f"{path.name}: {parts}")
    assert wrong == []


def test_a_decision_that_is_referred_to_exists() -> None:
    texts = [(line.where, line.text) for line in lines(all_pages())]
    texts += [(path.name, path.read_text(encoding="utf-8")) for path in SOURCES.rglob("*.py")]
    referred = [(where, int(number)) for where, text in texts for number in re.findall(r"\bdecision (\d+)\b", text)]
    assert referred
    count = len(list(DECISIONS.iterdir()))
    assert [f"{where}: decision {number}" for where, number in referred if not 0 < number <= count] == []
