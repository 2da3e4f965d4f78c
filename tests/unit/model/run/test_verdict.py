"""Verdicts: refused beats unknown beats passed, and nothing at all is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.run.verdict import Finding, Outcome, Verdict, judge, passes, refuses, unknown
from leasehold.model.values.wording import ago
from tests.support.examples import MANY

P, R, U = Outcome.PASSED, Outcome.REFUSED, Outcome.UNKNOWN


@pytest.mark.parametrize(
    "seen, outcome",
    [([], U), ([P], P), ([U], U), ([R], R), ([P, P], P), ([P, U], U), ([U, R], R), ([P, R], R), ([P, U, R], R)],
)
def test_the_worst_finding_decides(seen, outcome):
    assert Verdict("g", tuple(Finding(each, "x") for each in seen)).outcome is outcome


@MANY
@given(st.lists(st.sampled_from(list(Outcome))), st.randoms())
def test_a_verdict_passes_only_if_every_finding_does(seen, random):
    verdict = Verdict("g", tuple(Finding(each, "x") for each in seen))
    assert verdict.passed == (bool(seen) and set(seen) == {P})
    assert len(verdict.against()) == sum(each is not P for each in seen)
    random.shuffle(seen)
    assert Verdict("g", tuple(Finding(each, "x") for each in seen)).outcome is verdict.outcome


def test_a_verdict_is_spelled_with_its_findings():
    verdict = Verdict("teardown", (Finding(P, "home"), Finding(R, "alive", "stop it")))
    assert verdict.as_dict() == {
        "gate": "teardown",
        "outcome": "refused",
        "findings": [
            {"outcome": "passed", "what": "home", "hint": ""},
            {"outcome": "refused", "what": "alive", "hint": "stop it"},
        ],
    }


@pytest.mark.parametrize(
    "seconds, said",
    [(-5, "0 s"), (0, "0 s"), (59.9, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (7384, "2 h 3 min"),
     (86400, "1 d"), (200000, "2 d 7 h")],
)  # fmt: skip
def test_a_duration_is_said_in_its_two_largest_units(seconds, said):
    assert ago(seconds) == said


def test_objections_are_one_with_its_hint_or_each_above_its_own() -> None:
    one = Verdict("audit", (passes("a"), refuses("b", "do b")))
    assert one.objections("more") == ("b", "do b")
    assert Verdict("audit", (refuses("b"),)).objections("more") == ("b", "more")
    two = Verdict("audit", (refuses("b", "do b"), passes("a"), unknown("c")))
    assert two.objections("more") == ("b\n  -> do b\nc", "more")


def test_the_named_constructors_say_what_they_mean() -> None:
    assert passes("a") == Finding(Outcome.PASSED, "a")
    assert refuses("a", "b") == Finding(Outcome.REFUSED, "a", "b")
    assert unknown("a", "b") == Finding(Outcome.UNKNOWN, "a", "b")
    assert judge(True, "a", "b") == passes("a")  # a hint is for what went wrong
    assert judge(False, "a", "b") == refuses("a", "b")
    assert judge(False, "a", otherwise="not a") == refuses("not a")


def test_a_thousand_cells_objections_are_counted_after_the_first_dozen() -> None:
    verdict = Verdict("teardown", tuple(refuses(f"c{n} is not home") for n in range(1000)))
    lines = verdict.objections("more")[0].splitlines()
    assert (len(lines), lines[0], lines[-1]) == (13, "c0 is not home", "… and 988 more")
