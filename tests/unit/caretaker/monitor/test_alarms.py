"""Readings become alarms once, with a band before they end. Runs under PyPy too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Iterable, List

import pytest

from leasehold.caretaker.monitor.alarms import Alarms, Recall, signs_of

GIB = 1 << 30
REAL = json.loads((Path(__file__).parents[1] / "data" / "h200.json").read_text())


class Watch:
    """Feeds facts to alarms as the patrol does, and keeps what was noted."""

    def __init__(self, known: Iterable[Dict[str, Any]] = ()) -> None:
        self.events: List[Dict[str, Any]] = []
        self.alarms, self.memory, self.at = Alarms(known), Recall(), 1000.0

    def see(self, times: int = 1, **facts: Any) -> "List[str]":
        before = len(self.events)
        for _ in range(times):
            self.at += 15
            sample = dict({"t": 5e9 - self.at, "tick_s": self.at, "fresh": ["gpu"], "hung": []}, **facts)
            self.alarms.judge(signs_of(sample, self.memory), self.note)
        return ["%s %s" % (event["k"][6:], event["name"]) for event in self.events[before:]]

    def note(self, kind: str, **facts: Any) -> None:
        self.events.append(dict(facts, k=kind))


def disk(used: float, **more: Any) -> Dict[str, Any]:
    usual = {"role": "state", "path": "/data", "total_inodes": 1000, "free_inodes": 900, "total_bytes": 1000 * GIB}
    return {**usual, "free_bytes": int((100 - used) * 10 * GIB), **more}


def card(**figures: Any) -> Dict[str, Any]:
    usual = {"index": 0, "util_percent": 98, "temperature_c": 60, "sm_mhz": 1900, "sm_mhz_max": 1980, "reasons": []}
    return dict(usual, **figures)


def memory(used: float, **more: Any) -> Dict[str, Any]:
    return dict(
        {"used_bytes": int(used * GIB), "limit_bytes": 100 * GIB, "source": "cgroup v2", "oom_kills": 0}, **more
    )


# ---------------------------------------------------------------- disks and memory


def test_a_full_disk_is_told_once_and_its_end_only_below_the_band() -> None:
    watch = Watch()
    assert watch.see(disks=[disk(94.9)]) == []
    assert watch.see(3, disks=[disk(95.0)]) == ["raised disk_bytes"]
    assert watch.see(3, disks=[disk(94.0)]) == []
    assert watch.see(disks=[disk(92.0)]) == ["cleared disk_bytes"]
    assert watch.see(disks=[disk(96.0)]) == ["raised disk_bytes"]


def test_a_disk_that_will_be_full_within_the_hour_is_a_warning() -> None:
    watch = Watch()
    assert watch.see(disks=[disk(60, bytes_full_in_s=3000)]) == ["raised disk_bytes"]
    assert watch.events[0]["level"] == "warn" and "full in 50 min" in watch.events[0]["what"]
    assert watch.see(disks=[disk(60, bytes_full_in_s=5000)]) == []
    assert watch.see(disks=[disk(60, bytes_full_in_s=9000)]) == ["cleared disk_bytes"]


def test_a_warning_that_comes_true_is_told_once_more() -> None:
    watch = Watch()
    watch.see(disks=[disk(60, bytes_full_in_s=3000)])
    assert watch.see(3, disks=[disk(96, bytes_full_in_s=100)]) == ["raised disk_bytes"]
    assert watch.events[-1]["level"] == "alarm"
    assert Watch(watch.events).see(disks=[disk(96)]) == []


def test_inodes_alarm_by_themselves() -> None:
    watch = Watch()
    assert watch.see(disks=[disk(10, free_inodes=40)]) == ["raised disk_inodes"]
    assert watch.events[0]["where"] == "/data" and "tar shards" in watch.events[0]["hint"]


def test_a_filesystem_without_inodes_or_bytes_is_no_alarm() -> None:
    assert Watch().see(disks=[disk(10, total_inodes=0, free_inodes=0), disk(0, total_bytes=0, free_bytes=0)]) == []


def test_memory_beyond_nine_tenths_is_told_with_who_holds_it() -> None:
    watch = Watch()
    trainer = {"processes": 9, "rss_bytes": 80 * GIB}
    assert watch.see(2, memory=memory(91), trainer=trainer) == ["raised memory"]
    assert "9 processes hold 80.0 GiB" in watch.events[0]["seen"]
    assert watch.see(memory=memory(88)) == []
    assert watch.see(memory=memory(84)) == ["cleared memory"]


def test_a_program_that_is_still_loading_is_no_leak() -> None:
    watch = Watch()
    assert watch.see(4, memory=memory(20, full_in_s=300)) == []
    assert watch.see(4, memory=memory(60, full_in_s=300)) == ["raised memory"]


def test_each_kill_for_memory_is_told_once() -> None:
    watch = Watch()
    assert watch.see(memory=memory(10, oom_kills=3)) == []  # before our time
    assert watch.see(3, memory=memory(10, oom_kills=4)) == ["raised oom_kill"]
    assert watch.see(3, memory=memory(10, oom_kills=5)) == ["raised oom_kill"]


# ---------------------------------------------------------------- cards


@pytest.mark.parametrize("reason", ["hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake"])
def test_a_throttled_card_is_told(reason: str) -> None:
    watch = Watch()
    assert watch.see(1, gpus=[card(reasons=[reason])]) == []  # a moment is no alarm
    assert watch.see(3, gpus=[card(reasons=[reason])]) == ["raised gpu_throttle"]
    assert watch.see(3, gpus=[card()]) == []
    assert watch.see(1, gpus=[card()]) == ["cleared gpu_throttle"]


@pytest.mark.parametrize("which", ["at_rest", "under_load"])
def test_a_real_h200_at_rest_and_under_full_load_is_no_alarm(which: str) -> None:
    assert Watch().see(20, gpus=[dict(REAL[which], ours=1, others=[])]) == []


def test_low_clocks_are_an_alarm_only_when_hot_and_loaded() -> None:
    assert Watch().see(5, gpus=[card(sm_mhz=345, util_percent=0, temperature_c=40)], trainer={}) == []
    assert Watch().see(5, gpus=[card(sm_mhz=1200, temperature_c=70)]) == []
    assert Watch().see(5, gpus=[card(sm_mhz=1200, temperature_c=84)]) == ["raised gpu_throttle", "raised gpu_hot"]


def test_an_xid_is_told_once_with_its_meaning_and_what_to_do() -> None:
    watch = Watch()
    assert watch.see(2, xids=[(0, 79)]) == ["raised gpu_xid"]
    assert "fallen off the bus" in watch.events[0]["what"] and watch.events[0]["level"] == "alarm"
    assert watch.see(xids=[(0, 31)]) == ["raised gpu_xid"]
    assert watch.events[1]["level"] == "warn"
    assert watch.see(xids=[(-1, 12345)]) == ["raised gpu_xid"]


def test_an_alarm_to_leave_the_box_names_the_command_for_it() -> None:
    watch = Watch()
    watch.see(2, xids=[(0, 79)])
    assert "lease move RUN --to BOX continues it on another one" in watch.events[0]["hint"]


def test_an_xid_is_heard_also_while_the_cards_are_not_asked() -> None:
    assert Watch().see(fresh=[], xids=[(0, 48)]) == ["raised gpu_xid"]


def test_an_xid_that_could_not_be_noted_is_not_lost() -> None:
    alarms, recall = Alarms([]), Recall()

    def full(kind: str, **facts: Any) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError):
        alarms.judge(signs_of({"t": 1.0, "xids": [(0, 79)]}, recall), full)
    noted: List[str] = []
    alarms.judge(signs_of({"t": 2.0, "xids": []}, recall), lambda kind, **facts: noted.append(facts["name"]))
    assert noted == ["gpu_xid"]


def test_a_new_memory_error_is_an_alarm_and_an_old_one_a_warning() -> None:
    watch = Watch()
    assert watch.see(2, gpus=[card(ecc_uncorrected=0)]) == []
    assert watch.see(2, gpus=[card(ecc_uncorrected=1)]) == ["raised gpu_ecc"]
    assert watch.events[0]["level"] == "alarm"
    old = Watch()
    assert old.see(2, gpus=[card(ecc_uncorrected=4)]) == ["raised gpu_ecc"]
    assert old.events[0]["level"] == "warn"


def test_a_lost_card_is_an_alarm() -> None:
    watch = Watch()
    assert watch.see(3, gpus=[{"index": 1, "lost": True, "problem": "gone"}]) == ["raised gpu_lost"]


def test_a_driver_that_hangs_is_told_until_it_answers() -> None:
    watch = Watch()
    assert watch.see(2, gpus=[], hung=["gpu"]) == ["raised gpu_silent"]
    assert watch.see(2, gpus=[card()]) == ["cleared gpu_silent"]


def test_a_disk_that_hangs_is_told_by_its_path_until_it_answers() -> None:
    watch = Watch()
    assert watch.see(2, fresh=["disk /nfs/my data"], hung=["disk /nfs/my data"]) == ["raised disk_silent"]
    assert watch.events[0]["where"] == "/nfs/my data"
    assert watch.see(2, fresh=["disk /nfs/my data"]) == ["cleared disk_silent"]


def test_a_stranger_on_our_card_is_told_and_one_on_another_card_is_not() -> None:
    watch = Watch()
    stranger = [{"pid": 7, "name": "miner", "bytes": 1}]
    assert watch.see(3, gpus=[card(ours=0, others=stranger)]) == []
    assert watch.see(3, gpus=[card(ours=1, others=stranger)]) == ["raised gpu_shared"]
    assert "miner (pid 7)" in watch.events[0]["seen"]
    assert watch.see(2, gpus=[card(ours=1, others=[])]) == ["cleared gpu_shared"]


def test_cards_idle_for_ten_minutes_are_told_with_whether_steps_advance() -> None:
    stands, moves = Watch(), Watch()
    trainer = {"processes": 1, "cpu_percent": 100.0}
    for number in range(60):
        stands.see(gpus=[card(util_percent=0)], trainer=trainer, progress={"step": 5})
        moves.see(gpus=[card(util_percent=0)], trainer=trainer, progress={"step": number})
    assert [event["name"] for event in stands.events] == ["gpu_idle"] == [event["name"] for event in moves.events]
    assert "waits for data" in moves.events[0]["hint"] and "stuck" in stands.events[0]["hint"]
    assert moves.see(2, gpus=[card()], trainer=trainer) == ["cleared gpu_idle"]


def test_a_job_that_neither_wants_nor_uses_cards_may_leave_them_idle() -> None:
    idle = [card(util_percent=0, ours=0, hidden=0, others=[])]
    assert Watch().see(100, gpus=idle, trainer={"processes": 1}) == []
    assert Watch().see(100, gpus=idle, trainer={"processes": 1}, wants_gpu=True) == ["raised gpu_idle"]


def test_idle_cards_without_a_trainer_are_none() -> None:
    assert Watch().see(100, gpus=[card(util_percent=0)], trainer={}) == []


def test_only_our_own_card_counts_as_idle() -> None:
    cards = [card(ours=1, others=[]), card(index=1, ours=0, others=[], util_percent=0)]
    assert Watch().see(100, gpus=cards, trainer={"processes": 1}) == []


# ---------------------------------------------------------------- memory of the caretaker


def test_a_new_caretaker_does_not_tell_again_what_stands() -> None:
    first = Watch()
    first.see(disks=[disk(96)])
    second = Watch(first.events)
    assert second.see(disks=[disk(96)]) == []
    assert second.alarms.names == ["disk_bytes /data"]
    assert second.see(disks=[disk(50)]) == ["cleared disk_bytes"]


def test_what_could_not_be_noted_is_tried_again() -> None:
    alarms, memory_of = Alarms([]), Recall()

    def full(kind: str, **facts: Any) -> None:
        raise OSError("no space left")

    facts = {"t": 1.0, "disks": [disk(96)]}
    with pytest.raises(OSError):
        alarms.judge(signs_of(facts, memory_of), full)
    noted: List[str] = []
    alarms.judge(signs_of(facts, memory_of), lambda kind, **facts: noted.append(kind))
    assert noted == ["alarm_raised"]
