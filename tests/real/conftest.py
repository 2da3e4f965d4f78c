"""A life on a box behind a real sshd; and counts, said at the end (see tests/support/tally.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.lifecycle.home import Home
from tests.support import tally
from tests.support.beds import SshBed, ssh_bed
from tests.support.lives import Life


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(tally):
        config.pluginmanager.register(tally)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Give an empty home whose name has a space."""
    made = Home(tmp_path / "lease home")
    yield made
    made.ledger.close()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    """Give a function that sets up a life on one ssh box: begin(job=..., box=environment of the box)."""
    with contextlib.ExitStack() as stack:
        beds: list[SshBed] = []

        def make(name: str = "life", job: dict[str, Any] | None = None, box: dict[str, str] | None = None) -> Life:
            if not beds:
                beds.append(stack.enter_context(ssh_bed(tmp_path, box)))
            life = Life(beds[0], tmp_path / name, job={"name": name, **(job or {})})
            stack.callback(life.close)
            return life

        yield make


@pytest.fixture
def life(begin: Callable[..., Life]) -> Life:
    """Give a plain life."""
    return begin()
