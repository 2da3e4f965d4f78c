"""The live screen: what a tired person reads, on any terminal, and that the terminal survives it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

import leasehold
from leasehold.kit.text.progress import Progress, ProgressReader
from leasehold.model.lease.meter import DueClock, Loss, Meter
from leasehold.model.run.note import Note
from leasehold.model.values.money import Money
from leasehold.shells.cli.screens.live_screen import Board, WatchView, render, shows_glyphs, wants_live
from leasehold.shells.cli.term_text import display_width, sparkline
from tests.support.lives import eventually

GIB = 1 << 30
ESCAPE = re.compile(r"\x1b\[[\d;]*m")
CARD = {"name": "A100-40GB", "util": 97, "memory_used": 38 * GIB, "memory_total": 40 * GIB, "temperature": 71}
METER = Meter(
    state="running",
    since_unix=0.0,
    cost=Money.of("4.43", "USD"),
    burn=Money.of("1.98", "USD"),
    priced=True,
    projected=None,
    balance_left=None,
    balance_zero_unix=None,
    clocks=(),
    undated=(),
    box_loss=Loss(720.0, Money.of("0.396", "USD")),
    process_loss=None,
    heard_unix=0.0,
)
READINGS = {
    "disk_free_bytes": 14 * GIB,
    "disk_total_bytes": 50 * GIB,
    "inodes_free": 312_000,
    "inodes_total": 400_000,
    "memory_used_bytes": 52 * GIB,
    "memory_limit_bytes": 64 * GIB,
    "gpus": [CARD],
    "meter": METER,
}
PROGRESS = Progress(
    step=45_210,
    total=90_000,
    epoch=3,
    epochs=90,
    loss=0.3142,
    metrics={"lr": 0.0003, "acc": 0.91},
    rate_per_s=14.8,
    eta_s=3060.0,
    seen_at=0.0,
    eta_of="run",
)
VIEW = WatchView(
    run="resnet-7f3k",
    box="ssh:gpu1",
    phase="running",
    phase_s=8040,
    attempt=2,
    progress=PROGRESS,
    progress_s=2.0,
    losses=[2.0, 1.0, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3142],
    quiet_s=2.0,
    readings=READINGS,
    now_unix=1_700_000_000,  # 22:13 UTC
)


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def drawn(view: WatchView, width: int = 80, height: int = 24) -> str:
    return "\n".join(render(view, width, height, colour=False))


def changed(**what: Any) -> WatchView:
    return dataclasses.replace(VIEW, **what)


# ---------------------------------------------------------------- the picture


def test_a_running_training_at_a_glance() -> None:
    assert drawn(VIEW, 81) == (
        "────────────────────────────────────────────────────────────────────────────────\n"
        "RUNNING for 2 h 14 min   resnet-7f3k on ssh:gpu1   attempt 2\n"
        "step  ██████████░░░░░░░░░░ 50%   45,210 / 90,000   epoch 3 / 90\n"
        "time  done in 51 min, about 23:04   14.8 steps/s\n"
        "loss  0.3142   █▄▂▂▂▁▁▁ from 2   lr 0.0003   acc 0.91\n"
        "cost  4.43 USD, 1.98 USD/h   projected 6.11 USD\n"
        "      if the box dies now you lose 12 min / 0.396 USD\n"
        "box   disk ███████░░░ 14 GiB free   inodes ██░░░░░░░░ 312,000 left\n"
        "      memory ████████░░ 52 GiB of 64 GiB\n"
        "gpu 0 ██████████ 97%   38 / 40 GiB   71 C   A100-40GB\n"
        "Ctrl-C leaves the run running"
    )


def test_forty_columns_stay_readable() -> None:
    assert drawn(VIEW, 40, 20) == (
        "───────────────────────────────────────\n"
        "RUNNING for 2 h 14 min\n"
        "resnet-7f3k on ssh:gpu1   attempt 2\n"
        "step  █████░░░░ 50%   45,210 / 90,000\n"
        "      epoch 3 / 90\n"
        "time  done in 51 min, about 23:04\n"
        "      14.8 steps/s\n"
        "loss  0.3142   █▄▂▂▂▁▁▁ from 2\n"
        "      lr 0.0003   acc 0.91\n"
        "cost  4.43 USD, 1.98 USD/h\n"
        "      projected 6.11 USD\n"
        "      at risk 12 min / 0.396 USD\n"
        "box   disk ███░ 14 GiB free\n"
        "      inodes █░░░ 312,000 left\n"
        "      memory ███░ 52 GiB of 64 GiB\n"
        "gpu 0 ████ 97%   38 / 40 GiB   71 C\n"
        "      A100-40GB\n"
        "Ctrl-C leaves the run running"
    )


def test_eight_rows_keep_state_progress_end_and_the_way_out() -> None:
    view = changed(log=["step 45,208 loss 0.31", "step 45,209 loss 0.31", "step 45,210 loss 0.31"])
    assert drawn(view, 40, 8) == (
        "step 45,209 loss 0.31\n"
        "step 45,210 loss 0.31\n"
        "RUNNING for 2 h 14 min\n"
        "resnet-7f3k on ssh:gpu1   attempt 2\n"
        "step  █████░░░░ 50%   45,210 / 90,000\n"
        "time  done in 51 min, about 23:04\n"
        "loss  0.3142   █▄▂▂▂▁▁▁ from 2\n"
        "Ctrl-C leaves the run running"
    )


def test_the_log_fills_what_is_left_above() -> None:
    lines = drawn(changed(log=[f"line {number}" for number in range(100)]), 80, 24).split("\n")
    assert len(lines) == 24
    assert lines[0] == "line 87"
    assert lines[12] == "line 99"
    assert lines[-1] == "Ctrl-C leaves the run running"


def test_an_ascii_terminal_gets_ascii() -> None:
    text = drawn(changed(glyphs=False, box="ssh:显卡", log=["损失 0.3"]), 80, 24)
    assert text.isascii()
    assert "step  [##########---------] 50%" in text
    assert "loss  0.3142   #~...___ from 2" in text


def test_a_lost_link_says_since_when_and_that_the_rest_is_old() -> None:
    view = changed(
        phase="unknown", phase_s=190, was="running", seen_s=195, reason="ssh: timed out; trying again in 8 s"
    )
    assert drawn(view, 80, 7) == (
        "UNKNOWN for 3 min 10 s   resnet-7f3k on ssh:gpu1   attempt 2\n"
        "last seen running 3 min 15 s ago   below is what was known then\n"
        "ssh: timed out; trying again in 8 s\n"
        "step  ███████████████████░ 50%   45,210 / 90,000   epoch 3 / 90\n".replace(
            "███████████████████░", "██████████░░░░░░░░░"
        )
        + "time  done in 51 min when last seen   14.8 steps/s\n"
        "loss  0.3142   █▄▂▂▂▁▁▁ from 2   lr 0.0003   acc 0.91\n"
        "Ctrl-C leaves the run running"
    )


def test_a_stall_says_how_long_nothing_came() -> None:
    idle = {**READINGS, "gpus": [{**CARD, "util": 0}]}
    text = drawn(changed(phase="stalled", quiet_s=840, readings=idle))
    assert "STALLED for 2 h 14 min" in text
    assert "no output for 14 min   its GPUs are idle" in text
    assert "gpu 0 ░░░░░░░░░ 0% idle" in text


def test_the_nearest_clock_is_shown_and_red_when_near() -> None:
    due = DueClock("a powered-off instance is released", 1_700_000_000 + 86400, "wiped", ("data disk",), "top up")
    view = changed(readings={"meter": dataclasses.replace(METER, clocks=(due,))})
    assert "clock 2023-11-15 22:13 a powered-off instance is released   deletes data disk" in drawn(view, 100)
    assert "\x1b[31m2023-11-15 22:13" in "\n".join(render(view, 100, 24, colour=True))


def test_without_an_end_the_total_is_unknown_and_said_so() -> None:
    assert "projected total unknown" in drawn(changed(progress=None))


def test_a_failure_says_why_what_it_costs_and_what_is_next() -> None:
    view = changed(
        phase="failed", phase_s=60, reason="cell main failed: CUDA out of memory", hint="next: lease logs resnet-7f3k"
    )
    text = drawn(view)
    assert "FAILED 1 min ago" in text
    assert "cell main failed: CUDA out of memory" in text
    assert "the box still bills" in text
    assert "steps/s" not in text
    assert text.endswith("next: lease logs resnet-7f3k")


def test_a_full_disk_is_named_first_and_survives_short_terminals() -> None:
    view = changed(readings={**READINGS, "disk_free_bytes": GIB, "inodes_free": 300})
    assert "only 1.0 GiB free" in drawn(view, 40, 6)
    plain_inodes = changed(readings={**READINGS, "inodes_free": 300})
    assert "inodes ████ only 300 left" in drawn(plain_inodes, 40, 6)


def test_a_loss_that_is_no_number_is_shouted() -> None:
    nan = PROGRESS._replace(loss=float("nan"))
    lines = render(changed(progress=nan, losses=[1.0, 0.5, float("nan")]), 80, 24, colour=True)
    assert any("\x1b[31mnan, not a number any more\x1b[0m" in line and "█▁!" in line for line in lines)


def test_standing_alarms_are_said_first_and_survive_short_terminals() -> None:
    alarmed = dataclasses.replace(VIEW, readings={**READINGS, "alarms": ["gpu_lost 1", "disk_bytes /data"]})
    lines = render(alarmed, 100, 4, colour=False)
    assert any(line.startswith("alarm ") and "gpu lost 1" in line and "disk bytes /data" in line for line in lines)
    over = dataclasses.replace(alarmed, phase="finished")
    assert not any("gpu lost" in line for line in render(over, 100, 30, colour=False))


def test_what_will_be_full_within_hours_is_foretold() -> None:
    soon = {**READINGS, "disk_full_in_s": 2400, "memory_full_in_s": 86400 * 3}
    text = "\n".join(render(dataclasses.replace(VIEW, readings=soon), 120, 30, colour=False))
    assert "14 GiB free, full in 40 min" in text
    assert text.count("full in") == 1  # three days from now is no news


def test_a_card_says_its_power_what_slows_it_and_who_shares_it() -> None:
    card = {**CARD, "power": 687.1, "slowed": ["hw_thermal_slowdown"], "others": ["miner (pid 7)"]}
    text = "\n".join(render(dataclasses.replace(VIEW, readings={**READINGS, "gpus": [card]}), 160, 30, colour=False))
    assert "687 W" in text and "throttled hw thermal slowdown" in text and "shared with miner (pid 7)" in text


def test_many_cards_share_one_row_and_the_idle_one_is_named() -> None:
    cards = [{**CARD, "util": util} for util in (97, 96, 98, 0, 97, 95, 96, 97)]
    assert "gpus  ███▁████ 84%   gpu 3 idle   304 / 320 GiB   up to 71 C   8 x A100-40GB" in drawn(
        changed(readings={"gpus": cards})
    )


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (Progress(), "none seen in the log yet"),
        (Progress(step=450, rate_per_s=0.25), "step  450\ntime  4 s a step"),
        (
            Progress(epoch=5, epochs=20, eta_s=900.0, eta_of="run"),
            "25%   epoch 5 / 20\ntime  done in 15 min, about 22:28",
        ),
        (Progress(step=1, total=9, eta_s=30.0, eta_of="epoch"), "this epoch in 28 s, about 22:13"),
        (Progress(step=9, total=9, eta_s=0.0, eta_of="run"), "done any moment"),
        (Progress(step=9, total=9, restarts=2), "went back 2x"),
    ],
)
def test_what_the_log_does_not_say_is_not_invented(progress: Progress, expected: str) -> None:
    assert expected in drawn(changed(progress=progress, losses=(), readings={}))


def test_an_end_that_did_not_come_is_not_promised_again() -> None:
    assert "done was due 9 min ago" in drawn(changed(progress_s=3600.0))


@pytest.mark.parametrize("width", [1, 8, 20, 40, 79, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 8, 24, 60])
def test_nothing_is_wider_or_taller_than_the_terminal(width: int, height: int) -> None:
    odd = changed(
        run="训练-结果-" * 5,
        box="e\u0301" * 40,
        reason="很长的原因 " * 30,
        log=["表" * 300, "\t" * 30, "x" * 500],
        phase="failed",
    )
    for view in (VIEW, odd, changed(phase="unknown", readings={}, progress=None)):
        lines = render(view, width, height, colour=True)
        assert 1 <= len(lines) <= height
        assert all(display_width(ESCAPE.sub("", line)) <= max(8, width - 1) for line in lines)


def test_no_escape_from_a_box_reaches_the_terminal() -> None:
    evil = "a\x1b[2J\x1b]0;pwned\x07\x9b31m\x07b\u202ec\r\nd"
    metrics = PROGRESS._replace(metrics={evil: 1.0})
    view = changed(run=evil, box=evil, reason=evil, log=[evil], progress=metrics, readings={"gpus": [{"name": evil}]})
    for line in render(view, 200, 40, colour=True):
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", ESCAPE.sub("", line))


@pytest.mark.parametrize("bad", ["many", None, float("nan"), [], {}, True])
def test_readings_that_are_no_numbers_are_left_out(bad: Any) -> None:
    readings = dict.fromkeys(READINGS, bad)
    assert drawn(changed(readings=readings)) == drawn(changed(readings={}))
    assert drawn(changed(readings={"gpus": [dict.fromkeys(CARD, bad), bad, {}]}))


def test_a_sparkline_shows_the_trend_in_spite_of_a_peak() -> None:
    assert sparkline([100.0] + [10.0 - number for number in range(10)], 11) == "██▇▆▆▅▄▃▃▂▁"
    assert sparkline([1.0, 1.0], 10) == "▁▁"
    assert len(sparkline([float(number) for number in range(256)], 40)) == 40


# ---------------------------------------------------------------- from notes to the picture


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> Board:
    return Board("run-1", "local", ProgressReader, clock, clock)


def event(kind: str, **data: Any) -> Note:
    return Note("event", kind.replace("_", " "), {"k": kind, **data})


def log(text: str, key: str = "main/1") -> Note:
    return Note("log", text, {"log": key})


def start(board: Board, *cells: str) -> None:
    board.take(event("run_opened", cells=list(cells or ("main",)), t=1_700_000_000.0))
    for cell in cells or ("main",):
        board.take(event("attempt_started", cell=cell, attempt=1, t=1_700_000_001.0))


def test_events_move_the_phase(board: Board, clock: Clock) -> None:
    assert board.view().phase == "launching"
    start(board)
    clock.now += 61
    assert (board.view().phase, board.view().phase_s, board.view().attempt) == ("running", 60, 1)
    board.take(event("attempt_ended", cell="main", attempt=1, code=1))
    assert board.view().phase == "launching"
    board.take(event("attempt_started", cell="main", attempt=2))
    assert (board.view().phase, board.view().attempt) == ("running", 2)
    board.take(event("cell_failed", cell="main", why="exit code 1"))
    board.take(event("run_failed", reason="a cell failed"))
    assert (board.view().phase, board.view().reason) == ("failed", "exit code 1")
    assert board.view().hint == "next: lease logs run-1"
    board.take(event("resumed"))
    assert (board.view().phase, board.view().reason) == ("launching", "")


def test_a_sweep_counts_its_cells_and_names_them_in_the_log(board: Board) -> None:
    start(board, "a", "b", "c")
    board.take(log("step 1 loss 2\n", "a/1"))
    board.take(event("cell_finished", cell="a"))
    board.take(event("cell_failed", cell="b", why="no"))
    assert board.view().cells[:3] == (1, 1, 3)
    assert board.view().phase == "running"
    assert "a: step 1 loss 2" in board.drain(last=False)
    assert "1 of 3 cells done, 1 failed" in drawn(board.view())
    assert "cells ●✗▶   ▶ c" in drawn(board.view())


def test_cells_that_join_or_leave_a_sweep_are_counted(board: Board) -> None:
    start(board, "a", "b")
    board.take(event("cells_added", cells=["c", "d"]))
    board.take(event("cells_released", cells=["b"]))
    assert (board.view().cells.promised, list(board.view().cells.states)[1:]) == (3, ["", ""])


def test_many_cells_are_a_bar_and_few_of_those_that_run_are_named(board: Board) -> None:
    names = [f"cell-{number}" for number in range(500)]
    start(board, *names)
    for name in names[:6]:
        board.take(event("attempt_started", cell=name, pid=1, attempt=1))
    assert "cells ░" in drawn(board.view())
    assert "more run" in drawn(board.view())


def test_a_lost_link_is_unknown_until_the_box_is_heard_again(board: Board, clock: Clock) -> None:
    start(board)
    seen = clock.now
    clock.now += 30
    board.take(
        Note("unknown", "state unknown, last seen running 30 s ago: timed out; trying again", {"seen_unix": seen})
    )
    clock.now += 60
    board.take(Note("unknown", "state unknown, last seen running 90 s ago: refused; trying again", {"seen_unix": seen}))
    board.take(Note("warning", "said at home"))
    view = board.view()
    assert (view.phase, view.was, view.phase_s, view.seen_s, view.reason) == (
        "unknown",
        "running",
        60,
        90,
        "refused; trying again",
    )
    board.take(Note("link_back", "connected again"))
    assert board.view().phase == "running"


def test_a_stall_is_what_the_box_says_and_silence_alone_is_none(board: Board, clock: Clock) -> None:
    start(board)
    board.take(log("step 1 loss 2\n"))
    clock.now += 7200
    assert board.view().phase == "running"
    board.take(event("stalled", cell="main", attempt=1))
    assert board.view().phase == "stalled"
    board.take(event("stall_over", cell="main", attempt=1))
    assert board.view().phase == "running"
    board.take(event("stalled", cell="main", attempt=1))
    board.take(event("attempt_ended", cell="main", attempt=1, signal=15))
    board.take(event("attempt_started", cell="main", attempt=2, pid=7))
    assert board.view().phase == "running"


def test_log_text_becomes_progress_a_rate_and_a_history(board: Board, clock: Clock) -> None:
    start(board)
    for step in range(20):
        board.take(log(f"step {step}/100 loss {2 - step / 20}\n"))
        clock.now += 1
    view = board.view()
    assert view.progress is not None
    assert (view.progress.step, view.progress.total) == (19, 100)
    assert view.progress.rate_per_s == pytest.approx(1.0)
    assert len(view.losses) == 20


def test_redraws_replace_each_other_and_only_the_last_is_kept(board: Board) -> None:
    start(board)
    board.drain(last=False)
    for percent in (10, 20, 30):
        board.take(log(f"{percent}%|###| {percent}/100 [00:01<00:09, 10.0it/s]"))
    assert board.view().log == ["30%|###| 30/100 [00:01<00:09, 10.0it/s]"]
    assert board.view().progress.step == 30  # type: ignore[union-attr]
    assert board.drain(last=False) == []
    board.take(log("\nnext\n"))
    assert board.drain(last=False) == ["30%|###| 30/100 [00:01<00:09, 10.0it/s]", "next"]


def test_last_words_without_a_line_end_are_not_lost(board: Board) -> None:
    start(board)
    board.take(log("Segmentation fault"))
    board.take(event("attempt_ended", cell="main", attempt=1, code=139))
    lines = board.drain(last=False)
    assert lines.index("Segmentation fault") < len(lines) - 1
    board.take(log("killed"))
    assert board.drain(last=True) == ["killed"]


def test_a_flood_shows_its_end_and_says_what_it_left_out(board: Board) -> None:
    board.take(log("".join(f"line {number}\n" for number in range(10_000))))
    board.take(log("end\n"))
    lines = board.drain(last=False)
    assert lines[0] == "* 9,601 lines came too fast to show; all of them: lease logs run-1"
    assert lines[-1] == "end"
    assert len(lines) == 401


@pytest.mark.parametrize("value", ["x", None, float("inf"), float("nan"), [], {}, True])
def test_a_box_that_sends_nonsense_breaks_nothing(board: Board, value: Any) -> None:
    for kind in ("run_opened", "attempt_started", "attempt_ended", "cell_failed", "run_failed", "what"):
        board.take(
            Note("event", "?", {"k": kind, "t": value, "attempt": value, "cells": value, "cell": value, "why": value})
        )
    board.take(Note("unknown", "?", {"seen_unix": value}))
    board.take(Note("log", "x\n", {"log": value}))
    assert drawn(board.view())


# ---------------------------------------------------------------- whether to draw at all


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LANG": "en_US.UTF-8", "TERM": "xterm"}, True),
        ({"LC_ALL": "C.UTF-8", "TERM": "xterm"}, True),
        ({"LANG": "zh_CN.utf8", "LC_CTYPE": "C.UTF-8", "TERM": "xterm"}, True),
        ({"LC_CTYPE": "UTF-8", "TERM": "xterm"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8", "TERM": "xterm"}, False),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8", "TERM": "xterm"}, False),
        ({"LANG": "de_DE.ISO-8859-1", "TERM": "xterm"}, False),
        ({"LANG": "en_US.UTF-8", "TERM": "linux"}, False),
        ({}, False),
    ],
)
def test_the_locale_decides_about_glyphs(environment: dict[str, str], expected: bool) -> None:
    assert shows_glyphs(environment) is expected


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", ""), ("", "")])
def test_plain_lines_where_no_person_can_see_a_redraw(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if name:
        monkeypatch.setenv(name, value)
    child = pexpect.spawn(sys.executable, ["-c", WANTS], encoding="utf-8", timeout=60, env={**os.environ, **PATHS})
    child.expect(r"wants (True|False)")
    child.close(force=True)
    assert child.match.group(1) == str(not name)
    with open(os.devnull, "w") as file:
        assert not wants_live(file)


def test_a_job_in_the_background_does_not_draw_over_the_shell() -> None:
    environment = {**os.environ, **PATHS, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    script = f'set -m; {sys.executable} -c "{WANTS}" & wait'
    child = pexpect.spawn("bash", ["--norc", "-c", script], encoding="utf-8", timeout=60, env=environment)
    child.expect(r"wants (True|False)")
    child.close(force=True)
    assert child.match.group(1) == "False"


# ---------------------------------------------------------------- on a real terminal

WANTS = (
    "import sys; from leasehold.shells.cli.screens.live_screen import wants_live; "
    "print('wants', wants_live(sys.stderr))"
)
PATHS = {"PYTHONPATH": str(Path(leasehold.__file__).parents[1]), "LC_ALL": "C.UTF-8"}
PRELUDE = """
import os, signal, sys, time
from leasehold.kit.text.progress import ProgressReader
from leasehold.model.run.note import Note
from leasehold.shells.cli.screens.live_screen import Board, LiveScreen
def log(number): return Note("log", "step %d/1000 loss %.3f\\n" % (number, 2 - number / 1000), {"log": "main/1"})
def start(screen):
    screen.report(Note("event", "run opened", {"k": "run_opened", "cells": ["main"]}))
    screen.report(Note("event", "attempt 1 runs", {"k": "attempt_started", "cell": "main", "attempt": 1}))
