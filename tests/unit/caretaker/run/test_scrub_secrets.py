"""A log loses its secrets in place, while its trainer goes on writing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.run.scrub_secrets import Scrubber, read_log, redactor_of, whole_words
from leasehold.kit.text.redact import CONTEXT_BYTES

VALUE = "correct-horse-battery-staple"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    place = RunFolder(str(tmp_path / "active" / "toy-1"))
    os.makedirs(place.attempt("main", 1))
    os.makedirs(os.path.dirname(place.secrets))
    Path(place.secrets).write_text(json.dumps({"KEY": VALUE}))
    return place


def log_of(folder: RunFolder) -> Path:
    return Path(folder.attempt("main", 1), "log")


def test_a_trainer_that_goes_on_writing_loses_nothing(folder):
    scrubber = Scrubber(folder)
    with log_of(folder).open("ab", buffering=0) as trainer:
        trainer.write(b"key %s\n" % VALUE.encode())
        scrubber.turn([("main", 1)])
        assert log_of(folder).read_bytes() == b"key <KEY>***********************\n"
        trainer.write(b"step 1\n")
    scrubber.finish("main", 1)
    assert log_of(folder).read_bytes() == b"key <KEY>***********************\nstep 1\n"


@given(st.integers(0, 3 * CONTEXT_BYTES), st.integers(1, len(VALUE) - 1))
def test_a_value_written_in_two_halves_is_found(tmp_path_factory, before, cut):
    place = RunFolder(str(tmp_path_factory.mktemp("run") / "active" / "toy-1"))
    os.makedirs(place.attempt("main", 1))
    os.makedirs(os.path.dirname(place.secrets))
    Path(place.secrets).write_text(json.dumps({"KEY": VALUE}))
    scrubber = Scrubber(place)
    with log_of(place).open("ab", buffering=0) as trainer:
        trainer.write(b"x" * before + VALUE[:cut].encode())
        scrubber._scrub(str(log_of(place)), last=False)
        trainer.write(VALUE[cut:].encode() + b"\nmore\n")
    scrubber.finish("main", 1)
    assert log_of(place).read_bytes() == b"x" * before + b"<KEY>***********************\nmore\n"


def test_a_long_log_is_clean_to_its_end(folder):
    log_of(folder).write_bytes((b"step 1 loss 0.5\n" * 5000 + VALUE.encode() + b"\n") * 30)
    size = log_of(folder).stat().st_size
    Scrubber(folder).finish("main", 1)
    data = log_of(folder).read_bytes()
    assert VALUE.encode() not in data and len(data) == size and data.count(b"step 1 loss 0.5\n") == 150000


def test_a_clean_log_is_not_written_to(folder):
    log_of(folder).write_bytes(b"step 1 loss 0.5\n")
    before = log_of(folder).stat().st_mtime_ns
    log_of(folder).chmod(0o400)
    Scrubber(folder).finish("main", 1)
    assert log_of(folder).stat().st_mtime_ns == before


def test_a_link_in_place_of_the_log_is_not_followed(folder, tmp_path):
    other = tmp_path / "other"
    other.write_text(VALUE)
    log_of(folder).symlink_to(other)
    Scrubber(folder).finish("main", 1)
    assert other.read_text() == VALUE


def test_what_a_resume_brings_is_looked_for_in_what_is_there(folder):
    log_of(folder).write_text("was horse-battery-staple-two\n")
    scrubber = Scrubber(folder)
    scrubber.turn([("main", 1)])
    Path(folder.secrets).write_text(json.dumps({"KEY": "horse-battery-staple-two"}))
    scrubber.finish("main", 1)
    assert "battery" not in log_of(folder).read_text()


def test_the_address_of_a_notice_is_a_secret_too(folder):
    Path(folder.notify).write_text(json.dumps({"channels": [{"kind": "ntfy", "url": "https://push.example/topic-9"}]}))
    assert "topic-9" not in Scrubber(folder).tree({"why": "POST https://push.example/topic-9: 500"})["why"]


@pytest.mark.parametrize("offset", range(0, 60, 7))
def test_a_range_that_begins_or_ends_within_a_value_shows_nothing_of_it(folder, offset):
    log_of(folder).write_text("0123456789" + VALUE + "0123456789" + VALUE)
    clean = read_log(str(log_of(folder)), 0, 1000, redactor_of(folder))
    part = read_log(str(log_of(folder)), offset, 20, redactor_of(folder))
    assert part == clean[offset : offset + 20] and b"horse" not in clean


def test_a_word_that_may_still_grow_waits():
    assert whole_words(b"key correct-ho") == b"key "
    assert whole_words(b"key correct\n") == b"key correct\n"
    assert whole_words(b"x" * (CONTEXT_BYTES + 1)) == b"x" * (CONTEXT_BYTES + 1)
