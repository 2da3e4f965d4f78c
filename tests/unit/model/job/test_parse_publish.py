"""`publish:` names a bucket, and the job names the keys for it."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.errors import UserError
from leasehold.model.job.job import Job, job_from_dict
from leasehold.model.job.parse_job import parse_job

KEYS = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]


def job(**change: Any) -> Job:
    return parse_job({"name": "toy", "run": "true", "artifacts": {"a.json": "json"}, **change}, "lease.yaml")


def test_an_address_is_kept_and_makes_no_other_run() -> None:
    found = job(publish="s3://bucket/results/", secrets=KEYS)
    assert found.publish == "s3://bucket/results"
    assert found.identity() == job(secrets=KEYS).identity()
    assert job_from_dict(found.as_dict()) == found


def test_a_job_without_it_keeps_its_old_form() -> None:
    assert "publish" not in job().as_dict()


@pytest.mark.parametrize("value", ["bucket/results", "https://bucket", "s3://", "s3://b/../x", 5])
def test_what_is_no_address_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="publish"):
        job(publish=value, secrets=KEYS)


def test_keys_that_the_job_does_not_name_are_asked_for() -> None:
    with pytest.raises(UserError, match="needs AWS_SECRET_ACCESS_KEY") as caught:
        job(publish="s3://bucket/results", secrets=KEYS[:1])
    assert "secrets: [AWS_ACCESS_KEY_ID" in caught.value.hint
