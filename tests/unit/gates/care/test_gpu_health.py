"""The health of cards: a real H200's surveys, and what goes wrong with cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.gpu import driver_codes
from leasehold.caretaker.monitor import alarms
from leasehold.gates.care.gpu_health import GpuReadings, Health, Level, Thresholds, judge_health, worst
from leasehold.gates.start import audit

SURVEYS = json.loads((Path(__file__).parents[1] / "fixtures" / "h200_surveys.json").read_text())


def readings(look: str = "idle", **change: Any) -> GpuReadings:
    known = {key: value for key, value in SURVEYS[look].items() if key in GpuReadings.__dataclass_fields__}
    return GpuReadings(**{**known, **change})


def with_card(look: str = "idle", **change: Any) -> GpuReadings:
    seen = readings(look)
    return readings(look, cards=[{**seen.cards[0], **change}])


def with_samples(**change: Any) -> GpuReadings:
    seen = readings("working")
    return readings("working", samples=[[{**sample[0], **change}] for sample in seen.samples])


def bad(found: list[Health]) -> list[str]:
    return [f"{health.level.value}: {health.what}" for health in found if health.level is not Level.OK]


@pytest.mark.parametrize("look", ["idle", "working", "after"])
def test_a_real_card_is_well_at_rest_and_at_full_power(look: str) -> None:
    found = judge_health(readings(look))
    assert bad(found) == []
    assert worst(found) is Level.OK


def test_memory_of_a_dead_process_is_said_with_the_pid_the_driver_names() -> None:
    (said,) = bad(judge_health(readings("orphaned")))
    assert said.startswith("warn: 5.5 GB of 150.8 GB memory in use; 5.5 GB of it belong to no process")
    assert "pid 547, which is not here" in said


@pytest.mark.parametrize(
    "change, level, what",
    [
        ({"ecc_uncorrected": 2}, "fail", "2 uncorrectable memory errors"),
        ({"rows_failed": True}, "fail", "could not be replaced"),
        ({"rows_pending": True}, "warn", "waits to be taken out of use"),
        ({"pages_pending": True}, "warn", "waits to be taken out of use"),
        ({"rows_uncorrectable": 3}, "warn", "3 memory rows replaced"),
        ({"pages_retired": 1}, "warn", "1 pages retired"),
        ({"recovery_action": "Reset"}, "fail", "asks for recovery: Reset"),
        ({"ecc": False}, "warn", "ECC is off"),
        ({"pcie_width": 4}, "warn", "4 lanes wide, not 16"),
        ({"persistence": False}, "warn", "persistence mode is off"),
        ({"power_limit_w": 400}, "warn", "capped at 400 W, 700 W is normal"),
    ],
)
def test_each_fault_of_a_card_is_judged(change: dict[str, Any], level: str, what: str) -> None:
    (said,) = bad(judge_health(with_card(**change)))
    assert said.startswith(level) and what in said


@pytest.mark.parametrize("reason", ["hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake", "hw_slowdown"])
def test_a_card_that_is_slowed_down_fails(reason: str) -> None:
    (said,) = bad(judge_health(with_samples(reasons=[reason])))
    assert said.startswith("fail") and "2 of 2 samples" in said


@pytest.mark.parametrize(
    "heat, clock, busy, level",
    [
        (82, 500, 100, ""),
        (83, 1900, 100, "warn"),
        (83, 1300, 100, "fail"),
        (90, 300, 0, "warn"),
        (83, 1386, 100, "warn"),
    ],
)
def test_a_low_clock_counts_only_when_hot_and_under_load(heat: int, clock: int, busy: int, level: str) -> None:
    found = bad(judge_health(with_samples(temperature_c=heat, sm_mhz=clock, util_percent=busy)))
    assert [said.split(":")[0] for said in found] == ([level] if level else [])


@pytest.mark.parametrize("code, level", [(48, "fail"), (79, "fail"), (31, "warn"), (43, "warn"), (999, "warn")])
def test_an_xid_says_whether_to_leave(code: int, level: str) -> None:
    item = {"bus": "0000:00:06", "xid": code, "text": "", **driver_codes.explain(code)._asdict()}
    kernel = {"readable": True, "problem": "", "xids": [item, item]}
    (said,) = bad(judge_health(readings(kernel=kernel)))
    assert said.startswith(level) and f"Xid {code} on 0000:00:06, 2 times" in said


def test_a_kernel_log_that_cannot_be_read_clears_nothing() -> None:
    found = judge_health(readings(kernel={"readable": False, "problem": "/dev/kmsg: Operation not permitted"}))
    assert worst(found) is Level.UNKNOWN
    assert "Operation not permitted" in bad(found)[0]


def test_no_card_fails_with_the_tools_own_words() -> None:
    (said,) = bad(judge_health(GpuReadings(problem="nvidia-smi is not installed")))
    assert said == "fail: no card answers: nvidia-smi is not installed"


def test_two_versions_of_the_driver_fail_and_a_newer_toolkit_warns() -> None:
    assert "the box must restart" in judge_health(readings(module="570.1"))[0].hint
    assert bad(judge_health(readings(toolkit="14.0.1")))[0].startswith("warn: driver 580.159.04, runs CUDA up to 13.0")


def test_a_card_that_says_nothing_of_itself_is_neither_broken_nor_healthy() -> None:
    bare = {"index": "0", "name": "Tesla K80", "uuid": "GPU-1", "driver": "470.1", "memory_used_bytes": 0}
    found = judge_health(readings(cards=[bare], module="", samples=[[{"index": "0"}]]))
    assert worst(found) is Level.UNKNOWN
    assert bad(found) == [
        "unknown: it counts no memory errors (no ECC): they stay unseen",
        "unknown: the driver does not report whether it is slowed down",
        "unknown: it does not report its temperature",
    ]


def test_home_and_the_patrol_judge_by_the_same_numbers() -> None:
    limits, here = alarms.LIMITS, Thresholds()
    assert (here.hot_c, here.clock_share) == (limits.card_hot_c.hot, limits.card_clock_share)
    assert here.loaded_percent == limits.card_loaded_percent
    assert limits.disk_percent.hot == audit.REFUSE_FULL * 100