def wait_until_drawn(screen):
    while not any("RUNNING" in row for row in screen._drawn):
        time.sleep(0.01)
board = Board("run-1", "ssh:gpu1", ProgressReader)
"""


@contextlib.contextmanager
def on_a_pty(program: str, folder: Path) -> Iterator[pexpect.spawn]:
    """Run the program on a bare terminal that shows nothing."""
    script = folder / "program.py"
    script.write_text(PRELUDE + program)
    environment = {**os.environ, **PATHS, "TERM": "xterm"}
    child = pexpect.spawn(sys.executable, [str(script)], env=environment, dimensions=(24, 80), timeout=60)
    try:
        yield child
    finally:
        child.close(force=True)


class Terminal:
    """A real terminal of a given size, and what it shows."""

    def __init__(self, socket: str, folder: Path) -> None:
        self._tmux = ["tmux", "-L", socket, "-f", os.devnull, "-u"]
        self._folder = folder

    def run(self, program: str, width: int = 80, height: int = 24, after: str = "sleep 60") -> None:
        script = self._folder / "program.py"
        script.write_text(PRELUDE + program)
        told = [option for name, value in PATHS.items() for option in ("-e", f"{name}={value}")]
        size = ["-x", str(width), "-y", str(height)]
        self._call("new-session", "-d", *size, *told, f"{sys.executable} {script}; {after}")
        self._call("set-option", "-g", "remain-on-exit", "on")

    def screen(self, *more: str) -> str:
        return self._call("capture-pane", "-p", *more)

    def wait_for(self, text: str, *more: str) -> str:
        return self.wait(lambda shown: text in shown, *more)

    def wait(self, ready: Callable[[str], bool], *more: str) -> str:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if ready(shown := self.screen(*more)):
                return shown
            time.sleep(0.05)
        raise AssertionError(f"never came; the screen shows:\n{self.screen(*more)}")

    def cursor_visible(self) -> bool:
        return self._call("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def press(self, *keys: str) -> None:
        self._call("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        """Give it another size, and wait until whoever asks the terminal hears of it."""
        self._call("resize-window", "-x", str(width), "-y", str(height))
        tty = os.open(self._call("display-message", "-p", "#{pane_tty}").strip(), os.O_RDONLY | os.O_NOCTTY)
        try:
            assert eventually(lambda: os.get_terminal_size(tty) == (width, height))
        finally:
            os.close(tty)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _call(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here (Debian: apt-get install tmux)")
    terminal = Terminal(f"leasehold-{os.getpid()}-{tmp_path.name}", tmp_path)
    yield terminal
    terminal.close()


def test_the_panel_stays_below_and_the_log_goes_to_the_scrollback(terminal: Terminal) -> None:
    terminal.run(
        """
