"""One patrol reading as a line; the box may have sent anything."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.shells.cli.screens.patrol_line import patrol_line

RECORD = {
    "n": 1, "t": 1000.0, "s": "running", "step": 1200, "loss": 0.5, "rate": 3.1, "quiet": 2, "procs": 2, "cpu": 812.0,
    "mem": 2048, "lim": 4096, "disks": [[50.0, 1024, 12.5], [1.0, 10, None]],
    "gpus": [[97, 20480, 687, 54, 1500, 4], [3, 1024, 80, 34, 345, 1]], "m": {"val_loss": 0.7}, "a": ["gpu_hot 0"],
}  # fmt: skip


def test_a_line_says_everything_at_a_glance() -> None:
    line = patrol_line(RECORD)
    for part in (
        "running", "step 1,200 (3.1/s)", "loss 0.5", "quiet 2 s", "2 processes 812% cpu", "gpu0 97% 20 GiB 687 W 54 C",
        "gpu1 3%", "mem 2.0/4 GiB", "disk 50% inodes 12%", "disk 1%", "ALARMS: gpu_hot 0",
    ):  # fmt: skip
        assert part in line


@pytest.mark.parametrize(
    "odd", [{"loss": "low", "gpus": "many", "m": 3}, {"gpus": [None, "x", [True], [[1]]], "disks": [[]], "mem": "much"}]
)
def test_nonsense_from_a_box_still_gives_a_line(odd: dict[str, Any]) -> None:
    assert "0 processes" in patrol_line({"t": 5.0, **odd})


def test_a_line_cannot_move_the_cursor() -> None:
    assert "\x1b" not in patrol_line({"t": 1.0, "s": "\x1b[2J", "a": ["\x1b]0;x"]})
