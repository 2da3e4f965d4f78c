"""What `checkpoint:` says of the refuge; without it, a job keeps its name and its plan's hash."""

from __future__ import annotations

import json

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.job import CheckpointFacts, Job, job_from_dict

JOB = "name: j\nrun: python t.py\nartifacts: [a]\n"


def parsed(checkpoint: str) -> Job:
    return parse_text(JOB + f"checkpoint: {checkpoint}\n", "lease.yaml")


def test_everything_is_read_and_survives_the_plan() -> None:
    job = parsed(
        "{path: last.pt, refuge: [durable, 's3://b-1/p', home], every: 5m, rate: 50MB, keep: 3,"
        " best: {metric: val/loss, mode: max}, because: cheap}"
    )
    facts = job.checkpoint
    assert (facts.refuge, facts.every_s, facts.rate_bytes) == (("durable", "s3://b-1/p", "home"), 300.0, 50_000_000)
    assert (facts.keep, facts.best_metric, facts.best_mode, facts.because) == (3, "val/loss", "max", "cheap")
    assert job_from_dict(json.loads(json.dumps(job.as_dict()))).checkpoint == facts


def test_a_key_that_is_not_there_changes_no_hash() -> None:
    job = parsed("{path: last.pt, size: 3GB}")
    assert job.as_dict()["checkpoint"] == {"path": "last.pt", "size_bytes": 3_000_000_000, "write_s": 0.0}
    assert parsed("{path: last.pt, refuge: none}").identity() == job.identity()
    assert job_from_dict(job.as_dict()).checkpoint == CheckpointFacts("last.pt", 3_000_000_000)


def test_one_word_is_a_list_of_one() -> None:
    assert parsed("{path: a, refuge: durable, best: loss}").checkpoint.refuge == ("durable",)


@pytest.mark.parametrize(
    "checkpoint, key",
    [
        ("{refuge: []}", "checkpoint.refuge"), ("{refuge: tape}", "checkpoint.refuge"),
        ("{refuge: [durable, durable]}", "checkpoint.refuge"), ("{refuge: [none, home]}", "checkpoint.refuge"),
        ("{refuge: 's3://'}", "checkpoint.refuge"), ("{refuge: 's3://UP/x'}", "checkpoint.refuge"),
        ("{refuge: 's3://key:secret@bucket/x'}", "checkpoint.refuge"), ("{refuge: {a: 1}}", "checkpoint.refuge"),
        ("{keep: 0}", "checkpoint.keep"), ("{keep: true}", "checkpoint.keep"), ("{keep: 1.5}", "checkpoint.keep"),
        ("{best: 3}", "checkpoint.best"), ("{best: {metric: x, mode: low}}", "checkpoint.best.mode"),
        ("{best: {mode: min}}", "checkpoint.best.metric"), ("{because: ''}", "checkpoint.because"),
        ("{every: soon}", "checkpoint.every"), ("{rate: fast}", "checkpoint.rate"), ("{refuges: a}", "checkpoint"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_meant_is_refused_by_its_key(checkpoint: str, key: str) -> None:
    with pytest.raises(UserError) as refused:
        parsed(checkpoint)
    assert key in str(refused.value)
