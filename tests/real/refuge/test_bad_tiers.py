"""A tier that is full, has no names left or is read-only: an alarm, no torn state, and then it recovers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.run.run_folder import RunFolder
from tests.support.front import SOURCES, Tmpfs

pytestmark = pytest.mark.namespaces
HOUSE = SOURCES.parent


def live(tmp_path: Path, deed: str, options: str) -> dict[str, Any]:
    folder = RunFolder(str(tmp_path / "root/active/toy-0123"))
    tier = tmp_path / "tier"
    tier.mkdir()
    Path(folder.path).mkdir(parents=True)
    job = {"checkpoint": {"path": "ckpt/step-*.json", "refuge": ["durable"], "keep": 2}}
    environment = {"durable": str(tier), "durable_is_folder": True}
    Path(folder.plan).write_text(json.dumps({"cells": ["main"], "job": job, "environment": environment}))
    words = [sys.executable, "-m", "tests.support.refuge_on_bad_tier", folder.path, str(tier), deed]
    done = subprocess.run(
        [*Tmpfs(tier, options).words(), *words], cwd=HOUSE, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


COPIED = "refuge_copied"


@pytest.mark.parametrize(
    "deed, options, kind",
    [("full", "size=64m", "full"), ("no names left", "size=64m,nr_inodes=60", "full")]
    + [("read-only", "size=64m", "read_only")],
)
def test_a_tier_that_goes_bad_is_told_once_and_recovers(tmp_path: Path, deed: str, options: str, kind: str) -> None:
    story = live(tmp_path, deed, options)
    first, second, bad, still_bad, mended = story["seen"]
    assert (first, second) == ([[COPIED], 1], [[COPIED], 2])
    assert bad == [[f"refuge_failed {kind}"], 2], "the newest whole state is still the one before"
    assert still_bad == [[], 2], "said once"
    assert mended[0][0] == COPIED and mended[1] == 5
    assert story["parts"] == []


def test_a_small_tier_gives_up_older_states_for_the_newest(tmp_path: Path) -> None:
    """Two states fit, and a third does only after the older of the two went."""
    story = live(tmp_path, "nothing", "size=16m")
    assert [newest for _, newest in story["seen"]] == [1, 2, 3, 4, 5]
    assert {kind for said, _ in story["seen"] for kind in said} == {COPIED, "refuge_pruned"}
