"""A box's signs: seen, not there, or not to be looked at; only names are read."""

from __future__ import annotations

import os

import pytest

from leasehold.caretaker.machine import platform_signs


def seen(*asked):
    return [answer["seen"] for answer in platform_signs.read(asked)]


def test_files_and_mounts_are_there_or_not(tmp_path):
    there = tmp_path / "mark"
    there.touch()
    gone = tmp_path / "gone"
    os.symlink(str(gone), str(tmp_path / "link"))
    asked = [
        ("file", str(there)),
        ("file", str(gone)),
        ("file", str(there / "below")),
        ("file", str(tmp_path / "link")),
    ]
    assert seen(*asked) == ["yes", "no", "no", "yes"]
    assert seen(("mount", "/"), ("mount", str(tmp_path))) == ["yes", "no"]


def test_what_cannot_be_looked_at_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(platform_signs, "_MOUNTS", str(tmp_path / "none"))
    monkeypatch.setattr(platform_signs, "_FIRST_PROCESS", str(tmp_path / "none"))
    asked = [("mount", "/"), ("env", "NOBODY_SETS_THIS"), ("weather", "rain"), ("file", "/x" * 3000)]
    assert seen(*asked) == ["unknown"] * 4


@pytest.mark.parametrize(
    "name, answer", [("RENTED_BOX", "yes"), ("RENTED", "no"), ("SECRET", "yes"), ("RENTED_BOX=", "no")]
)
def test_a_variable_of_the_first_process_counts(tmp_path, monkeypatch, name, answer):
    first = tmp_path / "environ"
    first.write_bytes(b"RENTED_BOX=a\0SECRET=RENTED=1\0")
    monkeypatch.setattr(platform_signs, "_FIRST_PROCESS", str(first))
    assert seen(("env", name)) == [answer]


def test_a_variable_of_the_session_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(platform_signs, "_FIRST_PROCESS", str(tmp_path / "none"))
    monkeypatch.setenv("RENTED_BOX", "secret")
    assert platform_signs.read([("env", "RENTED_BOX")]) == [{"kind": "env", "value": "RENTED_BOX", "seen": "yes"}]
