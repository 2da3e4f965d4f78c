"""The fence of a run that goes on elsewhere: the first of two homes wins, and only a later epoch opens it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.moves import fence
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files.atomic import read_json


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    path = tmp_path / "active" / "toy-0123456789"
    path.mkdir(parents=True)
    return RunFolder(str(path))


def claim(epoch: int, nonce: str, to: str = "gpu2") -> Dict[str, Any]:
    return {"epoch": epoch, "nonce": nonce, "to": to, "home": "me", "who": "ann on laptop"}


def test_a_run_without_a_fence_may_start(folder: RunFolder) -> None:
    assert fence.read(folder) == {}
    fence.require_open(folder, {})


def test_a_fenced_run_starts_only_with_a_later_epoch(folder: RunFolder) -> None:
    fence.put_up(folder, claim(2, "one"))
    for args in ({}, {"epoch": 1}, {"epoch": 2}, {"epoch": "3"}):
        with pytest.raises(Refused, match="was moved to gpu2 at .* by ann on laptop") as refused:
            fence.require_open(folder, args)
        assert refused.value.code == "run.moved"
    fence.require_open(folder, {"epoch": 3})
    assert fence.read(folder) == {}, "it came back"


def test_the_same_claim_may_be_repeated_and_keeps_its_time(folder: RunFolder) -> None:
    first = fence.put_up(folder, claim(2, "one"))
    assert fence.put_up(folder, claim(2, "one")) == first


def test_of_two_claims_of_one_epoch_the_first_one_wins(folder: RunFolder) -> None:
    fence.put_up(folder, claim(2, "one"))
    with pytest.raises(Refused, match="is being moved to gpu2 by another home") as refused:
        fence.put_up(folder, claim(2, "two", "gpu3"))
    assert refused.value.code == "move.raced"
    assert fence.read(folder)["to"] == "gpu2"


def test_a_fence_that_cannot_be_read_still_stands(folder: RunFolder) -> None:
    Path(folder.fence).write_text("{")
    with pytest.raises(Refused, match="may go on on another box: its fence.json is garbled"):
        fence.require_open(folder, {"epoch": 7})


@pytest.mark.parametrize("args", [{}, {"epoch": 0, "nonce": "x"}, {"epoch": 2}, {"epoch": True, "nonce": "x"}])
def test_a_fence_without_an_epoch_and_a_nonce_is_refused(folder: RunFolder, args: Dict[str, Any]) -> None:
    with pytest.raises(Refused):
        fence.put_up(folder, args)
    assert not os.path.exists(folder.fence)


def test_a_claim_is_kept_unless_a_later_one_is_there(folder: RunFolder) -> None:
    for epoch, nonce in ((2, "two"), (3, "three"), (1, "one")):
        fence.keep_claim(folder, {"claim": {"epoch": epoch, "nonce": nonce}})
    assert read_json(folder.refuge_epoch) == {"epoch": 3, "nonce": "three", "home": "", "box": "", "lease": ""}