with LiveScreen(board) as screen:
    start(screen)
    for number in range(0, 100):
        screen.report(log(number))
        time.sleep(0.02)
    screen.readings({"disk_free_bytes": 14 << 30, "disk_total_bytes": 50 << 30})
    time.sleep(60)
"""
    )
    shown = terminal.wait(lambda shown: "14 GiB free" in shown and one_picture(shown)).rstrip("\n").split("\n")
    assert shown[-1] == "Ctrl-C leaves the run running"
    assert shown[-5].startswith("step  █")
    assert "99 / 1,000" in shown[-5]
    assert shown[-7].startswith("RUNNING for") or shown[-6].startswith("RUNNING for")
    assert "step 99/1000 loss 1.901" in shown
    assert not terminal.cursor_visible()
    everything = terminal.wait(one_picture, "-S", "-")  # none was left behind in the log
    assert [f"step {number}/1000" in everything for number in range(100)] == [True] * 100


def one_picture(screen: str) -> bool:
    lines = screen.rstrip("\n").split("\n")
    return sum("RUNNING" in line for line in lines) == 1 and lines[-1] == "Ctrl-C leaves the run running"


def test_a_resize_leaves_one_picture(terminal: Terminal, tmp_path: Path) -> None:
    """No frame is half drawn when the size changes: the program holds a lock while it draws, and notes each frame."""
    gate, frames = tmp_path / "gate", tmp_path / "frames"
    gate.touch()
    frames.touch()
    terminal.run(
        f"""
