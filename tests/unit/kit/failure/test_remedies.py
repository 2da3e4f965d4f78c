"""One remedy for each class; nothing is retried blindly, and every bound holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.failure.classes import CLASSES
from leasehold.kit.failure.remedies import GOES_ON, WAITS_S, Ended, choose, wait_s
from leasehold.kit.failure.who_killed_it import VERDICTS
from tests.support.examples import MANY

FRESH = Ended("probabilistic", "exited", tries=1, most=3)


@pytest.mark.parametrize(
    ("ended", "remedy"),
    [
        (FRESH, "again"),
        (FRESH._replace(repeats=2), "stop"),
        (FRESH._replace(tries=3), "stop"),
        (FRESH._replace(klass="transport"), "again"),
        (FRESH._replace(verdict="killed"), "again"),
        (Ended("bug", "exited", 1, 3), "stop"),
        (Ended("bug", "oom", 1, 3), "stop"),
        (Ended("hardware", "exited", 1, 3), "rent_again"),
        (Ended("disk_full", "exited", 1, 3), "ask"),
        (Ended("disk_full", "exited", 1, 3, scratch=True), "prune_then_again"),
        (Ended("disk_full", "exited", 2, 3, repeats=2, scratch=True), "ask"),
        (Ended("preempted", "reboot", 1, 3), "resume"),
        (Ended("preempted", "reboot", 3, 3), "stop"),
        (Ended("preempted", "reboot", 3, 3, saved=True), "resume"),
        (Ended("walltime", "walltime", 1, 3), "resume"),
        (Ended("unknown", "exited", 1, 3), "stop"),
        (Ended("unknown", "crashed", 1, 3), "stop"),
        (Ended("unknown", "unknown", 1, 3), "again"),
    ],
)
def test_each_class_has_its_remedy(ended: Ended, remedy: str) -> None:
    assert choose(ended).remedy == remedy


def test_a_broken_box_is_left_by_a_move_and_a_node_by_its_name() -> None:
    broken = Ended("hardware", "exited", 1, 3)
    assert "lease move RUN --to BOX continues it on another one" in choose(broken).why
    assert "shared disk" in (why := choose(broken._replace(cluster=True)).why) and "lease move" not in why


def test_the_first_interruption_costs_no_pause_and_a_failure_does() -> None:
    assert choose(FRESH._replace(verdict="killed")).wait_s == 0
    assert choose(FRESH).wait_s == WAITS_S[0]


def test_pauses_grow_and_are_capped() -> None:
    waits = [wait_s(tries) for tries in range(1, 50)]
    assert waits == sorted(waits)
    assert waits[-1] == WAITS_S[-1]


def test_a_box_being_taken_away_gets_no_new_attempt_in_its_last_seconds() -> None:
    assert choose(Ended("preempted", "preempted", 1, 3, saved=True, grace_s=60)).wait_s == 60


endings = st.builds(
    Ended,
    klass=st.sampled_from(CLASSES),
    verdict=st.sampled_from(VERDICTS),
    tries=st.integers(1, 200),
    most=st.integers(1, 100),
    repeats=st.integers(1, 5),
    saved=st.booleans(),
    scratch=st.booleans(),
    grace_s=st.sampled_from([0.0, 5.0, 120.0]),
)


@MANY
@given(endings)
def test_nothing_goes_on_past_its_bound_without_newer_work(ended: Ended) -> None:
    chosen = choose(ended)
    if chosen.remedy in GOES_ON:
        assert ended.tries < ended.most or chosen.fresh
    if chosen.fresh:
        assert ended.saved


@MANY
@given(endings)
def test_what_is_deterministic_never_goes_on(ended: Ended) -> None:
    if ended.klass in ("bug", "hardware"):
        assert choose(ended).remedy not in GOES_ON
