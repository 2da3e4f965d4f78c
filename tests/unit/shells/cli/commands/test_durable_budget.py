"""The durable tier has a budget of bytes and inodes before launch: free room, and the cap of the profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import Front, front

_REFUSED = 3


@pytest.fixture
def me(tmp_path: Path):
    with front(tmp_path) as person:
        person.write(
            "train.py", "import json, os\njson.dump({}, open(os.environ['LEASE_OUT'] + '/result.json', 'w'))\n"
        )
        (tmp_path / "share").mkdir()
        yield person


def share(me: Front, **caps: Any) -> Path:
    """Give this machine a durable tier of its own, with caps."""
    place = me.folder / "share"
    tier = {
        "name": "share", "path": str(place), "roles": ["durable"], "own_mount": False, "source": "own",
        "survives": {"stop": "yes", "destroy": "yes", "balance_zero": "yes"}, **caps,
    }  # fmt: skip
    tiers = [{"name": "home folder", "roles": ["state", "scratch"]}, tier]
    me.write(".leasehold/profiles/local.yaml", json.dumps({"tiers": tiers}))
    return place


@pytest.mark.parametrize("words", [["check", "audit"], ["run", "--detach"]])
def test_more_files_than_the_cap_refuse_before_launch(me: Front, words: list[str]) -> None:
    place = share(me, cap_inodes=100)
    me.job(artifacts={"result.json": "json", "samples/*.json": "json"})
    done = me.lease(*words)
    assert done.code == _REFUSED, done.out + done.said
    assert "durable copy 119 inodes (1 × 103 files and folders) against" in done.said
    assert f"free on {place} (share, at most 100 inodes by the platform's rule)" in done.said
    assert not me.runs_on_box()


def test_more_bytes_than_the_cap_refuse_and_can_be_waived_with_a_reason(me: Front) -> None:
    share(me, cap_bytes="1GB")
    me.job(checkpoint={"path": "last.pt", "size": "1.5GB"}, scratch=["last.pt"])
    done = me.lease("check", "audit")
    assert done.code == _REFUSED
    assert "NO  durable copy 1.6 GB (1.5 GB checkpoint × 1) against" in done.said
    assert "at most 1.0 GB by the platform's rule" in done.said
    done = me.lease("run", "--detach", "--skip-gate", "audit", "--because", "I make room while it trains")
    assert done.code == 0, done.said


def test_room_that_suffices_passes_with_the_figures(me: Front) -> None:
    place = share(me)
    me.job(checkpoint={"path": "last.pt", "size": "1MB"}, scratch=["last.pt"])
    done = me.lease("check", "audit")
    assert done.code == 0, done.said
    assert "ok  durable copy 68.1 MB (1.0 MB checkpoint × 1) against" in done.said
    assert f"free on {place} (share)" in done.said
    assert "audit: passed" in done.out


def test_what_nobody_can_know_is_unknown(me: Front) -> None:
    share(me, cap_inodes=200_000, cap_bytes="1TB")
    me.job()
    done = me.lease("check", "audit")
    assert done.code == 0
    assert "?   durable copy: its size is not known (no checkpoint.size)" in done.said
    assert "say it in the job: checkpoint: {size: 3GB}" in done.said


def test_a_platform_without_a_copy_has_no_such_budget(me: Front) -> None:
    me.job()
    assert "durable copy" not in me.lease("check", "audit").said