import fcntl
class Gated(LiveScreen):
    def _draw(self, last):
        with open({str(gate)!r}, "a") as gate, open({str(frames)!r}, "a") as frames:
            fcntl.flock(gate, fcntl.LOCK_EX)
            super()._draw(last)
            frames.write(".")
with Gated(board) as screen:
    start(screen)
    gpu = dict(name="A100", util=50)
    screen.readings(dict(disk_free_bytes=9 << 30, disk_total_bytes=99 << 30, gpus=[gpu]))
    for number in range(0, 10000):
        screen.report(log(number))
        time.sleep(0.1)
"""
    )
    terminal.wait_for("RUNNING")
    for width, height in ((40, 12), (100, 30), (60, 8), (80, 24)):
        with gate.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            terminal.wait(one_picture)
            terminal.resize(width, height)
            drawn = frames.stat().st_size
        assert eventually(lambda drawn=drawn: frames.stat().st_size >= drawn + 2)  # and it stays so
    with gate.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        terminal.wait(one_picture)


ENDS = {
    "returns": ("pass", "FINE"),
    "raises": ("raise OSError('boom')", "boom"),
    "is interrupted": ("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", "KeyboardInterrupt"),
    "is terminated": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", "143"),
    "is quit": ("os.kill(os.getpid(), signal.SIGQUIT); time.sleep(9)", "131"),
    "exits": ("sys.exit(7)", "code 7"),
}


@pytest.mark.parametrize("end", list(ENDS))
def test_the_terminal_is_given_back_however_the_watch_ends(terminal: Terminal, end: str) -> None:
    how, sign = ENDS[end]
    program = f"""
