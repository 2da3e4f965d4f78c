"""The ladder of a vanished process: each rung with its evidence, in order, and unknown where nothing is known."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.failure.who_killed_it import CLOCK_TOLERANCE_S, VERDICTS, Vanished, descend
from tests.support.examples import MANY

KILL, TERM, HUP = int(signal.SIGKILL), int(signal.SIGTERM), int(signal.SIGHUP)
SAME = {"boot_then": "a" * 36, "boot_now": "a" * 36}


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (Vanished(lost=True, boot_then="a", boot_now="b"), "reboot"),
        (Vanished(lost=True, boot_then="a", boot_now="b", noticed="SIGTERM"), "preempted"),
        (Vanished(signal=KILL, oom_kills_then=2, oom_kills_now=3, **SAME), "oom"),
        (Vanished(lost=True, oom_kills_then=0, oom_kills_now=1, **SAME), "oom"),
        (Vanished(signal=KILL, kernel=("Out of memory: Killed process 7 (python)",)), "oom"),
        (Vanished(code=1, kernel=("Memory cgroup out of memory: Killed process 7",)), "oom"),
        (Vanished(signal=TERM, noticed="SIGTERM"), "preempted"),
        (Vanished(signal=TERM, all_told=True), "preempted"),
        (Vanished(signal=KILL, age_s=32400.0, clocks=(("session", 32400.0 + CLOCK_TOLERANCE_S),)), "walltime"),
        (Vanished(signal=HUP), "hangup"),
        (Vanished(signal=KILL, oom_kills_then=2, oom_kills_now=2, **SAME), "killed"),
        (Vanished(signal=KILL), "killed"),
        (Vanished(signal=TERM), "killed"),
        (Vanished(signal=TERM, stalled=True), "stalled"),
        (Vanished(signal=int(signal.SIGSEGV)), "crashed"),
        (Vanished(code=3), "exited"),
        (Vanished(code=1, oom_kills_then=0, oom_kills_now=1), "exited"),
        (Vanished(lost=True, **SAME), "unknown"),
        (Vanished(lost=True), "unknown"),
    ],
)
def test_each_end_has_its_rung(facts: Vanished, word: str) -> None:
    verdict = descend(facts)
    assert (verdict.word, bool(verdict.evidence)) == (word, True)


def test_a_clock_that_is_further_off_than_the_tolerance_decides_nothing() -> None:
    facts = Vanished(signal=KILL, age_s=32400.0, clocks=(("session", 32401.0 + CLOCK_TOLERANCE_S),))
    assert descend(facts).word == "killed"


def test_an_unreadable_rung_clears_nothing_and_says_so() -> None:
    said = " ".join(descend(Vanished(signal=KILL)).evidence)
    assert "oom_kill counter could not be read" in said
    assert "kernel's log may not be read" in said


facts = st.builds(
    Vanished,
    code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 31),
    lost=st.booleans(),
    boot_then=st.sampled_from(["", "a", "b"]),
    boot_now=st.sampled_from(["", "a", "b"]),
    oom_kills_then=st.none() | st.integers(0, 3),
    oom_kills_now=st.none() | st.integers(0, 3),
    stalled=st.booleans(),
    kernel=st.sampled_from([(), ("Out of memory: Killed process 7",), ("something else",)]),
    kernel_readable=st.booleans(),
    noticed=st.sampled_from(["", "SIGTERM"]),
    all_told=st.booleans(),
    age_s=st.none() | st.floats(0, 1e6),
    clocks=st.sampled_from([(), (("session", 1000.0),), (("a", 5.0), ("b", 90000.0))]),
)


@MANY
@given(facts)
def test_whatever_is_known_there_is_one_verdict(seen: Vanished) -> None:
    assert descend(seen).word in VERDICTS


@MANY
@given(facts)
def test_memory_is_blamed_only_where_the_kernel_killed(seen: Vanished) -> None:
    if descend(seen).word == "oom":
        counted = seen.oom_kills_now is not None and seen.oom_kills_now > 0
        assert counted or any("memory" in line for line in seen.kernel)
