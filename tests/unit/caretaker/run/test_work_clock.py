"""Trained time, and what of it is saved: pauses do not count, and looking costs little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.run import work_clock
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.work_clock import WorkClock, newest, stretches, trained_s
from leasehold.kit.files import globbing
from leasehold.kit.run.run_state import fold

T = 1_800_000_000.0


def event(kind: str, after: float, **data: Any) -> Dict[str, Any]:
    return {"k": kind, "t": T + after, "cell": "main", **data}


def life(*more: Dict[str, Any]) -> List[Dict[str, Any]]:
    begun = [
        {"k": "run_opened", "t": T, "cells": ["main"]},
        event("attempt_starting", 1, attempt=1),
        event("attempt_started", 3, at=T + 2),
        *more,
    ]
    return [dict(item, n=number) for number, item in enumerate(begun, 1)]


PAUSED = (event("attempt_ended", 500, at=T + 102, signal=9), event("attempt_started", 1002, at=T + 1002))


def clock(tmp_path: Path, path: str = "last.pt") -> WorkClock:
    folder = RunFolder.below(str(tmp_path), "toy-1")
    os.makedirs(folder.out("main"))
    return WorkClock(folder, {"job": {"checkpoint": {"path": path}}})


def save(tmp_path: Path, at: float, name: str = "last.pt") -> None:
    path = Path(RunFolder.below(str(tmp_path), "toy-1").out("main"), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (T + at, T + at))


def test_pauses_between_attempts_are_not_trained_time() -> None:
    spans = stretches(life(*PAUSED))["main"]
    assert trained_s(spans, T + 1052) == pytest.approx(150)
    assert trained_s(spans, T + 1052, T + 52) == pytest.approx(100), "50 s of the first attempt and 50 of the second"
    assert trained_s(spans, T + 1052, T + 500) == pytest.approx(50)


def test_what_was_trained_since_the_newest_checkpoint_is_unsaved(tmp_path: Path) -> None:
    save_clock = clock(tmp_path)
    save(tmp_path, 52)
    events = life(*PAUSED)
    said = save_clock.figures(events, fold(events), T + 1052)
    assert said == {"training": True, "trained_s": 150.0, "open_s": 1052.0, "unsaved_s": 100.0}


def test_a_run_that_is_about_to_start_counts_as_training(tmp_path: Path) -> None:
    events = life()[:1]
    said = clock(tmp_path).figures(events, fold(events), T + 1)
    assert said == {"training": True, "trained_s": 0, "open_s": 1.0, "unsaved_s": 0}


def test_a_promised_checkpoint_that_is_not_there_saves_nothing(tmp_path: Path) -> None:
    events = life()
    assert clock(tmp_path).figures(events, fold(events), T + 102)["unsaved_s"] == 100.0


def test_a_job_that_names_no_checkpoint_leaves_it_unknown(tmp_path: Path) -> None:
    events = life()
    assert "unsaved_s" not in clock(tmp_path, "").figures(events, fold(events), T + 102)


def test_a_finished_cell_has_nothing_unsaved_though_it_is_not_home(tmp_path: Path) -> None:
    events = life(
        event("attempt_ended", 102, at=T + 102, code=0), event("cell_finished", 102), event("run_finished", 102)
    )
    said = clock(tmp_path).figures(events, fold(events), T + 5000)
    assert (said["training"], said["trained_s"], said["unsaved_s"]) == (False, 100.0, 0.0)


def test_a_copy_on_a_lasting_tier_counts_from_the_state_that_was_copied(tmp_path: Path) -> None:
    events = life(event("durable_copied", 90, state_unix=T + 82))
    assert clock(tmp_path).figures(events, fold(events), T + 102)["uncopied_s"] == 20.0


@pytest.mark.parametrize(
    "pattern, found", [("last.pt", 5), ("ckpt", 9), ("ckpt/*.pt", 7), ("**/*.bin", 9), ("none/*.pt", 0), ("no.pt", 0)]
)
def test_the_newest_file_a_pattern_names(tmp_path: Path, pattern: str, found: float) -> None:
    clock(tmp_path)
    for name, at in (("last.pt", 5), ("ckpt/1.pt", 6), ("ckpt/2.pt", 7), ("ckpt/deep/x.bin", 9)):
        save(tmp_path, at, name)
    root = RunFolder.below(str(tmp_path), "toy-1").out("main")
    assert newest(root, pattern) == (T + found if found else 0.0)


def test_a_folder_of_very_many_files_is_not_searched_to_its_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(work_clock, "_MOST_ENTRIES", 10)
    for number in range(200):
        (tmp_path / ("%03d.pt" % number)).write_text("")
    seen = []
    real = globbing.walk
    monkeypatch.setattr(globbing, "walk", lambda root: (seen.append(found) or found for found in real(root)))
    newest(str(tmp_path), "*.pt")
    assert len(seen) < 20


def test_the_disk_is_looked_at_seldom(tmp_path: Path) -> None:
    seldom = clock(tmp_path)
    events = life()
    save(tmp_path, 10)
    first = seldom.figures(events, fold(events), T + 102)["unsaved_s"]
    save(tmp_path, 100)
    assert (first, seldom.figures(events, fold(events), T + 102)["unsaved_s"]) == (92.0, 92.0)
