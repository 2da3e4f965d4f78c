"""Plans: equal inputs give equal hashes on every home, and the ledger's copy is the plan."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.facts import profiles
from leasehold.kit.files.canonical_json import digest
from leasehold.lifecycle.project.resolve import resolve
from leasehold.model.job.job import Artifact, Job, job_from_dict
from leasehold.model.job.keys import LOADERS
from leasehold.model.run.plan import Plan, plan_from_dict
from leasehold.model.run.receipt import Receipt, receipt_from_dict
from tests.support.examples import MANY

WORDS = st.text(min_size=1, max_size=10)
ARTIFACTS = st.builds(Artifact, WORDS, st.sampled_from(LOADERS), st.lists(WORDS, max_size=2).map(tuple), st.booleans())
JOBS = st.builds(
    Job,
    st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True),
    WORDS,
    st.lists(ARTIFACTS, min_size=1, max_size=3).map(tuple),
    smoke=st.text(max_size=5),
    env=st.dictionaries(WORDS, WORDS, max_size=3),
    attempts=st.integers(1, 100),
)
PLANS = st.builds(
    Plan, WORDS, JOBS, WORDS, WORDS, st.lists(WORDS, max_size=3).map(tuple), st.lists(WORDS, min_size=1).map(tuple)
)


@MANY
@given(PLANS)
def test_a_plan_comes_back_from_the_ledgers_json(plan):
    back = plan_from_dict(json.loads(json.dumps(plan.as_dict(), sort_keys=True)))
    assert back == plan
    assert back.sha256 == plan.sha256


@MANY
@given(PLANS)
def test_the_hash_is_of_the_body_and_travels_with_it(plan):
    spelled = plan.as_dict()
    assert spelled.pop("plan_sha256") == digest(spelled) == plan.sha256


@MANY
@given(PLANS, PLANS)
def test_plans_that_differ_hash_differently(one, other):
    assert (one.sha256 == other.sha256) == (one.body() == other.body())


def test_the_hash_of_a_known_plan_is_fixed():
    """Boxes hold run folders of earlier versions: the same plan must keep its hash."""
    job = Job("toy", "python train.py", (Artifact("best.pt", "torch", ("model",)),), env={"B": "2", "A": "1"})
    plan = Plan("toy-0123456789", job, "t" * 64, "local", ("setsid",))
    assert plan.sha256 == "3db833c7ddee1c55f59e094ab850e4ed398bb173374024dae5ed102fc0ce298a"


@MANY
@given(JOBS, st.sampled_from(profiles.names()))
def test_equal_inputs_resolve_to_the_same_run(job, platform):
    profile = profiles.load(platform)
    env = dict(reversed(list(job.env.items())))
    twin = replace(job, env=env)
    assert resolve(job, "t" * 64, profile) == resolve(twin, "t" * 64, profile)
    assert resolve(job, "t" * 64, profile).run != resolve(job, "u" * 64, profile).run


@pytest.mark.parametrize("again, tail", [(0, ""), (1, "-1"), (12, "-12")])
def test_a_repeated_run_is_numbered(again, tail):
    job = Job("n" * 90, "x", (Artifact("a", "bytes"),))
    run = resolve(job, "t" * 64, profiles.load("local"), again).run
    assert run.startswith("n" * 60 + "-")
    assert run == resolve(job, "t" * 64, profiles.load("local")).run + tail
    assert len(run) <= 100


BASE = Job("toy", "x", (Artifact("a", "bytes"),), smoke="s", env={"A": "1"})


def run_of(**change: object) -> str:
    return resolve(replace(BASE, **change), "t" * 64, profiles.load("local")).run


@pytest.mark.parametrize("change", [{"name": "other"}, {"run": "y"}, {"env": {"A": "2"}}, {"env": {}}], ids=str)
def test_a_change_of_what_is_executed_is_another_run(change):
    assert run_of(**change) != run_of()


@pytest.mark.parametrize("change", [{"artifacts": (Artifact("b", "json"),)}, {"smoke": "t"}, {"attempts": 4}], ids=str)
def test_a_mended_promise_is_the_same_run_under_another_plan(change):
    assert run_of(**change) == run_of()
    profile = profiles.load("local")
    assert resolve(replace(BASE, **change), "t" * 64, profile).sha256 != resolve(BASE, "t" * 64, profile).sha256


RECEIPT = Receipt("toy-1", "p", "m", ("main",), 2, 9, ({"path": "a", "kind": "json"},), ("x.Y",), ("rlimit",), 7)


def test_a_receipt_comes_back_and_its_digest_holds():
    back = receipt_from_dict(json.loads(json.dumps(RECEIPT.as_dict())))
    assert back == RECEIPT
    assert back.digest == RECEIPT.digest


@pytest.mark.parametrize("key", sorted(RECEIPT.as_dict()))
def test_a_receipt_that_lacks_something_is_none(key):
    value = RECEIPT.as_dict()
    del value[key]
    with pytest.raises((KeyError, ValueError)):
        receipt_from_dict(value)


@pytest.mark.parametrize("key", sorted(RECEIPT.as_dict()))
def test_every_part_of_a_receipt_counts_in_its_digest(key):
    value = RECEIPT.as_dict()
    value[key] = "changed"
    assert digest(value) != RECEIPT.digest


def test_replacing_the_frameworks_is_another_run_and_keeping_them_is_not():
    keeps = Job("toy", "python t.py", (Artifact("a", "bytes"),), setup="pip install -r r.txt")
    replaces = replace(keeps, setup_frameworks="replace")
    assert "setup_frameworks" not in keeps.identity() and "setup_frameworks" not in keeps.as_dict()
    assert replaces.identity() != keeps.identity()
    assert job_from_dict(replaces.as_dict()) == replaces
    assert job_from_dict(keeps.as_dict()) == keeps
