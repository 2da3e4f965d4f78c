"""Home and box are two places, or that is not known; one refusal, one row."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.gates.end.two_places import HomeFolder, PlaceReadings, doubts_of, judge_places, lie_on_box
from leasehold.model.lease.machine import Machine
from leasehold.model.run.verdict import Outcome

HOME = Machine(boot="h", processes="pid:[1]", slash="8:1", host="laptop")
BOX = Machine(boot="b", processes="pid:[1]", slash="8:1", root="/root/.leasehold", host="gpu")


def read(*, box: Machine = BOX, whole: bool = True, **change: Any) -> PlaceReadings:
    return PlaceReadings(HOME, box, (HomeFolder("/home/me/r", "the results' folder", **change),), whole)


@pytest.mark.parametrize(
    ("readings", "outcome", "early"),
    [
        (read(), Outcome.PASSED, False),
        (read(below="/root/.leasehold/x/note"), Outcome.REFUSED, True),
        (read(seen_as="/root/.leasehold/x/note"), Outcome.REFUSED, True),
        (read(seen_as="/mnt/share/note"), Outcome.PASSED, False),  # and a doubt, below
        (read(from_box=True, source="gpu:/data", disk="nfs4"), Outcome.REFUSED, True),
        (read(inside=True), Outcome.PASSED, False),  # numbers of two kernels are no evidence
        (read(inside=True, box=Machine(boot="h", root="/r")), Outcome.REFUSED, True),
        (read(whole=False), Outcome.UNKNOWN, False),
        (read(whole=False, disk="ext4"), Outcome.PASSED, False),
        (read(whole=False, disk="fuse.sshfs", source="nas:/r"), Outcome.UNKNOWN, False),
        (read(whole=False, disk="ext4", box=Machine(root="/r")), Outcome.UNKNOWN, False),
        (read(problem="read-only"), Outcome.UNKNOWN, False),
        (read(problem="read-only", disk="ext4"), Outcome.PASSED, False),
    ],
)
def test_what_was_not_proven_is_unknown(readings: PlaceReadings, outcome: Outcome, early: bool) -> None:
    (finding,) = judge_places(readings)
    assert finding.outcome is outcome, finding
    assert bool(lie_on_box(readings)) is early


def test_what_both_see_outside_our_folder_is_for_a_person_to_look_at() -> None:
    assert doubts_of(read()) == []
    assert "/mnt/share/note" in doubts_of(read(seen_as="/mnt/share/note"))[0]
    one = Machine(boot="h", processes="pid:[1]", slash="8:1", root="/r")
    assert "runs on the box itself" in doubts_of(read(box=one))[0]
