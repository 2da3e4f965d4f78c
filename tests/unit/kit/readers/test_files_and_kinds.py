"""Which kind a name suggests, and what may be opened at all."""

from __future__ import annotations

import json
import os

import pytest

from leasehold.kit.readers import KINDS, Unreadable, guess_kind, open_source, read


@pytest.mark.parametrize(
    "name, kind",
    [
        ("metrics.json", "json"),
        ("log.jsonl", "jsonl"),
        ("table.CSV", "csv"),
        ("a.npy", "npy"),
        ("a.npz", "npz"),
        ("model.safetensors", "safetensors"),
        ("best.PTH.tar", "torch"),
        ("shard.tar", "bytes"),
        ("best.pt", "torch"),
        ("best.pth", "torch"),
        ("last.ckpt", "torch"),
        ("pytorch_model.bin", "torch"),
        ("notes.txt", "bytes"),
        ("no_suffix", "bytes"),
        ("folder.pt/file", "bytes"),
    ],
)
def test_kind_is_guessed_by_suffix(name, kind):
    assert guess_kind(name) == kind
    assert kind in KINDS


def test_an_unknown_kind_is_the_callers_mistake(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x")
    with pytest.raises(ValueError, match="known: json"):
        read(str(path), "marshal")


def test_any_file_with_a_byte_passes_as_bytes(reading_of):
    assert reading_of("bytes", b"\0").bytes == 1


def test_a_reading_is_plain_json(reading_of):
    reading = reading_of("json", '{"a": 1}')
    assert json.loads(json.dumps(reading.as_dict())) == {
        "kind": "json",
        "bytes": 8,
        "tensors": 0,
        "numel": 0,
        "keys": ["a"],
        "opaque": [],
        "notes": [],
        "numbers": {"nan": 0, "inf": 0, "where": [], "more": 0, "unread": ""},
    }


def test_a_missing_file_is_unreadable(tmp_path):
    with pytest.raises(Unreadable, match="cannot be opened"):
        read(str(tmp_path / "absent"), "json")


def test_a_path_with_nul_is_unreadable():
    with pytest.raises(Unreadable):
        read("a\0b", "json")


def test_a_folder_is_unreadable(tmp_path):
    with pytest.raises(Unreadable, match="not a regular file|cannot be opened"):
        read(str(tmp_path), "json")


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    with pytest.raises(Unreadable, match="not a regular file"):
        read(str(tmp_path / "pipe"), "json")


def test_a_device_is_refused():
    with pytest.raises(Unreadable, match="not a regular file"):
        read("/dev/zero", "bytes")


def test_files_of_odd_names_are_read(tmp_path, odd_name):
    path = tmp_path / odd_name
    path.write_text("{}")
    assert read(str(path), "json").bytes == 2


def test_a_file_that_shrinks_while_open_is_unreadable(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    with open_source(str(path)) as source:
        path.write_bytes(b"x" * 10)
        with pytest.raises(Unreadable, match="ended at byte 10"):
            source.read_at(0, 100)
