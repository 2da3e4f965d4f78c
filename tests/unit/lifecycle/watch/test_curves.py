"""Curves, patrol records and readings out of what a box sends, which may be anything."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.errors import UserError
from leasehold.kit.events.table import describe
from leasehold.lifecycle.watch.box_readings import newest
from leasehold.lifecycle.watch.curves import Measured, curves_of, read_series
from leasehold.lifecycle.watch.patrol_minutes import last_of_minutes

RECORD = {
    "n": 1, "t": 1000.0, "s": "running", "step": 1200, "loss": 0.5, "rate": 3.1, "quiet": 2, "procs": 2, "cpu": 812.0,
    "mem": 2048, "lim": 4096, "disks": [[50.0, 1024, 12.5], [1.0, 10, None]],
    "gpus": [[97, 20480, 687, 54, 1500, 4], [3, 1024, 80, 34, 345, 1]], "m": {"val_loss": 0.7}, "a": ["gpu_hot 0"],
}  # fmt: skip


class Box:
    """An engine that answers with what it was given."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.observe = self

    def series(self, run: str, last_s: int = 0) -> Any:
        return iter(self.answers)


def seen(*records: Any, **more: Any) -> Measured:
    box = Box({"records": list(records)}, {"now_unix": 2000.0, **more})
    return read_series(box, "run", 0)  # type: ignore[arg-type]


# ---------------------------------------------------------------- curves


def test_the_usual_figures_are_drawn_as_far_as_they_were_measured() -> None:
    found = curves_of(seen(RECORD, newest={"disks": [{"role": "state"}, {"role": "shm"}]}))
    named = [(curve.panel, curve.name, curve.points[0][1]) for curve in found]
    assert named == [
        ("loss", "loss", 0.5),
        ("loss", "val_loss", 0.7),
        ("gpu", "card 0", 97.0),
        ("gpu", "card 1", 3.0),
        ("mem", "mem", 50.0),
        ("disk", "state", 50.0),
        ("disk", "shm", 1.0),
        ("step-rate", "step-rate", 3.1),
    ]
    assert [curve.panel for curve in curves_of(seen({"t": 1.0, "loss": 2}))] == ["loss"]


def test_a_metric_of_the_log_is_asked_for_by_its_name() -> None:
    (curve,) = curves_of(seen(RECORD), ["val_loss"])
    assert curve.points == ((1000.0, 0.7),)


@pytest.mark.parametrize(
    ("what", "value", "unit"),
    [("gpu-mem", 20.0, "GiB"), ("power", 687.0, "W"), ("temperature", 54.0, "C"), ("clock", 1500.0, "MHz"),
     ("mem-gib", 2.0, "GiB"), ("disk-free", 1.0, "GiB"), ("inodes", 12.5, "%"), ("cpu", 812.0, "%")],
)  # fmt: skip
def test_every_figure_comes_in_its_unit(what: str, value: float, unit: str) -> None:
    curve = curves_of(seen(RECORD), [what])[0]
    assert (curve.points[0][1], curve.unit) == (value, unit)


def test_what_was_not_measured_is_refused_with_what_there_is() -> None:
    with pytest.raises(UserError) as caught:
        curves_of(seen({"t": 1.0, "loss": 2, "m": {"lr": 1}}), ["gpu", "power"])
    assert caught.value.code == "plot.nothing" and "gpu, power" in caught.value.message
    assert "loss, lr" in caught.value.hint
    assert "1 reading in" in caught.value.seen


def test_what_was_measured_is_drawn_though_something_else_was_not() -> None:
    assert [curve.panel for curve in curves_of(seen({"t": 1.0, "loss": 2}), ["loss", "gpu"])] == ["loss"]


def test_a_loss_that_is_no_number_is_a_hole_in_its_curve() -> None:
    (curve,) = curves_of(seen({"t": 1.0, "loss": 2}, {"t": 2.0, "loss": None}), ["loss"])
    assert curve.points == ((1.0, 2.0), (2.0, None))


def test_nonsense_from_a_box_draws_nothing_and_breaks_nothing() -> None:
    odd = [
        7, None, [], {"t": "now"}, {"t": True}, {"t": float("nan")}, {"t": 5.0, "loss": "low", "gpus": "many", "m": 3},
        {"t": 6.0, "gpus": [None, "x", [True], [[1]]], "disks": [[]], "mem": "much", "lim": 0}, {"t": 7.0, "step": 1},
    ]  # fmt: skip
    found = curves_of(seen(*odd, newest=[1], health="bad"))
    assert [curve.panel for curve in found] == []
    assert [curve.points for curve in curves_of(seen(*odd), ["step"])] == [((7.0, 1.0),)]