with LiveScreen(board) as screen:
    start(screen)
    screen.report(log(1))
    wait_until_drawn(screen)
    {how}
print("FINE", flush=True)
"""
    terminal.run(program, after="echo code $?; stty -a | tr ' ;' '\\n\\n' | grep -x -e echo -e -echo; sleep 60")
    shown = terminal.wait_for("echo")
    assert sign in shown
    assert "-echo" not in shown
    assert terminal.cursor_visible()
    assert sum("run-1 on ssh:gpu1" in line for line in shown.split("\n")) == 1


def test_keys_pressed_meanwhile_do_not_disturb_the_picture(terminal: Terminal) -> None:
    terminal.run(
        """
with LiveScreen(board) as screen:
    start(screen)
    for number in range(1000):
        screen.report(log(number))
        time.sleep(0.1)
"""
    )
    terminal.wait_for("loss 1.999", "-S", "-")
    terminal.press("Enter", "Enter", "q", "Up", "Enter")
    lines = terminal.screen("-S", "-").count("/1000 loss")
    shown = terminal.wait(lambda shown: shown.count("/1000 loss") >= lines + 10 and one_picture(shown), "-S", "-")
    assert "^[" not in shown


def test_control_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(terminal: Terminal, tmp_path: Path) -> None:
    script = tmp_path / "inner.py"
    script.write_text(PRELUDE + "with LiveScreen(board) as screen:\n    start(screen)\n    time.sleep(60)\n")
    terminal.run("", after="PS1='ready> ' bash --norc --noprofile")
    terminal.wait_for("ready>")
    terminal.press(f"{sys.executable} {script}", "Enter")
    terminal.wait_for("RUNNING")
    terminal.press("C-z")
    terminal.wait_for("Stopped")
    assert terminal.cursor_visible()
    terminal.press("clear", "Enter")
    terminal.wait(lambda shown: "RUNNING" not in shown)
    terminal.press("fg", "Enter")
    terminal.wait_for("RUNNING")
    assert not terminal.cursor_visible()
    terminal.press("C-c")
    terminal.wait(lambda shown: terminal.cursor_visible() and "KeyboardInterrupt" in shown)


def test_the_alternate_screen_shows_the_log_and_keeps_the_old_one(terminal: Terminal) -> None:
    terminal.run(
        """
