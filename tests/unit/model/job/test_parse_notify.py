"""`notify:` of a job file: topics and channels by name, never an address."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.errors import UserError
from leasehold.kit.tables.topics import TOPICS, USUAL
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.job import Job, job_from_dict

BASE = "name: toy\nrun: 'true'\nartifacts: [x.json]\n"


def job(text: str = "") -> Job:
    return parse_text(BASE + text, "lease.yaml")


def test_a_bare_on_is_a_key_though_yaml_reads_it_as_true() -> None:
    wish = job("notify: {on: [ended, budget], channels: [phone]}").notify
    assert wish is not None and (wish.on, wish.channels) == (("ended", "budget"), ("phone",))


@pytest.mark.parametrize(
    ("text", "topics"),
    [("notify: {}", USUAL), ("notify: true", USUAL), ("notify: off", ()), ("notify: {channels: [a]}", USUAL)],
)
def test_what_is_left_out_is_the_usual(text: str, topics: Any) -> None:
    wish = job(text).notify
    assert wish is not None and wish.on == topics


def test_a_job_without_the_key_keeps_its_text_and_one_with_it_reads_back() -> None:
    assert "notify" not in job().as_dict()
    told = job("notify: {on: [ended]}")
    assert job_from_dict(told.as_dict()) == told


def test_being_told_is_not_part_of_what_is_executed() -> None:
    assert job().identity() == job("notify: {on: [ended]}").identity()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("notify: {on: [endd]}", "'endd' is not a topic"),
        ("notify: {on: ended}", "must be a list of words"),
        ("notify: [ended]", "must be a mapping or false"),
        ("notify: {onn: [ended]}", "is not a key here"),
        ("notify: {channels: ['https://ntfy.sh/x']}", "holds an address, and job files are stored"),
    ],
)
def test_a_wrong_wish_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        job(text)
    assert says in caught.value.message and "lease.yaml:4" in caught.value.message


def test_all_topics_are_told_in_words() -> None:
    assert all(TOPICS.values()) and set(USUAL) < set(TOPICS)
