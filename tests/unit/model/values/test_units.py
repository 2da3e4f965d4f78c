"""Sizes and durations as people write them, and as they are said back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.job.parse_job import parse_memory
from leasehold.model.values.units import parse_duration, parse_size, say_bytes


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0B", 0),
        ("1B", 1),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("512MiB", 512 << 20),
        ("40GB", 40 * 10**9),
        ("40 GB", 40 * 10**9),
        (" 40gb ", 40 * 10**9),
        ("1.5TB", 1_500_000_000_000),
        ("0.5GiB", 1 << 29),
        ("2PB", 2 * 10**15),
    ],
)
def test_sizes_are_read(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "40", "GB", "40G", "-1GB", "1,5GB", "40GB+", "40 G B", "1e3GB", "nanGB", "40GBs", "40GB 1MB", "9" * 400 + "B"],
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 40GB|more than any disk"):
        parse_size(text)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("90s", 90),
        ("45min", 2700),
        ("45m", 2700),
        ("6h", 21600),
        ("1.5h", 5400),
        ("1d 12h", 129600),
        ("1d12h30m5s", 131405),
        ("2 days", 172800),
        ("1 hour 1 minute 1 second", 3661),
        (" 10 sec ", 10),
        ("0s", 0),
    ],
)
def test_durations_are_read(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "6", "h", "6h 6h", "30m 1h", "-1h", "1w", "6h!", "1:30", "soon", "9" * 400 + "d"]
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 90s|longer than a hundred years"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("40GB+", (40 * 10**9, 0)),
        ("24GB-48GB", (24 * 10**9, 48 * 10**9)),
        ("24GB - 48GB", (24 * 10**9, 48 * 10**9)),
        ("24GB-24GB", (24 * 10**9, 24 * 10**9)),
        ("80GB", (72 * 10**9, 88 * 10**9)),
    ],
)
def test_a_cards_memory_is_a_range(text: str, expected: tuple[int, int]) -> None:
    assert parse_memory(text) == expected


@pytest.mark.parametrize("text", ["", "+", "-", "24GB-", "-24GB", "48GB-24GB", "40GB++", "40+", "A100"])
def test_what_is_no_range_of_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_memory(text)


@pytest.mark.parametrize(
    "count, said",
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (42_949_672_960, "42.9 GB"),
        (1.5e12, "1.50 TB"),
        (9e15, "9000.00 TB"),
    ],
)
def test_bytes_are_said_in_decimal_units(count: float, said: str) -> None:
    assert say_bytes(count) == said


@given(st.integers(0, 10**15))
def test_what_is_said_reads_back_within_a_twentieth(count: int) -> None:
    assert abs(parse_size(say_bytes(count)) - count) <= max(count / 20, 0)


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    for read in (parse_size, parse_duration, parse_memory):
        try:
            read(text)
        except ValueError as error:
            assert str(error)
