"""The smoke gate and the launch probe: what counts as a bad start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leasehold.gates.start.launching import Continuation, SmokeReadings, judge_launch, judge_smoke
from leasehold.model.run.verdict import Outcome, Verdict

TRACEBACK = """epoch 1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    model.cuda()
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
"""


def smoke(**change: Any) -> Verdict:
    return judge_smoke(SmokeReadings(**{"command": "python t.py --steps 3", "code": 0, "output": "step 1\n", **change}))


def against(verdict: Verdict) -> list[str]:
    return [finding.what for finding in verdict.against()]


def test_a_clean_smoke_passes_and_says_what_it_saw() -> None:
    verdict = smoke(loss=0.25, loaded=2)
    assert verdict.passed
    assert [finding.what for finding in verdict.findings] == [
        "`python t.py --steps 3` exited with 0",
        "no traceback",
        "loss seen: 0.25",
        "2 artifacts of the smoke load as promised",
    ]


def test_a_bad_exit_is_refused_and_its_missing_artifacts_are_not_the_news() -> None:
    assert against(smoke(code=1, missing=("a.pt",), unloadable=("b.pt",))) == ["`python t.py --steps 3` exited with 1"]


@pytest.mark.parametrize("loss, passes", [(0.0, True), (-3.5, True), (float("nan"), False), (float("inf"), False)])
def test_a_loss_that_is_not_finite_is_refused(loss: float, passes: bool) -> None:
    assert smoke(loss=loss).passed is passes


def test_an_unseen_loss_is_no_finding() -> None:
    assert not any("loss" in finding.what for finding in smoke(loss=None).findings)


def test_promised_artifacts_must_be_written_and_load() -> None:
    verdict = smoke(missing=("best.pt",), unloadable=("m.json does not load: empty file",), loaded=1)
    assert against(verdict) == ["best.pt: promised, and the smoke did not write it", "m.json does not load: empty file"]
    assert "$LEASE_OUT" in verdict.against()[0].hint


def test_a_smoke_that_hangs_is_told_to_be_smaller() -> None:
    verdict = smoke(code=-9, timed_out=True)
    assert against(verdict) == ["`python t.py --steps 3` exited with -9", "the smoke did not end in time"]


# ---------------------------------------------------------------- killed and started again

KILLED = Continuation(True, 0, "step 3", "step 1", "step 1", wrote=True)
AGAIN = "killed at step 3 and started again"
NOTHING = f"{AGAIN}: finished, but nothing shows that it continued"


@pytest.mark.parametrize(
    "change, outcome, what",
    [
        ({"killed": False}, "unknown", "the smoke ended before it could be killed: nothing shows whether it continues"),
        ({"code": 4}, "refused", f"{AGAIN}, it did not finish: exit 4"),
        ({"first_after": "step 3", "further": True}, "passed",
         f"{AGAIN}, it continued and finished: first step 1 in the first run, first step 3 in the second"),
        ({"restored_step": 2, "first_after": "step 3", "further": True}, "passed",
         f"{AGAIN}, it continued and finished: its Checkpointer restored step 2"),
        ({"restored_step": 2, "first_after": ""}, "passed",
         f"{AGAIN}, it continued and finished: its Checkpointer restored step 2"),
        ({}, "refused", f"{NOTHING}: first step of the second run was 1"),
        ({"restored_step": 2}, "refused",
         f"{NOTHING}: its Checkpointer restored step 2, yet first step of the second run was 1"),
        ({"first_after": "step 0", "from_zero": True}, "unknown", f"{NOTHING}: its progress bar began at 0"),
        ({"first_after": ""}, "unknown", f"{NOTHING}: no step or epoch was read in the second run"),
        ({"first_before": "", "reached": ""}, "unknown",
         "killed halfway and started again: finished, but nothing shows that it continued: "
         "no step or epoch was read in the first run"),
    ],
)  # fmt: skip
def test_continuing_is_read_and_not_inferred_from_exit_0(change: dict[str, Any], outcome: str, what: str) -> None:
    verdict = smoke(continuation=replace(KILLED, **change))
    assert (verdict.outcome.value, verdict.findings[-1].what) == (outcome, what)


def test_a_smoke_that_saved_nothing_before_the_kill_is_told_so() -> None:
    (finding,) = smoke(continuation=replace(KILLED, wrote=False)).against()
    assert finding.hint.startswith("no file was written before the kill; ")


def test_the_kill_check_is_a_finding_only_when_it_was_asked_for() -> None:
    assert not any("kill" in finding.what for finding in smoke().findings)


# ---------------------------------------------------------------- tracebacks


@pytest.mark.parametrize(
    "output, named",
    [
        (TRACEBACK, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
        ("Traceback (most recent call last):\nValueError: bad lr\n", "ValueError: bad lr"),
        ("Traceback (most recent call last):\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("Traceback (most recent call last):\nException: x\nError in cleanup: none\n", "Exception: x"),
        ("[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: NCCL\n", "RuntimeError: NCCL"),
        (
            "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: no\n  | OSError: a\n",
            "OSError: a",
        ),
        ("Traceback (most recent call last):\nmypkg.Oops: no\n", ""),
    ],
)
def test_a_traceback_is_refused_even_after_exit_0_with_its_last_error(output: str, named: str) -> None:
    verdict = smoke(output=output)
    assert against(verdict) == [f"a traceback: {named}" if named else "a traceback"]


@pytest.mark.parametrize(
    "output",
    ["", "the word Traceback alone", "ValueError: caught and logged", "see Traceback (most recent call last): in docs"],
)
def test_words_about_errors_are_not_a_traceback(output: str) -> None:
    assert smoke(output=output).passed


def test_a_long_error_is_cut() -> None:
    (text,) = against(smoke(output="Traceback (most recent call last):\nValueError: " + "x" * 5000))
    assert len(text) < 250


# ---------------------------------------------------------------- the launch probe


def test_a_living_trainer_that_speaks_passes() -> None:
    assert judge_launch(True, True, "step 1\n", 2.0).passed


def test_silence_is_unknown_and_not_a_pass() -> None:
    verdict = judge_launch(True, False, "", 60.0)
    assert verdict.outcome is Outcome.UNKNOWN
    assert against(verdict) == ["no output yet after 60 s"]


def test_a_dead_trainer_is_refused() -> None:
    verdict = judge_launch(False, True, "step 1\n", 2.0)
    assert verdict.outcome is Outcome.REFUSED
    assert against(verdict) == ["the trainer is gone"]
    assert "lease logs" in verdict.against()[0].hint


def test_a_traceback_beats_silence_and_life() -> None:
    verdict = judge_launch(True, False, TRACEBACK, 1.0)
    assert verdict.outcome is Outcome.REFUSED
    assert any("OutOfMemoryError" in text for text in against(verdict))
