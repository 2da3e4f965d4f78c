"""Cards by the library, by the tool, by neither; and whose processes are on them. Runs under PyPy too."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leasehold.caretaker.gpu.cards import ask_driver, whose
from leasehold.kit.run.processes import MARK
from tests.support.fake_nvml import FakeNvml, missing_compiler

needs_compiler = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))


@needs_compiler
def test_the_library_is_asked_first(tmp_path: Path) -> None:
    answer = ask_driver(str(FakeNvml(tmp_path).path))
    assert answer.problem == "" and answer.gpus[0]["name"] == "NVIDIA Fake"


def test_without_the_library_the_tool_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        'echo "0, NVIDIA H200, 97, 20000, 143771, 1500, 1980, 687.10, 54, 0, '
        'Not Active, Not Active, Not Active, Not Active, Active"\n'
    )
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (card,) = ask_driver(str(tmp_path / "no-library.so")).gpus
    assert card == {
        "index": 0,
        "name": "NVIDIA H200",
        "util_percent": 97,
        "memory_used_bytes": 20000 << 20,
        "memory_total_bytes": 143771 << 20,
        "sm_mhz": 1500,
        "sm_mhz_max": 1980,
        "power_w": 687.1,
        "temperature_c": 54,
        "ecc_uncorrected": 0,
        "reasons": ["sw_power_cap"],
    }


def test_without_either_both_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = ask_driver(str(tmp_path / "no-library.so"))
    assert answer.gpus == [] and "no-library.so" in answer.problem and "nvidia-smi" in answer.problem


def test_processes_on_a_card_are_ours_others_or_of_another_namespace() -> None:
    environ = dict(os.environ, **{MARK: "|box|run/main/1"})
    marked = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environ)
    try:
        until = time.monotonic() + 10
        while b"time.sleep" not in Path("/proc/%d/cmdline" % marked.pid).read_bytes() and time.monotonic() < until:
            time.sleep(0.01)
        held = [{"pid": pid, "bytes": 1} for pid in (marked.pid, os.getpid(), 99999999)]
        seen = whose({"processes": held}, [], "|box|run")
    finally:
        marked.kill()
        marked.wait()
    assert (seen["ours"], seen["hidden"]) == (1, 1)
    assert [one["pid"] for one in seen["others"]] == [os.getpid()]


def test_a_card_that_does_not_say_who_is_on_it_says_nothing() -> None:
    assert whose({"index": 0}, [1], "mark") == {}
