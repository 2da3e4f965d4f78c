"""What is read at every tick, from this machine itself. Runs under PyPy too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

from leasehold.caretaker.monitor.log_reader import LogReader
from leasehold.caretaker.monitor.vitals import Disks, Memory, Target, Tier, Trainer, disk_figures, tiers_of
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.processes import MARK, look
from tests.support.front import SOURCES, Tmpfs

_BUSY = "import os, time\nif os.fork() == 0:\n    time.sleep(60)\nwhile True: pass\n"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    path = tmp_path / "active" / "run"
    path.mkdir(parents=True)
    return RunFolder(str(path))


@pytest.fixture
def trainer(folder: RunFolder) -> Iterator[Target]:
    environ = dict(os.environ, **{MARK: folder.mark("main", 1)})
    child = subprocess.Popen([sys.executable, "-c", _BUSY], env=environ, start_new_session=True)
    until = time.monotonic() + 10
    while len(os.listdir("/proc/%d/task" % child.pid)) < 1 and time.monotonic() < until:
        time.sleep(0.01)
    process = look(child.pid)
    yield Target("running", "main", 1, child.pid, process.started if process else "")
    os.killpg(child.pid, 9)
    child.wait()


# ---------------------------------------------------------------- disks


FIGURES = {"total_bytes": 100, "free_bytes": 60, "total_inodes": 10, "free_inodes": 9}


def test_where_the_run_may_write_is_named_without_touching_it(folder: RunFolder) -> None:
    Path(folder.environment).write_text('{"durable": "/gone/fs", "scratch": "relative"}')
    tiers = tiers_of(folder)
    assert tiers[0] == Tier("state", folder.path)
    assert Tier("durable", "/gone/fs") in tiers and all(tier.role != "scratch" for tier in tiers)


def test_every_filesystem_is_listed_once_by_the_role_that_comes_first() -> None:
    disks = Disks([Tier("state", "/a"), Tier("data", "/a/data"), Tier("shm", "/dev/shm")])
    for name, device in (("disk /a", 1), ("disk /a/data", 1), ("disk /dev/shm", 2)):
        disks.take(name, dict(FIGURES, device=device), 0.0)
    assert [disk["role"] for disk in disks.facts] == ["state", "shm"]
    assert disks.facts[0] == dict(FIGURES, role="state", path="/a")


def test_a_disk_that_is_gone_keeps_its_place_without_figures() -> None:
    disks = Disks([Tier("durable", "/nfs"), Tier("state", "/a")])
    disks.take("disk /nfs", dict(FIGURES, device=1), 0.0)
    disks.take("disk /a", dict(FIGURES, device=2), 0.0)
    disks.take("disk /nfs", {}, 15.0)
    assert disks.facts[0] == {"role": "durable", "path": "/nfs"} and disks.facts[1]["free_bytes"] == 60


def test_a_disk_is_read_as_an_ordinary_user_could_fill_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = os.statvfs(str(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda path: seen)  # others write to it meanwhile
    value = disk_figures(str(tmp_path))
    assert value["device"] == os.stat(str(tmp_path)).st_dev
    kept = seen.f_bfree - seen.f_bavail
    assert value["total_bytes"] == (seen.f_blocks - kept) * seen.f_frsize
    assert value["total_inodes"] == seen.f_files


def test_a_path_that_is_not_there_has_no_figures(tmp_path: Path) -> None:
    assert disk_figures(str(tmp_path / "gone")) == {}


_FILLING = """
import os, sys
from leasehold.caretaker.monitor.vitals import Disks, Tier, disk_figures
place = sys.argv[1]
disks = Disks([Tier("state", place)])
for number in range(30):
    if sys.argv[2] == "bytes":
        with open(os.path.join(place, "grows"), "ab") as file:
            file.write(bytes(1 << 16))
    else:
        for part in range(5):
            open(os.path.join(place, "%d-%d" % (number, part)), "w").close()
    disks.take("disk " + place, disk_figures(place), number * 30.0)