print("BEFORE", flush=True)
with LiveScreen(board, alternate=True) as screen:
    start(screen)
    for number in range(40):
        screen.report(log(number))
    while not os.path.exists("%s"):
        time.sleep(0.05)
print("AFTER", flush=True)
"""
        % (terminal._folder / "go")
    )
    shown = terminal.wait(lambda shown: "step 39/1000 loss 1.961" in shown and one_picture(shown))
    assert "BEFORE" not in shown
    (terminal._folder / "go").touch()
    shown = terminal.wait_for("AFTER")
    assert shown.index("BEFORE") < shown.index("RUNNING") < shown.index("AFTER")


def test_no_escape_of_the_log_acts_on_a_real_terminal(terminal: Terminal) -> None:
    terminal.run(
        r"""
with LiveScreen(board) as screen:
    start(screen)
    screen.report(Note("log", "one \x1b[2J\x1b[H\x1b]0;pwned\x07 \x9b2J two\u202e 表格\n", {"log": "main/1"}))
    screen.report(Note("log", "half \x1b[31", {"log": "main/1"}))
    time.sleep(60)
"""
    )
    shown = terminal.wait_for("half")
    assert "two\\u202e 表格" in shown
    assert "run opened" in shown
    assert "pwned" not in terminal._call("display-message", "-p", "#{pane_title}")


def test_a_flood_costs_few_frames_and_few_bytes(tmp_path: Path) -> None:
    program = """
