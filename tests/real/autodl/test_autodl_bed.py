"""The simulated AutoDL behaves as the real one does, and leaves nothing on the machine it runs on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leasehold.caretaker.machine import limits
from tests.support import processes
from tests.support.autodl_bed import DATA, SHARED, AutodlBox, AutodlCloud
from tests.support.autodl_image import BROKEN_TURBO
from tests.support.lives import eventually

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
NOISE_ENDS = "文件存储中\n\n"
CLOUD_IN_A_CHILD = """
import sys, time
from pathlib import Path
from tests.support.autodl_bed import AutodlCloud
cloud = AutodlCloud(Path(sys.argv[1]))
box = cloud.rent()
box.run("nohup sleep 600 >/dev/null 2>&1 &")
print(" ".join(map(str, [cloud.regions[0].pid, *box.live()])), flush=True)
time.sleep(600)
"""


@pytest.fixture
def box(autodl: AutodlCloud) -> AutodlBox:
    """Give an instance that is on."""
    return autodl.rent()


def says(box: AutodlBox, command: str, code: int = 0) -> str:
    """Run a command there; return what it printed after the banner."""
    done = box.run(command)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode().rpartition(NOISE_ENDS)[2].strip()


# ---------------------------------------------------------------- what is there and what is not


def test_a_command_over_ssh_finds_no_python_and_hears_the_banner(box: AutodlBox) -> None:
    done = box.run("command -v python || command -v python3 || echo none")
    text = done.stdout.decode()
    assert "AutoDL" in text and "系统盘" in text
    assert text.endswith(NOISE_ENDS + "none\n")


def test_a_login_has_python_and_still_no_python3(box: AutodlBox) -> None:
    assert says(box, "bash -lc 'command -v python; command -v python3 || echo none'").endswith(
        "/root/miniconda3/bin/python\nnone"
    )
    asked = "import hashlib, json, ssl, sys; print(sys.version_info >= (3, 8))"
    assert says(box, f"/root/miniconda3/bin/python -c '{asked}'") == "True"


@pytest.mark.parametrize("tool", ["tmux", "screen", "rsync", "systemd-run", "loginctl"])
def test_the_image_lacks(box: AutodlBox, tool: str) -> None:
    assert box.run(f"command -v {tool}").returncode == 1


def test_each_tier_is_its_own_mount_and_public_data_is_read_only(box: AutodlBox) -> None:
    for place in (DATA, SHARED, "/root/autodl-pub"):
        assert says(box, f"stat -c %m {place}") == place
    assert "Read-only file system" in box.run("touch /root/autodl-pub/mine").stderr.decode()


def test_the_proxy_hook_exports_a_loopback_proxy(box: AutodlBox) -> None:
    assert says(box, ". /etc/network_turbo && echo $http_proxy $https_proxy").startswith("http://127.0.0.1:")


def test_a_broken_proxy_hook_fails(box: AutodlBox) -> None:
    box.turbo(BROKEN_TURBO)
    done = box.run(". /etc/network_turbo || echo failed")
    assert done.stdout.decode().endswith("failed\n")
    assert "no academic proxy" in done.stderr.decode()


def test_what_lies_on_the_host_is_not_seen_from_inside(box: AutodlBox, tmp_path: Path) -> None:
    (tmp_path / "of the host").touch()
    assert box.run(f"ls '{tmp_path}'").returncode == 2
    assert int(says(box, "ls -d /proc/[0-9]* | wc -l")) < 12


# ---------------------------------------------------------------- caps


def test_the_shared_disk_runs_out_of_inodes_before_bytes(autodl: AutodlCloud) -> None:
    box = autodl.rent(autodl.region(fs_inodes=40))
    many = f"cd {SHARED}; i=0; while [ $i -lt 60 ]; do : > f$i || exit 7; i=$((i+1)); done"
    done = box.run(many)
    assert done.returncode == 7
    assert "No space left on device" in done.stderr.decode()
    assert says(box, f"stat -f -c '%d %a' {SHARED}").split() == ["0", says(box, f"stat -f -c %b {SHARED}")]
    assert says(box, f"echo more >> {SHARED}/f1; cat {SHARED}/f1") == "more", "files that are there still take bytes"


def test_the_data_disk_and_the_system_disk_are_capped(autodl: AutodlCloud) -> None:
    box = autodl.rent(system_bytes=16 << 20, data_bytes=1 << 20)
    for place, cap_bytes in ((DATA, 1 << 20), ("/opt", 16 << 20), ("/usr/share", 16 << 20)):
        done = box.run(f"head -c {32 << 20} /dev/zero > {place}/big; stat -c %s {place}/big; rm {place}/big")
        assert "No space left on device" in done.stderr.decode()
        assert 0 < int(done.stdout.decode().rpartition(NOISE_ENDS)[2]) <= cap_bytes


def test_its_limits_are_the_containers_not_the_hosts(box: AutodlBox) -> None:
    limit = int(says(box, "cat /sys/fs/cgroup/memory/memory.limit_in_bytes"))
    assert limit == 8 << 30
    assert limit != limits.memory()["limit_bytes"]


# ---------------------------------------------------------------- regions


def test_boxes_of_one_region_share_a_disk_and_another_region_has_another(autodl: AutodlCloud) -> None:
    west, east = autodl.region(), autodl.region()
    first, second, third = autodl.rent(west), autodl.rent(west), autodl.rent(east)
    says(first, f"echo hello > {SHARED}/note; echo mine > {DATA}/note")
    assert says(second, f"cat {SHARED}/note") == "hello"
    assert third.run(f"cat {SHARED}/note").returncode == 1
    assert second.run(f"cat {DATA}/note").returncode == 1, "a data disk belongs to one instance"
    assert (west.shared / "note").read_text() == "hello\n"


# ---------------------------------------------------------------- power


@pytest.mark.parametrize("command", ["shutdown", "/usr/bin/shutdown", "poweroff", "shutdown -h now"])
def test_shutdown_from_inside_kills_everything_and_closes_the_door(box: AutodlBox, command: str) -> None:
    box.run("nohup setsid sleep 600 >/dev/null 2>&1 &")
    inside = box.live()
    assert len(inside) >= 3
    box.run(command)
    box.wait_off()
    assert not box.on
    assert not set(inside) & set(processes.snapshot())
    refused = box.run("true")
    assert (refused.returncode, "Connection refused" in refused.stderr.decode()) == (255, True)


def test_power_on_brings_the_same_disks_on_another_port_with_another_boot(box: AutodlBox) -> None:
    port, boot, key = box.port, says(box, BOOT_ID), says(box, "cat /etc/ssh/ssh_host_ed25519_key | sha256sum")
    says(box, f"echo a > /opt/note; echo b > {DATA}/note; echo c > {SHARED}/note; echo d > /usr/share/note")
    box.run("shutdown")
    box.wait_off()
    assert box.behind(f"{DATA}/note").read_text() == "b\n"
    box.power_on()
    assert box.port != port and f"-p {box.port} " in box.ssh_line
    assert says(box, f"cat /opt/note {DATA}/note {SHARED}/note /usr/share/note") == "a\nb\nc\nd"
    assert says(box, BOOT_ID) not in ("", boot)
    assert says(box, "cat /etc/ssh/ssh_host_ed25519_key | sha256sum") == key, "the host key lies on the system disk"


def test_power_off_from_the_console_is_the_same_and_twice_is_once(box: AutodlBox) -> None:
    box.run("nohup setsid sleep 600 >/dev/null 2>&1 &")
    box.power_off()
    box.power_off()
    assert (box.on, box.leftovers()) == (False, [])
    box.power_on()
    box.power_on()
    assert says(box, "echo up") == "up"


def test_a_box_that_is_off_has_no_process_of_a_box_that_came_after_it(autodl: AutodlCloud, box: AutodlBox) -> None:
    box.power_off()
    time.sleep(1.0)  # by now the kernel gives a closed namespace's number to the next
    other = autodl.rent()
    assert (box.leftovers(), len(other.leftovers()) > 1) == ([], True)


def test_without_a_card_the_box_is_small_and_keeps_its_disks(box: AutodlBox) -> None:
    assert "RTX 4090" in says(box, "nvidia-smi")
    says(box, f"echo kept > {DATA}/note")
    box.run("shutdown")
    box.wait_off()
    box.power_on_without_gpu()
    assert box.run("nvidia-smi").returncode == 127
    assert says(box, f"cat {DATA}/note /sys/fs/cgroup/memory/memory.limit_in_bytes") == f"kept\n{2 << 30}"
    box.power_off()
    box.power_on()
    assert "RTX 4090" in says(box, "nvidia-smi")


def test_release_deletes_both_disks_and_keeps_the_regions(autodl: AutodlCloud, box: AutodlBox) -> None:
    says(box, f"echo gone > {DATA}/note; echo stays > {SHARED}/note")
    with pytest.raises(RuntimeError, match="power it off first"):
        box.release()
    box.power_off()
    box.release()
    box.release()
    assert not box.behind(f"{DATA}/note").exists()
    assert not box.behind("/etc/passwd").exists()
    with pytest.raises(RuntimeError, match="was released"):
        box.power_on()
    assert says(autodl.rent(), f"cat {SHARED}/note") == "stays"


# ---------------------------------------------------------------- the machine underneath


@pytest.mark.containers
def test_the_host_sees_no_mount_and_keeps_no_process(tmp_path: Path) -> None:
    with AutodlCloud(tmp_path / "cloud") as cloud:
        box = cloud.rent()
        box.run("nohup setsid sleep 600 >/dev/null 2>&1 &")
        pids = [cloud.regions[0].pid, *box.live()]
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
        assert list((tmp_path / "cloud" / "region-0").iterdir()) == [], "the disks are the region's alone"
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert not set(pids) & set(processes.snapshot())


@pytest.mark.containers
def test_a_killed_test_takes_its_cloud_along(tmp_path: Path) -> None:
    words = [sys.executable, "-c", CLOUD_IN_A_CHILD, str(tmp_path / "cloud")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        pids = {int(word) for word in child.stdout.readline().split()}
        assert len(pids) >= 4
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert eventually(lambda: not pids & set(processes.snapshot()))
