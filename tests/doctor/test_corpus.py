"""Real logs: what is tuned on must be named, and a healthy log must stay quiet. The report half is only counted."""

from __future__ import annotations

from leasehold.facts.ailments import find
from leasehold.kit.failure.catalogue import shipped
from tests.doctor.excerpts import HALVES, read, score

BOOK = shipped()


def test_the_corpus_is_large_enough_and_labelled_with_entries_that_exist():
    every = [excerpt for half in HALVES for excerpt in read(half)]
    assert len(every) >= 150
    assert sum(excerpt.healthy for excerpt in every) >= 40
    assert len({excerpt.url for excerpt in every}) == len(every)
    for excerpt in every:
        assert excerpt.url.startswith("https://"), excerpt.url
        assert excerpt.healthy or all(find(label) for label in excerpt.labels), excerpt.url


def test_the_halves_share_no_source():
    tune, report = ({excerpt.source for excerpt in read(half)} for half in HALVES)
    assert not tune & report


def test_what_we_tune_on_is_named():
    seen = score(BOOK, read("tune"))
    assert seen.among_three >= 0.97 * seen.failures
    assert seen.first >= 0.95 * seen.failures


def test_no_healthy_log_raises_an_alarm():
    assert score(BOOK, [excerpt for half in HALVES for excerpt in read(half) if excerpt.healthy]).alarms == 0
