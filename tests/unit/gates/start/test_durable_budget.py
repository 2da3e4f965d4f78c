"""The durable tier's budget: each edge of bytes and inodes, free, capped and unknown."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.facts.profiles import Shelf
from leasehold.gates.start.audit import AuditReadings, judge_audit, lacks_room
from leasehold.gates.start.durable_budget import judge_cap, judge_durable
from leasehold.model.job.job import Artifact, CheckpointFacts, Job
from leasehold.model.run.verdict import Outcome
from tests.support.platforms import platform, volume

GB = 10**9
PLACE = "/durable"


def job(size: int = 3 * GB, *patterns: str) -> Job:
    promised = tuple(Artifact(pattern, "json") for pattern in patterns or ("a.json",))
    return Job("toy", "python t.py", promised, checkpoint=CheckpointFacts("last.pt", size))


def disk(**change: Any) -> dict[str, Any]:
    known = {"path": PLACE, "exists": True, "is_mount": True, "mount": PLACE, "filesystem": "nfs", "read_only": False}
    room = {"total_bytes": 100 * GB, "free_bytes": 50 * GB, "total_inodes": 200_000, "free_inodes": 100_000}
    return {**known, **room, **change}


def outcomes(wanted: Job, cells: int = 1, tier: dict[str, Any] | None = None, **change: Any) -> list[str]:
    where = platform(volume(PLACE, **(tier or {})))
    return [finding.outcome.value for finding in judge_durable(wanted, where, [disk(**change)], cells)]


def test_bytes_and_inodes_that_suffice_pass() -> None:
    assert outcomes(job()) == ["passed", "passed"]


@pytest.mark.parametrize("free, outcome", [(3 * GB + (64 << 20), "passed"), (3 * GB + (64 << 20) - 1, "refused")])
def test_the_last_byte_counts(free: int, outcome: str) -> None:
    assert outcomes(job(), free_bytes=free)[0] == outcome


@pytest.mark.parametrize("free, outcome", [(10 * 2 + 16, "passed"), (10 * 2 + 15, "refused")])
def test_the_last_inode_counts_for_all_cells(free: int, outcome: str) -> None:
    assert outcomes(job(), cells=10, free_inodes=free)[1] == outcome


def test_every_cell_is_copied() -> None:
    assert outcomes(job(), cells=16)[0] == "passed"
    assert outcomes(job(), cells=17)[0] == "refused"


@pytest.mark.parametrize(
    "cap, total, free, outcome",
    [
        (200_000, 200_000, 100_000, "passed"),  # the filesystem is our share
        (200_000, 200_000, 100, "refused"),
        (200_000, 10**9, 10**9 - 1000, "passed"),  # a larger one, in which nearly nothing is used
        (200_000, 10**9, 5 * 10**8, "unknown"),  # a larger one, used by whom?
        (1000, 10**9, 5 * 10**8, "refused"),  # more than may ever be there
        (200_000, 0, 0, "unknown"),  # it does not count
        (1000, 0, 0, "refused"),
        (0, 0, 0, "unknown"),
    ],
)
def test_the_cap_of_the_platform_counts_beside_what_is_free(cap: int, total: int, free: int, outcome: str) -> None:
    wanted = job(3 * GB, "many/*.json")
    found = outcomes(wanted, cells=10, tier={"cap_inodes": cap}, total_inodes=total, free_inodes=free)
    assert found[1] == outcome


def test_a_copy_of_unknown_size_is_unknown() -> None:
    assert outcomes(job(0))[0] == "unknown"


@pytest.mark.parametrize("change", [{"exists": False}, {"is_mount": False}])
def test_where_nothing_will_be_copied_there_is_no_budget(change: dict[str, Any]) -> None:
    assert outcomes(job(), **change) == []


def test_a_tier_without_a_path_has_no_budget() -> None:
    assert judge_durable(job(), Shelf().load("lambda"), [disk()], 1) == []


def test_a_state_tier_that_is_the_durable_one_is_held_against_its_cap() -> None:
    tier = volume(PLACE, roles=("state", "durable"), cap_inodes=1000, cap_bytes=0)
    (finding,) = judge_cap(tier, disk(), 5 * GB, 2000)
    assert finding.outcome is Outcome.REFUSED
    assert finding.what.startswith("run 2,000 inodes against 100,000 inodes free on /durable (volume, at most 1,000")


def test_autodl_has_its_caps() -> None:
    tier = Shelf().load("autodl").durable_tier
    assert tier is not None
    assert (tier.cap_inodes, tier.cap_bytes) == (200_000, 200 * GB)


def test_only_a_refusal_lists_who_eats_the_disk() -> None:
    state = disk(path="/root/lease", free_bytes=90 * GB)
    where = platform(volume(PLACE))

    def judged(wanted: Job, **change: Any) -> Any:
        disks = (state, disk(**change))
        return judge_audit(wanted, where, AuditReadings(disks=disks, probes={}))

    assert not lacks_room(judged(job(0)))
    assert lacks_room(judged(job(), free_bytes=20 * GB, free_inodes=10))
