"""`downloads:` of a job file: what is read, what is refused, and that it belongs to the run's identity."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from leasehold.errors import UserError
from leasehold.lifecycle.project.job_yaml import parse_text
from leasehold.model.job.job import Download, Job, job_from_dict
from leasehold.model.job.parse_job import parse_job

SHA = "AB" * 32


def job(*downloads: Any) -> Job:
    return parse_job({"name": "toy", "run": "true", "artifacts": ["a"], "downloads": list(downloads)}, "lease.yaml")


def test_a_list_of_downloads_is_read_and_reads_back() -> None:
    parsed = job(
        {"from": ["https://a.example/f", "https://b.example/f"], "to": "d/f", "sha256": SHA, "size": 7},
        {"from": "hf:org/name@main", "to": "weights"},
    )
    first = Download(("https://a.example/f", "https://b.example/f"), "d/f", SHA.lower(), 7)
    assert parsed.downloads == (first, Download(("hf:org/name@main",), "weights"))
    assert job_from_dict(yaml.safe_load(yaml.safe_dump(parsed.as_dict()))) == parsed


def test_what_is_fetched_is_part_of_what_is_executed() -> None:
    plain, one = job(), job({"from": "hf:org/name", "to": "w"})
    assert "downloads" not in plain.identity()  # runs that were named before keep their names
    assert one.identity() != plain.identity()
    assert one.identity() != job({"from": "hf:org/name@v2", "to": "w"}).identity()


BAD: list[tuple[Any, str]] = [
    ("x", "must be a mapping"),
    ({"from": "hf:org/name"}, "downloads.0.to"),
    ({"to": "w"}, "is missing or empty: it names the source"),
    ({"from": [], "to": "w"}, "is missing or empty: it names the source"),
    ({"from": "hf:org/name", "to": "/etc"}, "absolute"),
    ({"from": "hf:org/name", "to": "../x"}, "not allowed"),
    ({"from": "hf:org/name", "to": ".leasehold/x"}, "ours"),
    ({"from": "hf:org/name", "to": "w", "into": 1}, "is not a key here"),
    ({"from": "hf:org/name", "to": "w", "sha256": SHA}, "brings its own"),
    ({"from": "https://a.example/f", "to": "w", "sha256": "abc"}, "64 hexadecimal"),
    ({"from": "https://a.example/f", "to": "w", "size": "7GB"}, "whole number of bytes"),
    ({"from": "http://a.example/f", "to": "w"}, "changed on its way"),
    ({"from": ["https://a.example/f", "hf:org/name"], "to": "w"}, "side by side"),
    ({"from": "https://a.example/f?token=hf_abcdefghijklmnopqrst", "to": "w"}, "token"),
]


@pytest.mark.parametrize(("item", "said"), BAD, ids=[said for _, said in BAD])
def test_a_mistake_is_named(item: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        job(item)


def test_a_mistake_is_found_on_its_line() -> None:
    text = "name: toy\nrun: 'true'\nartifacts: [a]\ndownloads:\n- {from: hf:a/b, to: w}\n- from: hf:a/b\n  to: /x\n"
    with pytest.raises(UserError, match=r"lease.yaml:7: downloads.1.to: "):
        parse_text(text, "lease.yaml")


def test_two_downloads_may_not_lie_in_each_other() -> None:
    with pytest.raises(UserError, match="overlap"):
        job({"from": "hf:org/a", "to": "w"}, {"from": "hf:org/b", "to": "w/b"})
