"""A disk at home that fills while results come: said in words, nothing is lost, and the same pull goes on later."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.front import SOURCES, Tmpfs

pytestmark = pytest.mark.namespaces
HOUSE = SOURCES.parent


@pytest.mark.parametrize("what, options", [("bytes", "size=40m"), ("inodes", "size=40m,nr_inodes=400")])
def test_a_disk_that_fills_during_a_pull_is_told_and_what_came_is_kept(tmp_path: Path, what: str, options: str) -> None:
    place = tmp_path / "small"
    place.mkdir()
    words = [sys.executable, "-m", "tests.support.small_disk_pull", str(tmp_path / "root"), str(place), what]
    done = subprocess.run(
        [*Tmpfs(place, options).words(), *words], cwd=HOUSE, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    full, still_full, room = seen["said"]
    assert full["code"] == still_full["code"] == "home.unwritable"
    assert "disk full" in full["hint"] and "--results DIR" in still_full["hint"]
    assert 0 < full["fetched"] < seen["total"]
    assert (room["code"], seen["equal"]) == ("", True)
    assert room["fetched"] < seen["total"], "what came before the disk was full did not come again"
