"""Our pickle machine and both of CPython's unpicklers read every drawn sequence of operations alike."""

from __future__ import annotations

import random

import pytest

from tests.fuzz import unpicklers

COUNT = 5_000
pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence")  # CPython's own, of what was drawn


@pytest.mark.parametrize("seed", [1, 2])
def test_neither_of_pythons_unpicklers_reads_what_ours_does_not(seed: int) -> None:
    found = unpicklers.compare(seed, COUNT)
    assert not found.differing, found.differing[:5]
    assert found.accepted > found.sequences // 20  # else the comparison says little


@pytest.mark.parametrize(
    "data",
    [
        b"(U\x01at.",
        b"(S'\\x41'\nt.",
        b"(" + b"K\x01M\x00\x01J\xff\xff\xff\xff" * 40 + b"t.",
        b"]\x95" + bytes([41, *[0] * 7]) + b"(" + b"K\x01" * 30 + b"e.",
    ],
)
def test_what_once_differed_or_might_is_read_alike(data: bytes) -> None:
    assert unpicklers._ours(data) != "refused"
    assert unpicklers.agree(data)


def test_a_difference_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpicklers, "sequence", lambda chance: b"K\x01.")
    monkeypatch.setattr(unpicklers, "_ours", lambda data: (("int", "2"), ()))
    assert unpicklers.compare(1, 1).differing == [b"K\x01."]


def test_a_seed_draws_the_same_sequences_again() -> None:
    one, other = (unpicklers.sequence(random.Random(7)) for _ in range(2))
    assert one == other
