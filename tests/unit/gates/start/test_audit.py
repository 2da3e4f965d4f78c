"""The audit gate's edges: where each reading still passes, and where it stands in the way."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.gates.start.audit import AuditReadings, disk_need_bytes, inode_need, judge_audit, lacks_room
from leasehold.gates.start.sharing import SharedReading, Sight
from leasehold.model.job.job import Artifact, CheckpointFacts, GpuWish, Job
from leasehold.model.job.parse_job import parse_memory
from leasehold.model.platform.profile import Profile
from leasehold.model.run.verdict import Finding, Outcome, Verdict
from tests.support.platforms import platform, volume

GB = 10**9
MIB = 1 << 20
ROOT = "/data/lease"


def job(**change: Any) -> Job:
    return Job(**{"name": "toy", "run": "python t.py", "artifacts": (Artifact("a.pt", "torch"),), **change})


SIZED = job(checkpoint=CheckpointFacts("last.pt", GB))  # the copy to a durable tier has a known size


def disk(path: str = ROOT, **change: Any) -> dict[str, Any]:
    whole = {
        "path": path, "exists": True, "mount": path, "filesystem": "ext4", "is_mount": True, "read_only": False,
        "total_bytes": 1000 * GB, "free_bytes": 900 * GB, "total_inodes": 1_000_000, "free_inodes": 900_000,
    }  # fmt: skip
    return {**whole, **change}


def card(name: str = "NVIDIA A100-SXM4-40GB", mib: int | None = 40960, used_mib: int = 3, index: str = "0") -> Any:
    total = None if mib is None else mib * MIB
    return {
        "index": index, "name": name, "memory_total_bytes": total, "memory_used_bytes": used_mib * MIB,
        "driver": "550.54", "util_percent": 0, "temperature_c": 30,
    }  # fmt: skip


def healthy(index: str) -> dict[str, Any]:
    return {
        "index": index,
        "bus": f"00000000:3{index}:00.0",
        "ecc": True,
        "ecc_uncorrected": 0,
        "temperature_c": 30,
        "reasons": [],
    }


def judge(wanted: Job | None = None, where: Profile | None = None, cells: int = 1, **readings: Any) -> Verdict:
    well = {"cards": [healthy(one["index"]) for one in readings.get("gpus", ())], "kernel": {"readable": True}}
    taken = AuditReadings(**{"disks": (disk(),), "probes": {ROOT: ""}, "gpu_health": well, **readings})
    return judge_audit(wanted or job(), where or platform(), taken, cells)


def against(verdict: Verdict) -> list[str]:
    return [finding.what for finding in verdict.against()]


def saying(verdict: Verdict, words: str) -> Finding:
    return next(finding for finding in verdict.findings if words in finding.what)


def test_cards_that_were_not_asked_about_their_health_are_unknown() -> None:
    verdict = judge(job(gpu=GpuWish()), gpus=(card(),), gpu_health=None)
    assert verdict.outcome is Outcome.UNKNOWN
    assert against(verdict) == ["GPU: whether it is healthy could not be read: nothing was asked"]


def test_of_several_cards_those_that_the_job_will_use_must_be_healthy() -> None:
    cards = (card(index="0"), card(index="1"))
    sick = {"cards": [healthy("0"), {**healthy("1"), "ecc_uncorrected": 1}], "kernel": {"readable": True}}
    assert judge(job(gpu=GpuWish()), gpus=cards, gpu_health=sick).passed
    refused = judge(job(gpu=GpuWish(count=2)), gpus=cards, gpu_health=sick)
    assert against(refused) == ["GPU 1: 1 uncorrectable memory errors since boot"]


def test_a_roomy_box_passes_with_a_reading_for_each_thing() -> None:
    verdict = judge()
    assert verdict.outcome is Outcome.PASSED
    assert saying(verdict, "900.0 GB free, 10% used (ext4)")
    assert saying(verdict, "900,000 inodes free, 10% used")
    assert saying(verdict, "a probe file was written, read back and deleted")


# ---------------------------------------------------------------- fullness


@pytest.mark.parametrize("what", ["bytes", "inodes"])
@pytest.mark.parametrize(
    "used_percent, warned, refused",
    [
        (0, False, False),
        (89.9, False, False),
        (90, True, False),
        (94.9, True, False),
        (95, True, True),
        (100, True, True),
    ],
)
def test_a_disk_is_refused_from_95_percent_and_warned_of_from_90(
    what: str, used_percent: float, warned: bool, refused: bool
) -> None:
    total = 10**13  # so that what is left always covers the budget
    free = int(total * (1000 - used_percent * 10) / 1000)
    verdict = judge(disks=(disk(**{f"total_{what}": total, f"free_{what}": free}),))
    fullness = next(
        f for f in verdict.findings if f.what.startswith(ROOT) and ("inodes" in f.what) == (what == "inodes")
    )
    assert (fullness.outcome is Outcome.REFUSED) == refused
    assert ("(nearly full)" in fullness.what) == (warned and not refused)
    if refused:
        assert f"[{what} >= 95% used]" in fullness.what
        assert "--root" in fullness.hint


def test_a_filesystem_without_inode_counts_is_not_called_full() -> None:
    verdict = judge(disks=(disk(filesystem="btrfs", total_inodes=0, free_inodes=0),))
    assert verdict.passed
    assert saying(verdict, "btrfs counts no inodes")
    assert not any("inode budget" in finding.what for finding in verdict.findings)


def test_a_disk_that_is_not_there_is_named_and_nothing_is_computed() -> None:
    verdict = judge(disks=({"path": ROOT, "exists": False},), probes={})
    assert against(verdict) == [f"{ROOT} does not exist on the box"]


def test_read_only_is_said_instead_of_the_failed_probe() -> None:
    verdict = judge(disks=(disk(read_only=True),), probes={ROOT: "Read-only file system"})
    assert against(verdict) == [f"{ROOT} is mounted read-only (ext4 at {ROOT})"]


def test_a_failed_probe_says_what_went_wrong() -> None:
    verdict = judge(probes={ROOT: "/data/lease/.probe: Permission denied"})
    assert against(verdict) == [f"{ROOT}: /data/lease/.probe: Permission denied"]


# ---------------------------------------------------------------- budget


@pytest.mark.parametrize("cells, expected_gb", [(1, 3 * 2 + 50), (4, 3 * 5 + 50)])
def test_the_budget_holds_each_cells_checkpoint_one_in_writing_and_logs(cells: int, expected_gb: int) -> None:
    wanted = job(checkpoint=CheckpointFacts("last.pt", 3 * GB, 0), disk_bytes=50 * GB)
    assert disk_need_bytes(wanted, cells) == expected_gb * GB + (1 << 30)


@pytest.mark.parametrize("spare, passes", [(0, True), (-1, False)])
def test_the_disk_budget_must_fit_to_the_byte(spare: int, passes: bool) -> None:
    wanted = job(checkpoint=CheckpointFacts("last.pt", 20 * GB, 0), disk_bytes=40 * GB)
    verdict = judge(wanted, disks=(disk(total_bytes=100 * GB, free_bytes=disk_need_bytes(wanted, 1) + spare),))
    assert verdict.passed is passes
    budget = saying(verdict, "disk budget")
    assert (
        "disk budget 81.1 GB (20.0 GB checkpoint × 2 + 40.0 GB asked for + 1.1 GB for logs) against 81.1 GB free"
        in budget.what
    )
    assert ("larger; do not shrink the experiment" in budget.hint) == (not passes)


@pytest.mark.parametrize("cells, need", [(1, 2049), (3, 2147), (10_000, 492_000)])
@pytest.mark.parametrize("spare, passes", [(0, True), (-1, False)])
def test_the_inode_budget_must_fit_to_the_inode(cells: int, need: int, spare: int, passes: bool) -> None:
    free = need + spare
    verdict = judge(cells=cells, disks=(disk(total_inodes=600_000, free_inodes=free),))
    assert (saying(verdict, "inode budget").outcome is Outcome.PASSED) is passes
    assert f"inode budget {need:,} (2,000 + " in saying(verdict, "inode budget").what


def test_a_cell_needs_inodes_for_code_promises_and_two_checkpoints() -> None:
    bare = inode_need(job(artifacts=()), 1).a_cell
    promises = (Artifact("metrics.json", "json"), Artifact("samples/*.png", "any"))
    wanted = job(artifacts=promises, checkpoint=CheckpointFacts("last.pt", 0, 0))
    assert inode_need(wanted, 1, code_inodes=30).a_cell == bare + 60 + 1 + 100 + 2


def test_ten_thousand_cells_fit_on_a_usual_disk() -> None:
    """Ext4 has an inode for every 16 KiB: 6.1 million on 100 GB."""
    verdict = judge(cells=10_000, code_inodes=50, disks=(disk(total_inodes=6_100_000, free_inodes=5_900_000),))
    assert saying(verdict, "inode budget").outcome is Outcome.PASSED


# ---------------------------------------------------------------- mounts


def test_a_volume_that_is_just_a_folder_is_refused() -> None:
    lost = disk("/workspace", is_mount=False, mount="/", filesystem="overlay")
    verdict = judge(where=platform(volume("/workspace")), disks=(disk(), lost))
    assert against(verdict) == ["/workspace (volume) is NOT mounted: overlay at /"]
    assert "attach the volume" in verdict.against()[0].hint


def test_a_mounted_volume_passes_and_an_absent_one_is_said_once() -> None:
    assert judge(SIZED, platform(volume("/workspace")), disks=(disk(), disk("/workspace"))).passed
    absent = {"path": "/workspace", "exists": False}
    verdict = judge(where=platform(volume("/workspace")), disks=(disk(), absent))
    assert against(verdict) == ["/workspace does not exist on the box"]


def test_tiers_that_are_words_or_the_root_are_no_mounts() -> None:
    words = platform(volume("the leasehold home"), volume("/", own_mount=False))
    assert judge(where=words, disks=(disk(), disk("/", is_mount=False))).passed


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("size, passes", [(64 * MIB, False), (64 * MIB + 1, True), (0, False), (8 << 30, True)])
def test_dockers_default_shared_memory_is_refused(size: int, passes: bool) -> None:
    verdict = judge(shm=disk("/dev/shm", total_bytes=size))
    shm = saying(verdict, "/dev/shm")
    assert (shm.outcome is Outcome.PASSED) is passes
    assert ("(small for data loader workers)" in shm.what) == (size < 1 << 30)
    assert ("num_workers=0" in shm.hint) is not passes


@pytest.mark.parametrize(
    "used, source, passes",
    [
        (90, "cgroup v2", True),
        (91, "cgroup v2", False),
        (91, "cgroup v1", False),
        (99, "machine", True),
        (None, "cgroup v2", True),
    ],
)
def test_memory_that_is_nearly_taken_is_refused_where_a_cgroup_would_kill(
    used: int | None, source: str, passes: bool
) -> None:
    taken = None if used is None else used * GB
    verdict = judge(memory={"limit_bytes": 100 * GB, "used_bytes": taken, "source": source})
    memory = saying(verdict, "memory limit 100.0 GB")
    assert (memory.outcome is Outcome.PASSED) is passes
    assert source in memory.what


def test_cpu_and_open_files_are_told_and_never_refused() -> None:
    verdict = judge(cpu={"quota": 3.5, "visible": 128}, nofile=256)
    assert saying(verdict, "CPU: 3.5 by cgroup quota (host shows 128)").outcome is Outcome.PASSED
    assert saying(verdict, "open files limit 256  (low)").outcome is Outcome.PASSED
    assert saying(judge(cpu={"quota": None, "visible": 8}), "CPU: 8 cores (host shows 8)")


def test_a_shared_tier_that_a_second_box_does_not_see_is_refused() -> None:
    where = platform(volume("/shared", shared=True))
    disks = (disk(), disk("/shared"))
    seen = SharedReading("/shared", "one", "two", Sight.SAME)
    assert judge(SIZED, where, disks=disks, shared=(seen,)).passed
    absent = SharedReading("/shared", "one", "two", Sight.ABSENT)
    assert judge(where=where, disks=disks, shared=(absent,)).outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("tools", "way"),
    [
        ({"tmux": "/usr/bin/tmux", "systemctl": "/bin/systemctl"}, "(tmux)"),
        ({"tmux": None, "systemctl": "/bin/x"}, "(systemd if lingering is on, else setsid; tmux missing)"),
        ({"tmux": None}, "(setsid; tmux, systemd missing)"),
    ],
)
def test_the_way_that_will_be_taken_to_detach_is_named(tools: dict[str, str | None], way: str) -> None:
    verdict = judge(where=platform(detach=("tmux", "systemd", "setsid")), tools=tools)
    assert verdict.passed
    assert saying(verdict, f"the run will outlive this connection {way}")


def test_a_box_without_any_way_to_detach_is_refused() -> None:
    verdict = judge(where=platform(detach=("tmux",)), tools={})
    assert against(verdict) == ["nothing to detach the run with: tmux missing"]


def test_a_checkpoint_without_a_size_is_said_to_have_none() -> None:
    budget = saying(judge(job(disk_bytes=40 * GB)), "disk budget")
    assert "(40.0 GB asked for + 1.1 GB for logs; checkpoint size not given)" in budget.what


def test_room_is_told_from_other_reasons() -> None:
    full = disk(total_bytes=100 * GB, free_bytes=3 * GB)
    assert lacks_room(judge(disks=(full,)))
    assert lacks_room(judge(job(disk_bytes=400 * GB), disks=(disk(total_bytes=100 * GB, free_bytes=90 * GB),)))
    assert not lacks_room(judge(job(gpu=GpuWish("A100", 1, 0, 0))))
    assert not lacks_room(judge())


# ---------------------------------------------------------------- cards


def wish(name: str = "", count: int = 1, memory: str = "") -> Job:
    least, most = parse_memory(memory) if memory else (0, 0)
    return job(gpu=GpuWish(name, count, least, most))


@pytest.mark.parametrize(
    "asked, seen",
    [
        (wish(), card()),
        (wish("a100"), card()),
        (wish("A100", memory="40GB+"), card(mib=40960)),
        (wish("A40", memory="48GB+"), card("NVIDIA A40", mib=45634)),  # 47.85 GB: the driver keeps some back
        (wish(memory="24GB+"), card("NVIDIA A10G", mib=22731)),
        (wish(memory="16GB+"), card("Tesla T4", mib=15360)),
        (wish(memory="80GB"), card("NVIDIA H100 80GB HBM3", mib=81559)),
        (wish(memory="24GB-48GB"), card("NVIDIA L40S", mib=46068)),
    ],
)
def test_a_card_that_fits_passes(asked: Job, seen: Any) -> None:
    assert judge(asked, gpus=(seen,)).passed


@pytest.mark.parametrize(
    "asked, seen, why",
    [
        (wish("H100"), card(), "NVIDIA A100-SXM4-40GB is not a H100"),
        (wish(memory="80GB+"), card(), "has 42.9 GB, less than 80.0 GB"),
        (wish(memory="24GB-32GB"), card(), "has 42.9 GB, more than 32.0 GB"),
        (wish(memory="24GB"), card(), "has 42.9 GB, more than 26.4 GB"),
        (wish(count=2), card(), "only 1 fit"),
        (wish(memory="40GB+"), card("NVIDIA GB10", mib=None), "NVIDIA GB10 does not report how much memory it has"),
    ],
)
def test_a_card_that_does_not_fit_says_why(asked: Job, seen: Any, why: str) -> None:
    verdict = judge(asked, gpus=(seen,))
    assert [why in text for text in against(verdict)] == [True]
    assert "rent what the job asks for" in verdict.against()[0].hint
    assert "0 B" not in against(verdict)[0]


def test_of_several_cards_only_those_that_fit_are_counted() -> None:
    mixed = (card("NVIDIA T400", mib=2048), card(index="1"), card(index="2"))
    assert judge(wish("A100", count=2), gpus=mixed).passed
    assert "NVIDIA T400 is not a A100" in against(judge(wish("A100", count=3), gpus=mixed))[0]


def test_without_a_driver_the_reason_is_the_tools_own() -> None:
    assert against(judge(wish(), gpu_problem="nvidia-smi is not installed")) == [
        "the job asks for a GPU, and there is none: nvidia-smi is not installed"
    ]
    assert against(judge(wish())) == ["the job asks for a GPU, and there is none: the driver lists no card"]


def test_a_job_without_a_wish_passes_with_or_without_cards() -> None:
    assert saying(judge(gpus=(card(),)), "GPU: none asked for; NVIDIA A100-SXM4-40GB").outcome is Outcome.PASSED
    assert (
        saying(judge(gpu_problem="nvidia-smi is not installed"), "none asked for; nvidia-smi").outcome is Outcome.PASSED
    )


@pytest.mark.parametrize("used_mib, passes", [(4096, True), (4097, False)])
def test_a_card_that_somebody_holds_is_refused_beyond_a_tenth(used_mib: int, passes: bool) -> None:
    verdict = judge(wish(), gpus=(card(used_mib=used_mib),))
    assert verdict.passed is passes
    if not passes:
        assert "GPU 0 already has 4.3 GB in use" in against(verdict)[0]
        assert "nvidia-smi" in verdict.against()[0].hint
