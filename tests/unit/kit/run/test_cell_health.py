"""The six states of a cell: exactly one for any facts, and unknown where a fact that matters is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.run.cell_health import STATES, Facts, Limits, judge, of_ended
from tests.support.examples import MANY

LIVE = Facts(held=True, alive=True, ended=False, quiet_s=10.0)
SILENT = LIVE._replace(quiet_s=5000.0)
DONE = Facts(held=False, alive=False, ended=True, code=0, sealed=True)


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (LIVE, "running"),
        (LIVE._replace(alive=False), "running"),  # the lock alone: a worker of it lives
        (SILENT._replace(gpu_percent=0.0), "stalled"),
        (SILENT._replace(cpu_cores=0.0), "stalled"),
        (SILENT._replace(gpu_percent=0.0, cpu_cores=0.01), "stalled"),
        (SILENT._replace(gpu_percent=90.0, cpu_cores=0.0), "running"),
        (SILENT._replace(gpu_percent=0.0, cpu_cores=1.0), "running"),
        (SILENT, "unknown"),
        (LIVE._replace(quiet_s=None), "unknown"),
        (DONE, "finished"),
        (DONE._replace(took_s=49.0, expected_s=100.0), "fast-finished"),
        (DONE._replace(took_s=50.0, expected_s=100.0), "finished"),
        (DONE._replace(sealed=False), "dead"),
        (DONE._replace(sealed=None), "unknown"),
        (DONE._replace(code=1), "dead"),
        (DONE._replace(code=None, signal=9), "dead"),
        (DONE._replace(code=None), "dead"),
        (Facts(held=False, alive=False, ended=False), "dead"),
        (Facts(held=False, alive=False), "unknown"),
        (Facts(held=False, ended=False), "unknown"),
        (Facts(), "unknown"),
    ],
)
def test_each_state_has_its_facts(facts: Facts, state: str) -> None:
    health = judge(facts)
    assert (health.state, bool(health.evidence)) == (state, True)


def test_a_job_may_never_want_to_hear_of_stalls() -> None:
    assert judge(SILENT._replace(cpu_cores=0.0), Limits(stall_after_s=0)).state == "running"


maybe = st.none() | st.booleans()
amount = st.none() | st.floats(0, 1e6)
anything = st.builds(
    Facts,
    link=st.booleans(),
    held=maybe,
    alive=maybe,
    ended=maybe,
    code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 31),
    sealed=maybe,
    quiet_s=amount,
    gpu_percent=st.none() | st.floats(0, 100),
    cpu_cores=amount,
    took_s=amount,
    expected_s=amount,
)


@MANY
@given(anything)
def test_any_facts_have_exactly_one_state(facts: Facts) -> None:
    assert judge(facts).state in STATES


@MANY
@given(anything)
def test_without_a_link_nothing_is_known(facts: Facts) -> None:
    assert judge(facts._replace(link=False)).state == "unknown"


@MANY
@given(anything)
def test_success_needs_an_exit_record_with_0_and_artifacts_that_were_read(facts: Facts) -> None:
    if judge(facts).state in ("finished", "fast-finished"):
        assert facts.ended
        assert (facts.code, facts.signal, facts.sealed) == (0, None, True)


@MANY
@given(anything)
def test_stalled_needs_a_life_a_silence_and_a_meter_that_was_read(facts: Facts) -> None:
    if judge(facts).state == "stalled":
        assert facts.alive or facts.held
        assert facts.quiet_s is not None
        assert facts.gpu_percent is not None or facts.cpu_cores is not None


@MANY
@given(anything)
def test_dead_needs_an_exit_record_or_a_look_at_process_and_lock(facts: Facts) -> None:
    if judge(facts).state == "dead":
        assert facts.ended or (facts.alive is False and facts.held is False)


def test_an_ended_cell_is_read_from_its_spelling() -> None:
    assert of_ended({"attempt": 0}) == Facts()
    assert judge(of_ended({"attempt": 2, "code": 0, "sealed": 2, "state": "ended"})).state == "finished"
    assert judge(of_ended({"attempt": 2, "code": 0, "classed": 2, "state": "failed"})).state == "dead"
    assert judge(of_ended({"attempt": 2, "code": 0, "sealed": 1, "state": "ended"})).state == "unknown"
