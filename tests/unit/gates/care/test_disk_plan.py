"""What may go and in which order: every rule that keeps something, and the picking."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.gates.care.disk_plan import CLASSES, judge_units, pick
from leasehold.model.run.disk_unit import DiskUnit, unit_from

NOW = 1_000_000.0
MB = 1_000_000


def unit(path: str = "/d/pip", kind: str = "cache.pip", **change: Any) -> DiskUnit:
    known: dict[str, Any] = {
        "path": path, "kind": kind, "tier": "/d", "bytes": 5 * MB, "frees_bytes": 5 * MB, "inodes": 7, "names": 7,
        "length": 5 * MB, "newest_unix": NOW - 90_000, "is_folder": True, "divided": False, "partial": False,
        "foreign": 0, "open_by": [], "identity": [1, 2, 3, 4],
    }  # fmt: skip
    return unit_from({**known, **change})


def home(run: str) -> str:
    return ""


def judge(one: DiskUnit, proof: Any = home) -> tuple[bool, str]:
    (judged,) = judge_units([one], NOW, proof)
    return judged.target, judged.why


@pytest.mark.parametrize(
    "change, why",
    [
        ({"open_by": [7, 8]}, "pid 7, 8 has it open"),
        ({"foreign": 1}, "1 files in it belong to other users"),
        ({"divided": True}, "judged one by one"),
        ({"partial": True}, "the time ran out"),
        ({"frees_bytes": 0}, "another name elsewhere"),
        ({"bytes": 0, "frees_bytes": 0}, "it is empty"),
        ({"newest_unix": NOW - 3599}, "1 h is the least"),
        ({"kind": "temp", "newest_unix": NOW - 86_000}, "1 d is the least"),
    ],
)
def test_each_reason_to_keep_a_cache(change: dict[str, Any], why: str) -> None:
    target, said = judge(unit(**change))
    assert not target and why in said


@pytest.mark.parametrize("kind", [name for name, known in CLASSES.items() if known.rank is None] + ["from.the.future"])
def test_classes_that_cannot_be_had_again_are_never_proposed(kind: str) -> None:
    target, why = judge(unit(kind=kind))
    assert not target and why


def test_a_run_goes_by_its_proof_and_not_by_its_age() -> None:
    young = unit("/r/active/toy-1", "ours.run", newest_unix=NOW)
    assert judge(young) == (True, "its results are home, hash-equal, and load (receipt)")
    asked: list[str] = []

    def not_home(run: str) -> str:
        asked.append(run)
        return "not home"

    assert judge(young, not_home) == (False, "not home")
    assert asked == ["toy-1"]


def test_every_target_says_why_it_is_safe_and_what_it_costs() -> None:
    for kind, known in CLASSES.items():
        assert (known.safe and known.cost) if known.rank is not None else known.keep, kind


def test_the_cheapest_are_picked_until_they_suffice_and_only_of_that_disk() -> None:
    units = [
        unit("/d/old.pt", "checkpoint.old"), unit("/d/hf", "cache.huggingface"), unit("/d/pip"),
        unit("/d/big", "cache.torch", frees_bytes=9 * MB), unit("/e/pip", tier="/e"),
    ]  # fmt: skip
    judged = judge_units(units, NOW, home)
    assert [item.unit.path for item in pick(judged, {"/d"}, 6 * MB)] == ["/d/pip", "/d/big"]
    assert len(pick(judged, {"/d"}, 10**12)) == 4
    assert [item.unit.path for item in pick(judged, {"/d"}, 0, 8)] == ["/d/pip", "/d/big"]
    assert pick(judged, {"/d"}, 0) == []


@pytest.mark.parametrize(
    "change", [{"path": "relative"}, {"bytes": -1}, {"bytes": "many"}, {"identity": [1, 2]}, {"names": 1 << 63}]
)
def test_what_is_no_unit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        unit(**change)
