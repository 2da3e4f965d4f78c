"""A person with a small job; and counts, printed at the end (see tests/support/tally.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import tally
from tests.support.front import Front, front

TRAIN = """
import json, os
print("step 1/1 loss 0.5", flush=True)
json.dump({"loss": 0.5}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(tally):
        config.pluginmanager.register(tally)


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person with a job of one step that has no smoke."""
    with front(tmp_path) as person:
        person.write("train.py", TRAIN)
        person.job()
        yield person
