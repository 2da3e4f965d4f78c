"""A pipe is widened where that is allowed, and used as it is where not."""

from __future__ import annotations

import fcntl
import os

import pytest

from leasehold.kit.files.pipes import widen

WIDE_BYTES = 1 << 20


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    yield writer
    os.close(reader)
    os.close(writer)


def held(writer: int) -> int:
    """Count what it takes before somebody must read."""
    return os.write(writer, bytes(2 * WIDE_BYTES))


def test_a_wide_pipe_holds_a_megabyte(pipe):
    widen(pipe)
    assert held(pipe) == WIDE_BYTES


def test_a_user_who_has_too_many_keeps_a_narrow_one(pipe, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    widen(pipe)
    assert 0 < held(pipe) < WIDE_BYTES


def test_what_is_no_pipe_is_left_alone(tmp_path):
    with open(tmp_path / "plain", "wb") as file:
        widen(file.fileno())
        assert file.write(b"x") == 1
