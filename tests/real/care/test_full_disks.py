"""Disks that are really full, by bytes and by inodes: the last words are written, scratch goes, nothing else does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front
from tests.support.full_disks import Lived, run_on

pytestmark = pytest.mark.namespaces

# Writes until the disk is full, then dies of it as Python does; bounded, should it ever meet a large disk.
FILL_BYTES = """
import os, sys
where = os.path.join(os.environ["LEASE_OUT"], sys.argv[1])
os.makedirs(os.path.dirname(where), exist_ok=True)
print("epoch 1 step 7 loss 0.5", flush=True)
with open(where, "wb", buffering=0) as file:
    for _ in range(400):
        file.write(b"x" * (1 << 20))
"""
FILL_INODES = """
import os, sys
out = os.environ["LEASE_OUT"]
print("epoch 1 step 7 loss 0.5", flush=True)
for number in range(20000):
    open(os.path.join(out, "%d" % number), "w").close()
"""
NEARLY_ALL_INODES = """
import os
out = os.environ["LEASE_OUT"]
for number in range(20000):
    if os.statvfs(out).f_favail < 40:
        break
    open(os.path.join(out, "%d" % number), "w").close()
"""
DONE = "printf '{}' > \"$LEASE_OUT/result.json\""


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path / "me") as person:
        person.write("bytes.py", FILL_BYTES)
        person.write("inodes.py", FILL_INODES)
        yield person


def kinds(lived: Lived) -> list[str]:
    return [event["k"] for event in lived.events()]


def test_a_disk_full_of_bytes_is_classed_and_the_last_words_are_written(me: Front) -> None:
    me.job(run="python3 bytes.py results/huge", artifacts=["result.json"])
    lived = run_on(me, "size=96m")
    assert lived.code == 6, lived.said
    [failure] = lived.events("failure_classed")
    assert failure["class"] == "disk_full"
    assert [event["remedy"] for event in lived.events("remedy_chosen")] == ["ask"]
    assert re.search(r"about 1\d\d\.\d MB more are needed", lived.said), lived.said
    assert kinds(lived)[-1] == "run_failed"
    assert lived.status()["state"] == "failed"
    assert (lived.keep / "cells/main/attempt-0001/exit.json").read_text().endswith("}\n")


def test_a_disk_without_inodes_is_classed_and_the_last_words_are_written(me: Front) -> None:
    me.job(run="python3 inodes.py", artifacts=["result.json"])
    lived = run_on(me, "size=96m,nr_inodes=1500")
    assert lived.code == 6, lived.said
    [failure] = lived.events("failure_classed")
    assert failure["class"] == "disk_full"
    assert kinds(lived)[-1] == "run_failed"
    assert lived.status()["state"] == "failed"
    assert (lived.keep / "cells/main/attempt-0001/exit.json").read_text().endswith("}\n")


def test_scratch_is_pruned_and_the_same_command_goes_on(me: Front) -> None:
    command = f"if [ $LEASE_ATTEMPT = 1 ]; then python3 bytes.py tmp/huge; else {DONE}; fi"
    me.job(run=command, artifacts=["result.json"], scratch=["tmp/**"])
    lived = run_on(me, "size=96m")
    assert lived.code == 0, lived.said
    [pruned] = lived.events("scratch_pruned")
    assert pruned["files"] == 1
    assert pruned["freed_bytes"] > 30 << 20
    assert kinds(lived)[-1] == "run_finished"
    assert "pruned 1 scratch file," in lived.said


def test_when_pruning_is_not_enough_a_person_is_asked(me: Front) -> None:
    command = "python3 bytes.py tmp/a$LEASE_ATTEMPT"
    me.job(run=command, artifacts=["result.json"], scratch=["tmp/**"])
    lived = run_on(me, "size=96m")
    assert lived.code == 6, lived.said
    assert [event["remedy"] for event in lived.events("remedy_chosen")] == ["prune_then_again", "ask"]


def test_an_attempt_that_the_disk_cannot_hold_is_refused_with_exit_3(me: Front) -> None:
    me.job(run=DONE, artifacts=["result.json"], checkpoint={"path": "last.pt", "size": "1GB"})
    lived = run_on(me, "size=96m")
    assert lived.code == 3, lived.said
    [short] = lived.events("disk_short")
    assert (short["what"], short["need"] > 2 * 10**9) == ("bytes", True)
    assert "attempt_starting" not in kinds(lived)
    assert "error[disk.short]" in lived.said
    assert "B more are needed" in lived.said


def test_an_attempt_without_inodes_is_not_started(me: Front) -> None:
    me.write("nearly.py", NEARLY_ALL_INODES)
    me.job(run="python3 nearly.py", evaluate=DONE, artifacts=["result.json"])
    lived = run_on(me, "size=96m,nr_inodes=1500")
    assert lived.code == 3, lived.said
    assert [event["what"] for event in lived.events("disk_short")] == ["inodes"]
    assert kinds(lived).count("attempt_starting") == 1
