"""Of the kernel's log only what is new counts, and of its kills only those of our own processes."""

from __future__ import annotations

from pathlib import Path

from leasehold.caretaker.machine import kernel_log
from leasehold.caretaker.machine.kernel_log import XidTail

OURS = "6,1,20000000,-;Out of memory: Killed process 77 (python) total-vm:1kB\n DEVICE=x\n"
THEIRS = "6,2,21000000,-;Memory cgroup out of memory: Killed process 78 (java)\n"
OLD = "6,3,9000000,-;Out of memory: Killed process 77 (python)\n"
XID = "3,4,22000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus.\n"
NOISE = ["6,5,23000000,-;usb 1-1: new device\n", "nonsense", "6,x,y,-;Killed process 77\n", ""]


def test_new_kills_of_ours_and_xids_are_kept() -> None:
    found = kernel_log.sort([OURS, THEIRS, OLD, XID, *NOISE], 10.0, [77])
    assert found.ours == ["Out of memory: Killed process 77 (python) total-vm:1kB"]
    assert found.cards == ["NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus."]
    assert b"Xid" in found.text


def test_without_a_moment_nothing_can_be_told_to_be_new() -> None:
    assert kernel_log.since(None, [77]) == (False, [], [])


def test_a_log_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    assert not kernel_log.since(1.0, [77], str(tmp_path / "absent")).readable


def test_only_xids_that_come_after_the_opening_are_told(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("4,1,1,-;NVRM: Xid (PCI:0000:44:00): 31, pid=7\n")
    tail = XidTail(str(log))
    assert tail.readable and tail.new() == []
    with log.open("a") as file:
        file.write("6,2,2,-;usb 1-1: new device\n3,3,3,-;NVRM: Xid (PCI:0000:3B:00): 79, GPU has fallen off the bus.\n")
    assert tail.new() == [("0000:3b:00", 79)]
    assert tail.new() == []
    tail.close()


def test_a_log_that_may_not_be_read_tells_nothing(tmp_path: Path) -> None:
    tail = XidTail(str(tmp_path / "absent"))
    assert not tail.readable and tail.new() == []
    tail.close()
