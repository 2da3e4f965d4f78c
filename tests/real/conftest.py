"""What the real tests share; counts are said at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.lifecycle.home import Home
from tests.support import tally


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(tally):
        config.pluginmanager.register(tally)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Give an empty home whose name has a space."""
    made = Home(tmp_path / "lease home")
    yield made
    made.ledger.close()