begun, number = time.monotonic(), 0
with LiveScreen(board) as screen:
    start(screen)
    while time.monotonic() < begun + 1.5 or number < 5000:
        number += 1
        screen.report(log(number))
print("REPORTED in", time.monotonic() - begun, "s", flush=True)
"""
    with on_a_pty(program, tmp_path) as child:
        child.expect(rb"REPORTED in ([\d.]+) s")
        frames = child.before.count(b"\x1b[?7l")
        assert 1 <= frames <= 4 * float(child.match.group(1)) + 2  # four a second, and the last picture
        assert len(child.before) < 20_000 * (frames + 1)


def test_a_quiet_run_costs_almost_nothing_over_a_slow_link(tmp_path: Path) -> None:
    program = """
long_ago = {"t": time.time() - 7200, "cell": "main", "cells": ["main"], "attempt": 1}
with LiveScreen(board) as screen:
    screen.report(Note("event", "run opened", {"k": "run_opened", **long_ago}))
    screen.report(Note("event", "attempt 1 runs", {"k": "attempt_started", **long_ago}))
    wait_until_drawn(screen)
    print("DRAWN", flush=True)
    time.sleep(1.2)
    print("OVER", flush=True)
"""
    with on_a_pty(program, tmp_path) as child:
        child.expect(b"DRAWN")
        child.expect(b"OVER")
        assert len(child.before) < 100


def test_a_blocked_terminal_does_not_keep_a_terminated_watch_alive(tmp_path: Path) -> None:
    program = """
