"""A test's name fits a line of a report."""

from __future__ import annotations

import re

from tests.unit.repository.pages import ROOT

LONGEST = 70
_NAME = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


def test_no_name_of_a_test_is_longer_than_70_characters() -> None:
    names = {
        name: path.name for path in (ROOT / "tests").rglob("*.py") for name in _NAME.findall(path.read_text("utf-8"))
    }
    assert len(names) > 1000
    assert sorted(f"{path}: {name}" for name, path in names.items() if len(name) > LONGEST) == []
