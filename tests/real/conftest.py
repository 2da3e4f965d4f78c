"""What the real tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.lifecycle.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Give an empty home whose name has a space."""
    made = Home(tmp_path / "lease home")
    yield made
    made.ledger.close()
