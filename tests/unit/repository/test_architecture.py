"""ARCHITECTURE.md names rooms, files and layers as they are, and the decisions are all there."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from tests.unit.repository.pages import ROOT, SOURCES, all_pages, lines

PAGE = ROOT / "ARCHITECTURE.md"
DECISIONS = ROOT / "docs" / "decisions"
PARTS = ["Context", "Decision", "Price", "What would reverse it"]
MODULES_AT_MOST = 16
_FILE = re.compile(r"`((?:[\w*-]+/)*[\w*-]+\.(?:py|sh)|catalogue\.json)`")


def _found(named: str) -> list[Path]:
    """List the files that are meant: a bare name may lie in any folder."""
    return list(SOURCES.glob(named) if "/" in named else SOURCES.rglob(named))


def test_every_room_says_in_one_line_what_it_holds() -> None:
    """The tree on the page is made of these lines by tools/gen_rooms.py."""
    silent = []
    for path in SOURCES.rglob("__init__.py"):
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if not said.partition("\n")[0].endswith((".", ".`")):
            silent.append(str(path.parent.relative_to(SOURCES)))
    assert silent == []


def test_no_room_has_more_than_a_screen_of_modules() -> None:
    full = {
        str(room.relative_to(SOURCES)): len(list(room.glob("*.py"))) - 1 for room in SOURCES.rglob("*") if room.is_dir()
    }
    assert {room: count for room, count in full.items() if count > MODULES_AT_MOST} == {}


def test_the_page_is_two_printed_pages_long() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 186


def test_every_source_file_on_the_page_exists() -> None:
    named = _FILE.findall(PAGE.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not _found(name)] == []


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
