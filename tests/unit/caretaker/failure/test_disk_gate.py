"""The gate before an attempt: what it will write, against what the disk has."""

from __future__ import annotations

from pathlib import Path

from leasehold.caretaker.failure import disk_gate
from tests.unit.caretaker.run_folders import make, plan_of

HUGE = 10**15


def test_a_disk_with_room_is_no_matter(tmp_path: Path) -> None:
    folder = make(tmp_path, ["a"])
    assert disk_gate.shortage(folder, plan_of(folder), "main", 1) is None


def test_the_first_attempt_needs_what_the_job_says_and_two_checkpoints(tmp_path: Path) -> None:
    folder = make(tmp_path, ["a"], disk_bytes=100, checkpoint={"size_bytes": 10})
    assert disk_gate.need_bytes(plan_of(folder), 1) == 120 + disk_gate.MARGIN_BYTES
    assert disk_gate.need_bytes(plan_of(folder), 2) == 10 + disk_gate.MARGIN_BYTES


def test_a_shortage_says_how_many_gigabytes_are_lacking(tmp_path: Path) -> None:
    folder = make(tmp_path, ["a"], disk_bytes=HUGE)
    short = disk_gate.shortage(folder, plan_of(folder), "main", 1)
    assert short is not None
    assert (short["what"], short["need"]) == ("bytes", HUGE + disk_gate.MARGIN_BYTES)
    assert "B more are needed" in short["hint"]
    assert disk_gate.say(short).startswith("disk.short: ")
