"""Who works in a run's folders, as one look over /proc finds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.status.occupants import OURS, look_around
from tests.unit.caretaker.run_folders import make

LOOKS = 12

# Stands where a caretaker does: its children have its command line until they end, and take their time to end.
COME_AND_GO = """
import os, sys
open(sys.argv[1], "w").close()
while True:
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            much = b"x" * (64 << 20)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return make(tmp_path, ["a"])


@pytest.fixture
def caretaker(folder: RunFolder, tmp_path: Path) -> Iterator[int]:
    """Give the pid of a process of ours whose children end all the time."""
    main = Path(os.path.realpath(folder.root), "caretaker", "0", "__main__.py")
    main.parent.mkdir(parents=True)
    main.write_text(COME_AND_GO)
    began = tmp_path / "began"
    child = subprocess.Popen([sys.executable, str(main), str(began)])
    try:
        while not began.exists():
            assert child.poll() is None
        yield child.pid
    finally:
        child.kill()
        child.wait()


def test_a_process_of_ours_on_its_way_out_is_no_orphan_of_an_attempt(folder: RunFolder, caretaker: int) -> None:
    found = [look_around(folder, "main", caretaker) for _ in range(LOOKS)]
    assert [one.occupants for one in found] == [[]] * LOOKS


def test_a_child_of_the_caretaker_that_is_none_of_our_processes_is(folder: RunFolder) -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        found = look_around(folder, "main", os.getpid()).occupants
        assert (child.pid, OURS) in [(one.pid, one.kind) for one in found]
    finally:
        child.kill()
        child.wait()
