"""What a look says of a run that ends while it is looked at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker import observing
from leasehold.caretaker.layout import RunFolder
from leasehold.caretaker.locks import wait_lock
from leasehold.kit.atomic import write_json
from leasehold.kit.journal import Journal


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Give a run that is at work."""
    made = RunFolder.below(str(tmp_path), "toy-1")
    os.makedirs(made.path)
    write_json(made.status, {"state": "running"})
    Journal(made.journal).append("run_opened", cells=["main"], pid=1)
    return made


def test_a_caretaker_that_leaves_right_after_the_journal_was_read_counts_as_alive(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a run that ends meanwhile looks as if it had lost its caretaker in mid-life."""
    lock = wait_lock(folder.caretaker_lock, 5)
    assert lock is not None
    fold = observing._folded

    def and_leave(*words: Any) -> Any:
        found = fold(*words)
        os.close(lock)
        return found

    monkeypatch.setattr(observing, "_folded", and_leave)
    seen = observing.observe(folder)
    assert (seen["state"], seen["terminal"], seen["caretaker_alive"]) == ("running", False, True)
    monkeypatch.undo()
    assert observing.observe(folder)["caretaker_alive"] is False
