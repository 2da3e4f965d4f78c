"""docs/walk.md names only functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from .pages import ROOT, SOURCES

_PAGE = ROOT / "docs" / "walk.md"
_HOP = re.compile(r"^(\d+)\. `([\w/]+\.py):([\w.]+)` \S.*\.$")
_HOPS = [line for line in _PAGE.read_text(encoding="utf-8").splitlines() if line[:1].isdigit()]
_MOST_HOPS = 40
_MOST_COLUMNS = 100


@pytest.mark.parametrize("line", _HOPS)
def test_a_hop_exists(line: str) -> None:
    found = _HOP.match(line)
    assert found, line
    assert found[3] in functions_of(SOURCES / found[2]), f"{found[2]} has no {found[3]}"


def test_the_walk_is_short() -> None:
    numbers = [int(line.partition(".")[0]) for line in _HOPS]
    assert numbers == list(range(1, len(_HOPS) + 1))
    assert len(_HOPS) <= _MOST_HOPS
    assert max(map(len, _PAGE.read_text(encoding="utf-8").splitlines())) <= _MOST_COLUMNS


def functions_of(path: Path) -> set[str]:
    """List the functions of a module, and its classes' methods as Class.method."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            names.update(f"{owner.name}.{node.name}" for node in owner.body if isinstance(node, ast.FunctionDef))
    return names
