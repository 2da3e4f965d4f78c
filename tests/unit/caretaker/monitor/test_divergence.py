"""When a training's own numbers raise an alarm, and when they do not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.monitor.alarms import Alarms
from leasehold.caretaker.monitor.divergence import LEAPT, NOT_FINITE, STEP_BACK, ZERO
from leasehold.caretaker.monitor.training_numbers import TrainingLook, on_nan
from leasehold.kit.run.run_state import CellState
from tests.unit.caretaker.run_folders import make, plan_of


class Bed:
    """A look at one cell's log, turned by hand."""

    def __init__(self, tmp_path: Path, **job: Any) -> None:
        self.folder = make(tmp_path, [], **job)
        self.events: List[Dict[str, Any]] = []
        self.alarms = Alarms(())
        self.look = TrainingLook(self.folder, plan_of(self.folder), self.note)
        self.cell = CellState()
        self.begin(1)

    def begin(self, attempt: int) -> None:
        self.cell.state, self.cell.attempt = "running", attempt
        Path(self.folder.attempt("main", attempt)).mkdir(parents=True)

    def note(self, kind: str, **facts: Any) -> None:
        self.events.append(dict(facts, k=kind))

    def prints(self, *lines: str) -> None:
        """Have the trainer print lines, and look after each."""
        for line in lines:
            with open(str(Path(self.folder.attempt("main", self.cell.attempt), "log")), "a") as file:
                file.write(line + "\n")
            self.look.step("main", self.cell, self.alarms, 0.0)

    def told(self) -> List[str]:
        kinds = {"alarm_raised": "+", "alarm_cleared": "-"}
        return [kinds[event["k"]] + event["name"] for event in self.events if event["k"] in kinds]

    @property
    def alarms_told(self) -> List[Dict[str, Any]]:
        return [event for event in self.events if event["k"] != "attempt_began"]


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def _steps(losses: List[float], start: int = 1) -> List[str]:
    return ["step %d loss %s" % (start + number, loss) for number, loss in enumerate(losses)]


def test_a_nan_after_finite_losses_is_told_at_once_and_once(bed: Bed) -> None:
    bed.prints(*_steps([1.0, 0.9, math.nan]))
    assert bed.told() == ["+" + NOT_FINITE]
    assert bed.events[0]["seen"] == "loss nan at step 3, 1 in a row; the last finite one was loss 0.9 at step 2"
    bed.prints(*_steps([math.nan] * 22, 4), *_steps([math.inf] * 3, 26))
    assert bed.told() == ["+" + NOT_FINITE]


def test_it_is_over_after_five_finite_losses_and_told_again_on_return(bed: Bed) -> None:
    bed.prints(*_steps([1.0, math.nan, 1.0, 1.0, 1.0, 1.0]))
    assert bed.told() == ["+" + NOT_FINITE]
    bed.prints(*_steps([1.0], 7))
    assert bed.told() == ["+" + NOT_FINITE, "-" + NOT_FINITE]
    bed.prints(*_steps([math.nan], 8))
    assert bed.told()[-1] == "+" + NOT_FINITE


def test_the_nan_of_a_bar_before_the_first_step_is_none(bed: Bed) -> None:
    bar = "Epoch 0:   0%%|          | %d/100 [00:00<?, ?it/s, loss=%s]"
    bed.prints(bar % (0, "nan"), bar % (0, "nan"), bar % (0, "nan"), bar % (1, "2.3"), bar % (2, "2.2"))
    assert bed.told() == []


def test_other_numbers_that_are_nan_raise_nothing(bed: Bed) -> None:
    bed.prints(*("step %d loss 0.5 grad_norm inf cer_ctc=nan val_loss: nan" % step for step in range(1, 30)))
    assert bed.told() == []


def test_a_bar_that_is_drawn_again_is_no_new_value(bed: Bed) -> None:
    bed.prints(*["step 7 loss 0.0 acc 0.0"] * 50)
    assert bed.told() == []


def test_a_loss_that_leaps_and_stays_is_told_and_over_when_it_comes_down(bed: Bed) -> None:
    bed.prints(*_steps([1.0 + number % 3 / 10 for number in range(12)]), *_steps([9.0] * 4, 13))
    assert bed.told() == []
    bed.prints(*_steps([9.0] * 10, 17))
    assert bed.told() == ["+" + LEAPT]
    assert "the median before was 1.1" in bed.events[0]["seen"]
    bed.prints(*_steps([1.0] * 5, 30))
    assert bed.told() == ["+" + LEAPT, "-" + LEAPT]


@pytest.mark.parametrize(
    "losses",
    [
        [1.0] * 15 + [20.0, 1.0] * 10,  # spikes that go away
        [0.1, 0.1, 0.1, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0],  # too early to say
        [-1.0, 1.0] * 8 + [30.0] * 10,  # crosses 0
        [1.0, 8.0] * 10 + [8.0] * 20,  # no higher than before
        [10.0 / (step + 1) for step in range(40)],  # falls
    ],
)
def test_what_is_no_leap(bed: Bed, losses: List[float]) -> None:
    bed.prints(*_steps(losses))
    assert bed.told() == []


def test_an_accuracy_of_exactly_0_is_told_once_an_attempt(bed: Bed) -> None:
    line = "step %d loss 0.5 acc %s lr 0.0 errors=0 epoch 0"
    bed.prints(*(line % (step, "0.0") for step in range(1, 20)))
    assert bed.told() == []
    bed.prints(*(line % (step, "0.0") for step in range(20, 60)))
    assert bed.told() == ["+" + ZERO]
    assert bed.events[0]["where"] == "acc" and bed.events[0]["level"] == "warn"
    bed.prints(line % (60, "0.1"), *(line % (step, "0.0") for step in range(61, 120)))
    assert bed.told() == ["+" + ZERO, "-" + ZERO]