def test_a_box_that_never_stops_sending_is_cut_off() -> None:
    record = {"t": 1.0}
    endless = Box(*[{"records": [record] * 5000}] * 100)
    assert len(read_series(endless, "run", 0).records) < 30_000  # type: ignore[arg-type]


# ---------------------------------------------------------------- patrol records


def test_there_is_one_record_a_minute_and_the_running_minute_waits() -> None:
    records = seen(*[{"t": 600.0 + second, "step": second} for second in range(0, 150, 5)])
    assert [one["t"] for one in last_of_minutes(records, 0.0, whole=True)] == [655.0, 715.0, 745.0]
    assert [one["t"] for one in last_of_minutes(records, 0.0, whole=False)] == [655.0, 715.0]
    assert [one["t"] for one in last_of_minutes(records, 655.0, whole=False)] == [715.0]


def test_a_minute_has_the_cards_as_last_read_in_it() -> None:
    asked = {"t": 600.0, "gpus": [[97, 1, 2, 3, 4, 0]]}
    first, second = last_of_minutes(seen(asked, {"t": 605.0}, {"t": 660.0}), 0.0, whole=True)
    assert first["gpus"] == asked["gpus"] and "gpus" not in second


# ---------------------------------------------------------------- the newest sample


def beat(**sample: Any) -> dict[str, Any]:
    return {"beat_unix": 1010.0, "readings": {"t": 1000.0, **sample}, "health": {"alarms": ["memory"]}}


def test_a_fresh_sample_is_spelled_for_the_screen() -> None:
    disks = [
        {"path": "/a", "total_bytes": 100, "free_bytes": 50, "total_inodes": 9, "free_inodes": 8},
        {"path": "/b", "total_bytes": 100, "free_bytes": 3, "bytes_full_in_s": 60},
    ]
    card = {"name": "H200", "util_percent": 9, "reasons": ["idle", "hw_slowdown"], "ours": 1,
            "others": [{"pid": 7, "name": "x"}], "power_w": 80.5}  # fmt: skip
    said = newest(beat(disks=disks, gpus=[card], trainer={"rss_bytes": 5}, memory={"used_bytes": 1, "limit_bytes": 2}))
    assert (said["disk_path"], said["disk_free_bytes"], said["disk_full_in_s"]) == ("/b", 3, 60)
    assert said["gpus"] == [
        {"name": "H200", "util": 9, "power": 80.5, "slowed": ["hw_slowdown"], "others": ["x (pid 7)"]}
    ]
    assert said["alarms"] == ["memory"] and said["trainer_rss_bytes"] == 5


def test_the_runs_own_disk_is_shown_while_none_is_nearly_full() -> None:
    disks = [{"path": "/a", "total_bytes": 100, "free_bytes": 90}, {"path": "/b", "total_bytes": 100, "free_bytes": 20}]
    assert newest(beat(disks=disks))["disk_path"] == "/a"


@pytest.mark.parametrize(
    "value",
    [{}, {"beat_unix": 1.0}, {"beat_unix": 1.0, "readings": 3}, {"beat_unix": 1040.0, "readings": {"t": 1000.0}}],
)
def test_an_old_or_absent_sample_is_none(value: dict[str, Any]) -> None:
    assert newest(value) == {}


def test_nonsense_in_a_sample_is_left_out() -> None:
    said = newest(beat(disks="full", gpus=[3, {"reasons": 5, "others": 1}], memory=[], trainer=None))
    assert said == {"gpus": [{}], "alarms": ["memory"]}


def test_alarms_are_told_with_what_was_seen_and_what_to_do() -> None:
    event = {"k": "alarm_raised", "level": "alarm", "what": "/data is 96 % full", "seen": "x", "hint": "prune"}
    assert describe(event) == "ALARM: /data is 96 % full\n  seen: x\n  hint: prune"
    over = {"k": "alarm_cleared", "name": "disk_bytes", "where": "/data", "seen": "80 %"}
    assert describe(over) == "alarm over: disk bytes /data (80 %)"
