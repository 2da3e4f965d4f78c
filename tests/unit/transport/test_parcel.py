"""The parcel: equal sources, equal bytes; kept between commands, and never an old one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from leasehold.transport import parcel


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the zip is kept in this test."""
    path = tmp_path / "parcel.zip"
    monkeypatch.setattr(parcel, "_kept_at", lambda: str(path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    parcel.build.cache_clear()
    yield path
    parcel.build.cache_clear()


def again() -> parcel.Parcel:
    """Build as the next command would."""
    parcel.build.cache_clear()
    return parcel.build()


def test_what_is_kept_is_what_would_be_packed(kept, monkeypatch):
    packed = parcel.build()
    monkeypatch.setattr(parcel, "_pack", lambda: pytest.fail("packed again"))
    assert again() == packed


def test_a_source_that_changed_is_packed_anew(kept, monkeypatch):
    parcel.build()
    packed: list[int] = []
    honest = parcel._pack
    monkeypatch.setattr(parcel, "_pack", lambda: packed.append(1) or honest())
    monkeypatch.setattr(parcel, "_state", lambda: "other sources")
    assert again() == honest()
    assert packed


@pytest.mark.parametrize("spoil", [b"", b"nonsense", b"nonsense\nmore"])
def test_a_spoiled_one_is_packed_anew(kept, spoil):
    packed = parcel.build()
    kept.write_bytes(spoil)
    assert again() == packed


def test_an_installation_of_others_is_packed_each_time(kept, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(parcel, "write_atomic", refuse)
    assert again() == parcel._pack()
    assert not os.path.exists(kept)