print(disks.facts[0].get("bytes_full_in_s", 0), disks.facts[0].get("inodes_full_in_s", 0))
"""


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("what", "options", "place", "least", "most"),
    [("bytes", "size=10m", 0, 3800, 4100), ("inodes", "size=10m,nr_inodes=600", 1, 2600, 2800)],
)
def test_a_disk_that_fills_tells_when_it_is_full(
    tmp_path: Path, what: str, options: str, place: int, least: int, most: int
) -> None:
    asked = [*Tmpfs(tmp_path, options).words(), sys.executable, "-c", _FILLING, str(tmp_path), what]
    environ = {"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    done = subprocess.run(asked, env=environ, stdout=subprocess.PIPE, check=True)
    said = [int(word) for word in done.stdout.split()]
    assert least < said[place] < most and said[1 - place] == 0


# ---------------------------------------------------------------- memory and processes


def test_memory_is_read_against_a_limit() -> None:
    value = Memory().read(0.0)
    assert 0 < value["used_bytes"] < value["limit_bytes"] and "full_in_s" not in value


def test_the_trainers_processes_are_counted_with_their_memory_and_time(folder: RunFolder, trainer: Target) -> None:
    seen = Trainer(folder)
    seen.read(trainer, 0.0)
    value: Dict[str, Any] = {}
    for tick in range(1, 300):
        value = seen.read(trainer, 60.0 * tick)  # each tick looks anew: the fork may come late
        if value.get("processes") == 2 and value.get("cpu_percent"):
            break
        time.sleep(0.2)  # of a minute, as it is told: less would be rounded to nothing
    assert value["processes"] == 2 and value["threads"] == 2
    assert value["rss_bytes"] > value["largest"]["rss_bytes"] > 1 << 20
    assert value["cpu_percent"] > 0
    assert trainer.pid in seen.pids


def test_without_a_trainer_nothing_is_counted(folder: RunFolder) -> None:
    seen = Trainer(folder)
    assert seen.read(Target("running"), 0.0) == {}
    assert seen.read(Target("running", "main", 1, 99999999, "1"), 60.0) == {}


# ---------------------------------------------------------------- the log


def test_the_log_tells_step_loss_rate_and_silence(tmp_path: Path) -> None:
    log, reader = tmp_path / "log", LogReader("auto")
    assert reader.read(str(log), 0.0) == {}
    for second in range(1, 5):
        with log.open("a") as file:
            file.write("step %d/100 loss %.2f lr=0.1\n" % (10 * second, 1 / second))
        said = reader.read(str(log), 5.0 * second)
    assert (said["step"], said["total"], said["loss"], said["quiet_s"]) == (40, 100, 0.25, 0.0)
    assert said["rate_per_s"] == pytest.approx(2.0) and said["metrics"] == {"lr": 0.1}
    assert reader.read(str(log), 95.0)["quiet_s"] == 75.0


def test_a_loss_that_is_no_number_any_more_is_none(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step 1 loss nan\n")
    said = LogReader("auto").read(str(tmp_path / "log"), 1.0)
    assert "loss" in said and said["loss"] is None


def test_tracebacks_are_counted(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("Traceback (most recent call last):\n" * 3)
    assert LogReader("auto").read(str(tmp_path / "log"), 1.0)["cries"] == 3


def test_of_a_flood_only_the_end_is_read(tmp_path: Path) -> None:
    log, reader = tmp_path / "log", LogReader("auto")
    log.write_text("step 1/900000 loss 1\n")
    reader.read(str(log), 1.0)
    with log.open("a") as file:
        for step in range(2, 40000):
            file.write("step %d/900000 loss 0.5\n" % step)
    said = reader.read(str(log), 6.0)
    assert said["step"] == 39999


def test_another_attempt_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("step 7/9 loss 1\nTraceback (most recent call last):\n")
    (tmp_path / "two").write_text("step 3/9 loss 2\n")
    reader = LogReader("auto")
    reader.read(str(tmp_path / "one"), 1.0)
    said = reader.read(str(tmp_path / "two"), 2.0)
    assert (said["step"], said["cries"]) == (3, 0)
