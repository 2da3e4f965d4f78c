"""What is read on the box: real /proc and statvfs, cgroups and drivers as they come. Runs under PyPy too."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Dict, List

import pytest

from leasehold.caretaker.gpu import nvidia_smi
from leasehold.caretaker.gpu.nvidia_smi import overview
from leasehold.caretaker.machine import limits
from leasehold.caretaker.machine.limits import disk, memory, mount_of, write_probe
from leasehold.caretaker.requests.box_readings import take

MIB = 1 << 20


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# ---------------------------------------------------------------- this machine


def test_everything_is_taken_at_once_and_agrees_with_the_system(tmp_path: Path) -> None:
    taken = take([str(tmp_path), "/no/such/place"])
    here, nowhere = taken["disks"]
    assert nowhere == {"path": "/no/such/place", "exists": False}
    assert here["total_bytes"] == shutil.disk_usage(str(tmp_path)).total
    assert abs(here["free_bytes"] - shutil.disk_usage(str(tmp_path)).free) < 1 << 30
    assert here["real"] == os.path.realpath(str(tmp_path))
    assert here["real"].startswith(here["mount"].rstrip("/"))
    assert here["filesystem"] in Path("/proc/mounts").read_text()
    assert taken["memory"]["limit_bytes"] > 0
    assert 1 <= taken["cpu"]["visible"] <= (os.cpu_count() or 1)
    assert taken["nofile"] > 0
    assert taken["tools"]["python3"] == shutil.which("python3")


def test_a_mount_knows_that_it_is_one_and_a_folder_that_it_is_not(tmp_path: Path) -> None:
    assert disk("/proc")["is_mount"] and disk("/proc")["filesystem"] == "proc"
    assert not disk(str(tmp_path))["is_mount"]


def test_a_path_is_read_through_its_links_and_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to("/proc")
    assert disk(str(tmp_path / "link"))["mount"] == "/proc"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk("~")["real"] == os.path.realpath(str(tmp_path))
    assert disk("~")["path"] == "~"


def test_mount_points_with_odd_names_are_unescaped(monkeypatch: pytest.MonkeyPatch) -> None:
    table = "root / ext4 rw 0 0\nvol /mnt/my\\040disk xfs rw 0 0\nshort\ntmp /mnt/my\\040disk/a\\134b tmpfs rw 0 0\n"
    monkeypatch.setattr(limits, "_text", lambda path: table)
    assert mount_of("/mnt/my disk/x") == ("/mnt/my disk", "xfs")
    assert mount_of("/mnt/my disk/a\\b/c") == ("/mnt/my disk/a\\b", "tmpfs")
    assert mount_of("/mnt/my disks") == ("/", "ext4")


def test_a_later_mount_on_the_same_point_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_text", lambda path: "a / ext4 rw 0 0\nb /x ext4 rw 0 0\nc /x tmpfs rw 0 0\n")
    assert mount_of("/x") == ("/x", "tmpfs")


# ---------------------------------------------------------------- the write probe


def test_the_probe_writes_reads_and_leaves_nothing(tmp_path: Path) -> None:
    assert write_probe(str(tmp_path)) == ""
    assert list(tmp_path.iterdir()) == []


def test_the_probe_says_what_stood_in_the_way(tmp_path: Path) -> None:
    assert write_probe(str(tmp_path / "absent")).endswith("No such file or directory")
    assert "Not a directory" in write_probe("/dev/null")
    taken = tmp_path / (".leasehold-probe-%d" % os.getpid())
    taken.write_text("somebody's")
    assert write_probe(str(tmp_path)).endswith("File exists")
    assert taken.read_text() == "somebody's"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_the_probe_sees_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert write_probe(str(tmp_path)).endswith("Permission denied")


# ---------------------------------------------------------------- cgroups


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty cgroup tree and an own cgroup file that says nothing."""
    root = tmp_path / "cgroup"
    root.mkdir()
    monkeypatch.setattr(limits, "_CGROUPS", str(root))
    monkeypatch.setattr(limits, "_OWN_CGROUPS", str(write(tmp_path / "own", "0::/\n")))
    return root


def test_without_a_cgroup_the_machine_is_the_limit(cgroups: Path) -> None:
    seen = memory()
    assert seen["source"] == "machine"
    total = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]) * 1024
    assert seen["limit_bytes"] == total
    assert 0 < seen["used_bytes"] < total


@pytest.mark.parametrize("limit", ["max", "9223372036854771712", str(1 << 62), "", "gibberish"])
def test_a_cgroup_without_a_limit_is_not_one(cgroups: Path, limit: str) -> None:
    write(cgroups / "memory.max", limit + "\n")
    write(cgroups / "memory" / "memory.limit_in_bytes", limit + "\n")
    assert memory()["source"] == "machine"


def test_a_containers_own_limit_is_read_less_what_is_reclaimable(cgroups: Path) -> None:
    write(cgroups / "memory.max", "%d\n" % (100 * MIB))
    write(cgroups / "memory.current", "%d\n" % (95 * MIB))
    write(cgroups / "memory.stat", "anon 1\ninactive_file %d\n" % (80 * MIB))
    write(cgroups / "memory.events", "low 0\noom 3\noom_kill 2\n")
    assert memory() == {
        "limit_bytes": 100 * MIB,
        "used_bytes": 15 * MIB,  # a dataset that was just read is no reason to refuse
        "source": "cgroup v2",
        "oom_kills": 2,
    }


