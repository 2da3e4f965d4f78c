"""Limits of waiting: they belong to one command, and of many waits for one box only one is reported."""

from __future__ import annotations

import time

import pytest

from leasehold.errors import LinkError
from leasehold.transport.patience import ANSWER_S, BULK_S, ENDLESS, FIRST_WORD_S, Waiting, WaitLimits


def _long_silent(limits: WaitLimits, box: str, limit_s: float = float("inf")) -> Waiting:
    waiting = Waiting(limits, box, "the first word", limit_s)
    waiting._since = time.monotonic() - 60.0
    return waiting


def test_a_command_without_wait_takes_the_defaults() -> None:
    usual = WaitLimits.of_command(None, lambda text: None)
    bulk = WaitLimits.of_command(None, lambda text: None, bulk=True)
    assert (usual.first_word_s, usual.answer_s, bulk.answer_s) == (FIRST_WORD_S, ANSWER_S, BULK_S)


def test_wait_limits_the_first_word_and_every_answer() -> None:
    limits = WaitLimits.of_command(7.0, lambda text: None, bulk=True)
    assert (limits.first_word_s, limits.answer_s, limits.bounded) == (7.0, 7.0, True)


def test_limits_of_one_command_do_not_reach_another() -> None:
    heard: list[str] = []
    WaitLimits.of_command(7.0, heard.append)
    assert not ENDLESS.bounded
    _long_silent(ENDLESS, "gpu1").look()
    assert heard == []


def test_of_many_waits_for_one_box_only_one_is_reported() -> None:
    heard: list[str] = []
    limits = WaitLimits.of_command(90.0, heard.append)
    for box in ("gpu1", "gpu1", "gpu2", "gpu1"):
        _long_silent(limits, box, 90.0).look()
    assert heard == [
        f"waiting for the first word of {box}: silent for 60 s of at most 90 s" for box in ("gpu1", "gpu2")
    ]


def test_too_long_a_silence_ends_the_wait() -> None:
    with pytest.raises(LinkError, match="no answer within 30 s"):
        _long_silent(ENDLESS, "gpu1", 30.0).require()


def test_a_box_that_was_heard_meanwhile_is_waited_for() -> None:
    _long_silent(ENDLESS, "gpu1", 30.0).require(heard=time.monotonic())
