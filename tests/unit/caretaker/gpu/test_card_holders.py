"""Who holds a card: real processes with a device open (a file that stands for it). Runs under PyPy too."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from leasehold.caretaker.gpu import card_holders, nvidia_smi
from leasehold.caretaker.gpu.card_holders import Sight, end, holders
from leasehold.caretaker.gpu.nvidia_smi import Listed
from leasehold.caretaker.process.process_table import ProcessTable
from leasehold.kit.run.processes import MARK

HOLD = "import sys; held = [open(p) for p in sys.argv[1:]]; print(1, flush=True); sys.stdin.read()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + HOLD
WORKER = "import os; " + HOLD.replace("print", "os.fork(); print")  # a loader's worker inherits what its parent opened


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (folder / name).write_bytes(b"")
    return folder


@contextlib.contextmanager
def holding(*paths: Path, code: str = HOLD, **environment: str) -> Iterator[int]:
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, paths)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert child.stdout is not None and child.stdin is not None
    try:
        child.stdout.readline()
        yield child.pid
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def look(devices: Path, listed: List[Listed], root: str = "/no/root", min_age_s: float = 0.0) -> Dict[int, Any]:
    sight = Sight(ProcessTable(), ProcessTable(), 5.0, listed, str(devices))
    return {row["pid"]: row for row in holders(root, sight, min_age_s)}


@pytest.fixture(autouse=True)
def seeing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine of its own: the driver's process numbers are ours."""
    monkeypatch.setattr(card_holders, "own_namespace", lambda: False)


def test_an_unlisted_holder_is_a_zombie_and_a_listed_one_a_job(devices: Path) -> None:
    with holding(devices / "nvidia0") as zombie, holding(devices / "nvidia1", devices / "nvidia-uvm") as job:
        found = look(devices, [Listed(job, "GPU-1", 5 << 30)])
    assert (found[zombie]["zombie"], found[zombie]["cards"]) == (True, ["nvidia0"])
    assert (found[job]["zombie"], found[job]["memory_bytes"]) == (False, 5 << 30)
    assert "the driver lists it" in found[job]["why"]


def test_whoever_only_looks_at_the_driver_holds_no_card(devices: Path) -> None:
    with holding(devices / "nvidiactl", devices / "nvidia-uvm") as pid:
        assert pid not in look(devices, [])


def test_a_young_process_is_left_alone(devices: Path) -> None:
    with holding(devices / "nvidia0") as pid:
        found = look(devices, [], min_age_s=120.0)[pid]
    assert not found["zombie"] and "120 s is the least" in found["why"]


def test_the_workers_of_a_listed_job_are_its_own(devices: Path) -> None:
    with holding(devices / "nvidia0", code=WORKER) as job:
        found = look(devices, [Listed(job, "GPU-1", None)])
        family = [pid for pid, row in found.items() if pid != job]
        assert family and not any(found[pid]["zombie"] for pid in family)
        for pid in family:
            os.kill(pid, signal.SIGKILL)


def test_a_service_of_the_card_is_no_zombie(devices: Path, tmp_path: Path) -> None:
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b'nvidia-persistenced', 0, 0, 0); " + HOLD
    with holding(devices / "nvidia0", code=rename) as pid:
        found = look(devices, [])[pid]
    assert not found["zombie"] and "service" in found["why"]


