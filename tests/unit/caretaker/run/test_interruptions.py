"""The mean time between interruptions, from the journal: what counts, what does not, and what is assumed before."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from leasehold.caretaker.run.interruptions import gap_s, interruptions
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.run.cadence import QUIET_GAP_S

T = 1_800_000_000.0
HOUR = 3600.0


def attempt(begin: float, end: float, **how: Any) -> List[Dict[str, Any]]:
    started = {"k": "attempt_started", "t": T + begin, "at": T + begin, "cell": "main"}
    return [started, {"k": "attempt_ended", "t": T + end, "at": T + end, "cell": "main", **how}]


def run_folder(tmp_path: Path, events: List[Dict[str, Any]], platform: Optional[Dict[str, Any]] = None) -> RunFolder:
    folder = RunFolder.below(str(tmp_path), "toy-1")
    os.makedirs(folder.path)
    lines = [json.dumps(dict(event, n=number)) + "\n" for number, event in enumerate(events, 1)]
    Path(folder.journal).write_text("".join(lines))
    Path(folder.environment).write_text(json.dumps(platform or {}))
    return folder


@pytest.mark.parametrize(
    ("how", "count"),
    [({"signal": 9}, 1), ({"lost": True}, 1), ({"code": 143, "signal": 15}, 1), ({"code": 1}, 0), ({"code": 0}, 0)],
)
def test_only_what_came_from_outside_counts(how: Dict[str, Any], count: int) -> None:
    assert interruptions(attempt(0, HOUR, **how)) == count


def test_a_wished_stop_is_no_interruption_but_a_kill_after_resume_is() -> None:
    stopped = [{"k": "stop_requested"}, *attempt(0, HOUR, signal=15), {"k": "run_stopped"}]
    assert interruptions(stopped) == 0
    assert interruptions([*stopped, {"k": "resumed"}, *attempt(HOUR, 2 * HOUR, signal=9)]) == 1


def test_before_the_first_interruption_the_platform_is_believed(tmp_path: Path) -> None:
    assert gap_s(run_folder(tmp_path / "spot", [], {"gap_s": 3 * HOUR}), T) == 3 * HOUR
    assert gap_s(run_folder(tmp_path / "quiet", []), T) == QUIET_GAP_S
    assert gap_s(run_folder(tmp_path / "odd", [], {"gap_s": "soon"}), T) == QUIET_GAP_S


def test_interruptions_shorten_the_gap_and_trained_time_lengthens_it(tmp_path: Path) -> None:
    killed = [event for n in range(4) for event in attempt(10 * n * HOUR, (10 * n + 1) * HOUR, signal=9)]
    assert gap_s(run_folder(tmp_path / "killed", killed), T) == (QUIET_GAP_S + 4 * HOUR) / 5
    calm = attempt(0, 97 * HOUR, lost=True)
    assert gap_s(run_folder(tmp_path / "calm", calm, {"gap_s": 3 * HOUR}), T) == 50 * HOUR
