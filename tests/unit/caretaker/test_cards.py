"""Cards asked in the background: children that answer, cost too much, die or hang. Runs under PyPy too."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Optional

import pytest

from leasehold.caretaker.cards import Answer, Cards, ask_driver, whose
from leasehold.kit.procs import MARK
from tests.support.fake_nvml import FakeNvml, missing_compiler

needs_compiler = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
CARD = {"index": 0, "util_percent": 5}


def heard(cards: Cards, now_s: float) -> Optional[Answer]:
    """Read as the sampler does, at one moment of its clock, until the child is done."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        answer = cards.read(now_s)
        if answer is not None:
            return answer
        time.sleep(0.01)
    return None


def slow_ask() -> Answer:
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    return Answer([CARD])


def hang() -> Answer:
    signal.pause()
    return Answer([])


def die() -> Answer:
    os._exit(3)


def test_an_answer_comes_and_the_next_question_waits_its_time() -> None:
    cards = Cards(lambda: Answer([CARD]))
    assert heard(cards, 100.0) == Answer([CARD])
    assert cards.read(114.0) is None
    assert heard(cards, 115.1) == Answer([CARD])


def test_what_costs_more_is_asked_more_seldom() -> None:
    cards = Cards(slow_ask)
    assert heard(cards, 100.0) == Answer([CARD])
    assert cards.read(180.0) is None  # 0.2 s of processor time buy a hundred seconds of silence


def test_a_driver_that_hangs_is_given_up_and_said_so() -> None:
    cards = Cards(hang)
    assert cards.read(100.0) is None
    assert cards.read(129.0) is None
    answer = cards.read(131.0)
    assert answer is not None and answer.hung and "did not answer in 30 s" in answer.problem
    assert cards.read(700.0) is None  # not asked again for ten minutes


def test_a_child_that_dies_is_a_problem_and_no_card() -> None:
    answer = heard(Cards(die), 100.0)
    assert answer is not None and answer.gpus == [] and "died" in answer.problem


def test_more_cards_than_a_pipe_holds_still_arrive() -> None:
    many = [dict(CARD, index=index, name="x" * 1000) for index in range(100)]
    answer = heard(Cards(lambda: Answer(many)), 100.0)
    assert answer is not None and answer.gpus == many


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