def test_a_loss_that_fell_to_0_is_told_unless_it_converged(bed: Bed, tmp_path: Path) -> None:
    bed.prints(*_steps([2.3] + [0.0] * 25))
    assert bed.told() == ["+" + ZERO]
    other = Bed(tmp_path / "other")
    other.prints(*_steps([0.1, 0.02, 0.004, 0.001] + [0.0] * 40))
    assert other.told() == []


def test_a_resume_from_the_beginning_says_both_numbers_until_caught_up(bed: Bed) -> None:
    bed.prints(*("step %d/100 loss 1.0" % step for step in range(1, 51)))
    bed.begin(2)
    bed.prints(*("step %d/100 loss 1.0" % step for step in range(1, 50)))
    assert bed.told() == ["+" + STEP_BACK]
    assert [event["what"] for event in bed.alarms_told] == ["attempt 2 began at step 1, 50 had been reached"]
    bed.prints("step 50/100 loss 1.0")
    assert bed.told() == ["+" + STEP_BACK, "-" + STEP_BACK]


def test_a_new_caretaker_knows_what_was_reached(bed: Bed) -> None:
    bed.prints(*("step %d/100 loss 1.0" % step for step in range(1, 51)))
    bed.begin(2)
    bed.look = TrainingLook(bed.folder, plan_of(bed.folder), bed.note)
    bed.prints(*("step %d/100 loss 1.0" % step for step in range(1, 20)))
    assert bed.told() == ["+" + STEP_BACK]


def test_a_resume_from_the_last_checkpoint_is_none(bed: Bed) -> None:
    bed.prints(*("step %d/100 loss 1.0" % step for step in range(1, 60)))
    bed.begin(2)
    bed.prints("resuming from step 40", *("step %d/100 loss 1.0" % step for step in range(41, 50)))
    assert bed.told() == []


def test_a_step_that_begins_again_with_each_epoch_is_compared_by_epoch(bed: Bed) -> None:
    line = "epoch %d/9 step %d/20 loss 1.0"
    bed.prints(*(line % (epoch, step) for epoch in range(1, 4) for step in range(1, 21)), line % (4, 19))
    bed.begin(2)
    bed.prints(*(line % (4, step) for step in range(1, 10)))
    assert bed.told() == []
    bed.begin(3)
    bed.prints(*(line % (1, step) for step in range(1, 10)))
    assert [event["what"] for event in bed.alarms_told] == ["attempt 3 began at epoch 1, 4 had been reached"]


def test_another_counter_is_not_compared(bed: Bed) -> None:
    bed.prints(*("step %d/100 loss 1.0" % step for step in range(1, 51)))
    bed.begin(2)
    bed.prints(*("iter %d/50 loss 1.0" % step for step in range(1, 20)))
    assert bed.told() == []


def test_the_trainings_counter_is_compared_not_the_evaluations(bed: Bed) -> None:
    bed.prints("step 0: train loss 3.2, val loss 3.2", *["iter %d: loss 3.0" % number for number in range(0, 260, 10)])
    bed.begin(2)
    bed.prints("step 250: train loss 2.7, val loss 2.7")
    bed.prints(*["iter %d: loss 2.7" % number for number in (250, 260, 270)])
    (event,) = [event for event in bed.events if event["k"] == "attempt_began"]
    assert (event["began"], event["reached"], event["before"]) == (250, 250, 1)


def test_a_bar_drawn_at_zero_is_not_where_a_resumed_attempt_began(bed: Bed) -> None:
    bar = "  7%%|          | %d/600 [00:00<00:11, 49.3it/s]"
    bed.prints("  0%|          | 0/600 [00:00<?, ?it/s]", *[bar % number for number in range(1, 43)])
    bed.begin(2)
    bed.prints("  0%|          | 0/600 [00:00<?, ?it/s]", *[bar % number for number in (41, 46, 49)])
    (event,) = [event for event in bed.events if event["k"] == "attempt_began"]
    assert (event["began"], event["first"], event["reached"]) == (41, 1, 42)


def test_the_last_lines_of_an_attempt_are_read_without_a_line_end(bed: Bed) -> None:
    log = Path(bed.folder.attempt("main", 1), "log")
    log.write_text("step 1 loss 1.0\nstep 2 loss nan")
    bed.cell.state = "ended"
    for _ in range(2):
        bed.look.last("main", bed.cell, bed.alarms, 0.0)
    assert bed.told() == ["+" + NOT_FINITE]


def test_three_nans_in_a_row_stop_a_cell_that_wants_it_and_one_that_stays(tmp_path: Path) -> None:
    bed = Bed(tmp_path, on_nan="stop")
    bed.prints(*_steps([1.0, math.nan, 1.0, math.nan, math.nan]))
    assert [event["k"] for event in bed.events].count("nan_stop") == 0
    bed.look.step("main", bed.cell, bed.alarms, 29.0)
    assert [event["k"] for event in bed.events].count("nan_stop") == 0
    bed.look.step("main", bed.cell, bed.alarms, 31.0)
    assert [event["k"] for event in bed.events].count("nan_stop") == 1


def test_a_job_says_tell_unless_it_or_its_cell_says_otherwise() -> None:
    cells = [{"name": "a", "on_nan": "stop"}, {"name": "b"}, {"name": "c", "on_nan": "tell"}]
    assert [on_nan({"cells": cells}, name) for name in "abc"] == ["stop", "tell", "tell"]
    assert [on_nan({"cells": cells, "on_nan": "stop"}, name) for name in "abc"] == ["stop", "stop", "tell"]
    assert on_nan({}, "main") == "tell"