def test_version_1_is_read_too(cgroups: Path) -> None:
    write(cgroups / "memory" / "memory.limit_in_bytes", "%d\n" % (64 * MIB))
    write(cgroups / "memory" / "memory.usage_in_bytes", "%d\n" % (8 * MIB))
    write(cgroups / "memory" / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    assert memory() == {"limit_bytes": 64 * MIB, "used_bytes": 8 * MIB, "source": "cgroup v1", "oom_kills": 5}


def test_the_tightest_limit_on_the_way_to_our_own_cgroup_counts(cgroups: Path) -> None:
    """A shared node: Slurm and systemd put the limit far below the mount."""
    write(cgroups.parent / "own", "4:memory:/slurm/uid_7/job_9\n0::/\n")
    for place, limit in (("", 1 << 62), ("slurm/uid_7", 32 * MIB), ("slurm/uid_7/job_9", 48 * MIB)):
        write(cgroups / "memory" / place / "memory.limit_in_bytes", "%d\n" % limit)
        write(cgroups / "memory" / place / "memory.usage_in_bytes", "%d\n" % (limit // 4))
    assert memory()["limit_bytes"] == 32 * MIB
    assert memory()["used_bytes"] == 8 * MIB


def test_a_hosts_path_that_this_container_does_not_have_is_passed_over(cgroups: Path) -> None:
    write(cgroups.parent / "own", "0::/docker/abc\nbroken line\n0::/../..\n")
    write(cgroups / "memory.max", "%d\n" % MIB)
    assert memory()["limit_bytes"] == MIB


@pytest.mark.parametrize(
    "files, quota",
    [
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4.0),
        ({}, None),
    ],
)
def test_a_quota_of_cores_is_read(cgroups: Path, files: Dict[str, str], quota: object) -> None:
    for name, text in files.items():
        write(cgroups / name, text + "\n")
    assert limits.cpu()["quota"] == quota


# ---------------------------------------------------------------- cards


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the path of an nvidia-smi that comes first on PATH, to be written by the test."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    monkeypatch.setenv("PATH", "%s:%s" % (tool.parent, os.environ["PATH"]))
    return tool


def says(tool: Path, script: str) -> None:
    tool.write_text("#!/bin/sh\n" + script)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def lines(tool: Path, rows: List[str]) -> None:
    says(tool, "cat <<'EOF'\n%s\nEOF\n" % "\n".join(rows))


def test_cards_are_read_field_by_field(driver: Path) -> None:
    lines(
        driver,
        [
            "0, NVIDIA A100-SXM4-40GB, 40960, 3, 550.54.15, 7, 31",
            "1, NVIDIA A100-SXM4-40GB, 40960, 39000, 550.54.15, 100, 66",
        ],
    )
    found, problem = overview()
    assert problem == ""
    assert found[0] == {
        "index": 0, "name": "NVIDIA A100-SXM4-40GB", "memory_total_bytes": 40960 * MIB, "memory_used_bytes": 3 * MIB,
        "driver": "550.54.15", "util_percent": 7, "temperature_c": 31,
    }  # fmt: skip
    assert found[1]["memory_used_bytes"] == 39000 * MIB


def test_what_the_driver_does_not_know_is_none_and_not_zero(driver: Path) -> None:
    lines(driver, ["0, NVIDIA GB10, [N/A], [Not Supported], 580.95, [N/A], [Unknown Error]"])
    (card,), _ = overview()
    assert (card["memory_total_bytes"], card["memory_used_bytes"]) == (None, None)
    assert (card["util_percent"], card["temperature_c"]) == (None, None)


def test_lines_that_are_no_card_are_left_out(driver: Path) -> None:
    lines(driver, ["WARNING: infoROM is corrupted at gpu 0000:02:00.0", "", "0, NVIDIA T4, 15360, 0, 535, 0, 40"])
    assert [card["name"] for card in overview()[0]] == ["NVIDIA T4"]


def test_no_card_and_no_problem_are_different_things(driver: Path) -> None:
    says(driver, "exit 0\n")
    assert overview() == ([], "")


def test_the_drivers_own_words_explain_a_failure(driver: Path) -> None:
    says(driver, "echo 'Failed to initialize NVML: Driver/library version mismatch'; echo more; exit 18\n")
    assert overview() == ([], "nvidia-smi exited with 18: Failed to initialize NVML: Driver/library version mismatch")
    says(driver, "exit 9\n")
    assert overview() == ([], "nvidia-smi exited with 9: nothing")


def test_a_driver_that_hangs_is_given_up(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia_smi, "_TIMEOUT_S", 0.2)
    says(driver, "exec sleep 60\n")
    assert overview() == ([], "nvidia-smi did not answer in 0.2 s: the driver may hang")


def test_a_tool_that_is_no_program_is_a_problem_and_not_a_crash(driver: Path) -> None:
    driver.write_bytes(b"\x00\x01 not a program")
    driver.chmod(0o755)
    found, problem = overview()
    assert found == []
    assert problem.startswith("nvidia-smi could not be started: ")


def test_without_the_tool_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert overview() == ([], "nvidia-smi is not installed")