with LiveScreen(board) as screen:
    start(screen)
    print("GO", flush=True)
    for number in range(10**9):
        screen.report(log(number))
        time.sleep(0.0005)
"""
    with on_a_pty(program, tmp_path) as child:
        child.expect(b"GO")
        time.sleep(1.5)  # nobody reads: the terminal's buffer fills and the painter blocks
        child.kill(signal.SIGTERM)
        until = time.monotonic() + 60
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while time.monotonic() < until and os.waitid(os.P_PID, child.pid, how) is None:
            time.sleep(0.05)
        assert os.waitid(os.P_PID, child.pid, how) is not None
        child.wait()
        assert child.signalstatus == signal.SIGTERM


def test_a_defect_in_drawing_is_raised_and_the_terminal_still_given_back(terminal: Terminal) -> None:
    program = """
class Broken(Board):
    def view(self):
        raise RuntimeError("a defect of ours")
with LiveScreen(Broken("run-1", "ssh:gpu1", ProgressReader)) as screen:
    for number in range(1000):
        screen.report(log(number))
        time.sleep(0.05)
"""
    terminal.run(program, after="stty -a | tr ' ;' '\\n\\n' | grep -x -e echo -e -echo; sleep 60")
    shown = terminal.wait_for("echo")
    assert "RuntimeError: a defect of ours" in shown
    assert "-echo" not in shown
    assert terminal.cursor_visible()


def test_a_run_that_waits_in_a_queue_says_why_until_it_runs() -> None:
    board = Board("toy-1", "cluster", ProgressReader, clock=lambda: 100.0)
    board.take(Note("event", "", {"k": "run_opened", "t": 1.0, "cells": ["main"]}))
    seen = {
        "k": "tasks_seen",
        "tasks": {"main": "7_0"},
        "state": "PENDING",
        "reason": "Priority",
        "why": "others first",
    }
    board.take(Note("event", "", seen))
    assert board.view().reason == "others first"
    board.take(Note("event", "", {"k": "attempt_started", "cell": "main", "attempt": 1, "t": 2.0}))
    assert board.view().reason == ""
