"""Counts are said at the end (see tests/support/tally.py)."""

from __future__ import annotations

import pytest

from tests.support import tally


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(tally):
        config.pluginmanager.register(tally)
