"""One suite, every transport."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ODD_NAMES
from tests.contract.doors import Door, opened

KINDS = [
    pytest.param("local"),
    pytest.param("kubectl"),
    pytest.param("ssh", marks=[pytest.mark.real_ssh, pytest.mark.full]),
    pytest.param("autodl", marks=[pytest.mark.containers, pytest.mark.full]),
]


@pytest.fixture(params=KINDS)
def door(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """Give a door to an empty box, once for each transport."""
    with opened(request.param, tmp_path, "root", monkeypatch) as door:
        yield door


@pytest.fixture(params=KINDS)
def odd_door(
    request: pytest.FixtureRequest, tmp_path: Path, odd_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Door]:
    """Give a door to a box where our folder has a name that shells do not expect."""
    with opened(request.param, tmp_path, odd_name, monkeypatch) as door:
        yield door


_ODD_IN_THE_FAST_TIER = ("quotes", "newline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two odd names stand for all of them in the fast tier."""
    for item in items:
        odd = getattr(item, "callspec", None) and item.callspec.params.get("odd_name")  # type: ignore[attr-defined]
        if odd and odd not in [ODD_NAMES[name] for name in _ODD_IN_THE_FAST_TIER]:
            item.add_marker(pytest.mark.full)