def test_what_an_ended_run_left_is_named_after_it_and_a_live_runs_is_kept(devices: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name, last in (("done-1", '{"n":2,"t":2,"k":"run_finished"}\n'), ("live-1", "")):
        run = root / "active" / name
        run.mkdir(parents=True)
        (run / "plan.json").write_text("{}")
        (run / "journal.jsonl").write_text('{"n":1,"t":1,"k":"run_opened","cells":[]}\n' + last)
    marks = {name: str(root / "active" / name).replace("/", "|") + "/main/1" for name in ("done-1", "live-1")}
    first, second = devices / "nvidia0", devices / "nvidia1"
    with holding(first, **{MARK: marks["done-1"]}) as left, holding(second, **{MARK: marks["live-1"]}) as live:
        found = look(devices, [], str(root))
    assert found[left]["zombie"] and found[left]["why"].startswith("left over by done-1")
    assert not found[live]["zombie"] and "goes on" in found[live]["why"]


def test_a_mark_of_another_root_is_somebodys_work(devices: Path) -> None:
    with holding(devices / "nvidia0", **{MARK: "|else|active|x/main/1"}) as pid:
        assert not look(devices, [])[pid]["zombie"]


def test_another_users_process_is_never_touched(devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(devices / "nvidia0") as pid:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
        found = look(devices, [])[pid]
    assert not found["zombie"] and "not to us" in found["why"]


def test_in_a_container_only_idle_orphans_are_zombies(devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_holders, "own_namespace", lambda: True)
    with holding(devices / "nvidia0") as pid:
        found = look(devices, [])[pid]
    assert not found["zombie"] and "its parent %d lives" % os.getpid() in found["why"]


# ---------------------------------------------------------------- ending


def test_a_zombie_is_asked_and_then_made_to_end(devices: Path) -> None:
    with holding(devices / "nvidia0") as meek, holding(devices / "nvidia1", code=STUBBORN) as stubborn:
        rows = list(look(devices, []).values())
        (first,) = end([row for row in rows if row["pid"] == meek], rows, 60.0)
        (second,) = end([row for row in rows if row["pid"] == stubborn], rows, 0.2)
    assert (first["did"], first["why"]) == ("ended", "by SIGTERM")
    assert (second["did"], second["why"]) == ("killed", "by SIGKILL")


def test_another_process_with_the_same_number_is_left(devices: Path) -> None:
    with holding(devices / "nvidia0") as pid:
        rows = list(look(devices, []).values())
        (result,) = end([{"pid": pid, "started": "1"}], rows, 1.0)
        assert result["did"] == "nothing"
        os.kill(pid, 0)


def test_what_became_a_job_meanwhile_is_left(devices: Path) -> None:
    with holding(devices / "nvidia0") as pid:
        shown = [row for row in look(devices, []).values() if row["pid"] == pid]
        now = list(look(devices, [Listed(pid, "GPU-1", None)]).values())
        (result,) = end(shown, now, 1.0)
        assert (result["did"], "it is a job" in result["why"]) == ("nothing", True)
        os.kill(pid, 0)


# ---------------------------------------------------------------- the driver's tool


def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / "nvidia-smi"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "bin", os.environ["PATH"]))


def test_a_field_that_the_driver_does_not_know_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(
        tmp_path, monkeypatch,
        'bad() { echo "Field \\"$1\\" is not a valid field to query."; exit 2; }\n'
        'case "$1" in *gpu_recovery_action*) bad gpu_recovery_action;;\n'
        "*throttle_reasons.hw_slowdown*) bad clocks_throttle_reasons.hw_slowdown;;\n"
        "esac\necho 0, '[N/A]', Active, Not Active, Not Active, Not Active, Active\n",
    )  # fmt: skip
    answer = nvidia_smi.cards(("index", "pages_pending", "reasons", "recovery_action"))
    assert answer.gpus == [{"index": 0, "pages_pending": None, "reasons": ["hw_slowdown", "sw_power_cap"]}]


def test_a_driver_that_hides_its_reasons_is_not_taken_for_calm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, monkeypatch, "echo 0, '[N/A], [N/A], [N/A], [N/A], Active'\n")
    assert nvidia_smi.cards(("index", "reasons")).gpus == [{"index": 0}]


@pytest.mark.parametrize("script, why", [("exit 9", "exited with 9"), ("echo No devices were found; exit 6", "No dev")])
def test_a_tool_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str) -> None:
    tool(tmp_path, monkeypatch, script)
    answer = nvidia_smi.cards()
    assert answer.gpus == [] and why in answer.problem


def test_listed_processes_are_read_with_their_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(
        tmp_path, monkeypatch,
        'if [ "$1" = pmon ]; then printf "# gpu pid type\\n 0 99 G - - Xorg\\n 0 - - -\\n"; exit; fi\n'
        "printf '547, GPU-1, 5190\\n548, GPU-1, [N/A]\\n'\n",
    )  # fmt: skip
    listed, problem = nvidia_smi.listed()
    assert problem == ""
    assert listed == [Listed(547, "GPU-1", 5190 << 20), Listed(548, "GPU-1", None), Listed(99, "", None)]


@pytest.mark.parametrize("used_ticks, zombie", [(0, True), (400, False)])
def test_in_a_container_an_orphan_counts_only_when_it_did_nothing(
    devices: Path, monkeypatch: pytest.MonkeyPatch, used_ticks: int, zombie: bool
) -> None:
    monkeypatch.setattr(card_holders, "own_namespace", lambda: True)
    with holding(devices / "nvidia0") as pid:
        before, after = ProcessTable(), ProcessTable()
        orphan = after.entries[pid]._replace(parent=1)
        after.entries[pid] = orphan._replace(cpu_ticks=before.entries[pid].cpu_ticks + used_ticks)
        (found,) = holders("/no/root", Sight(before, after, 5.0, [], str(devices)), 0.0)
    assert found["zombie"] is zombie, found["why"]
