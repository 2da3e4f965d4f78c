"""The newest whole checkpoint: half-written ones are passed over with the reason, unknown ones are never taken."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest

from leasehold.kit.files.newest_checkpoint import UNKNOWN, newest, variables


def write(path: Path, content: bytes, age: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(str(path), (1000 + age, 1000 + age))
    return path


def torch_file(folder: Path) -> bytes:
    """Give bytes as torch.save writes them: a zip of stored records."""
    path = folder / "made"
    with zipfile.ZipFile(str(path), "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"step": 1}, protocol=2))
        archive.writestr("archive/data/0", b"\1\2\3\4" * 5000)
    content = path.read_bytes()
    path.unlink()
    return content


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [50], "data_offsets": [0, 200]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(200)


def whole(kind: str, folder: Path) -> bytes:
    if kind == "torch":
        return torch_file(folder)
    if kind == "safetensors":
        return safetensors()
    return pickle.dumps({"step": 4, "w": list(range(500))}) if kind == "pkl" else json.dumps({"w": [1] * 90}).encode()


@pytest.mark.parametrize("kind", ["torch", "safetensors", "pkl", "json"])
def test_a_file_cut_anywhere_is_passed_over_for_the_one_before(kind: str, tmp_path: Path) -> None:
    content = whole(kind, tmp_path)
    write(tmp_path / ("ckpt-9." + kind), content, 1)
    for cut in sorted({0, 1, 7, 8, 9, 20, len(content) // 2, len(content) - 22, len(content) - 1}):
        write(tmp_path / ("ckpt-10." + kind), content[:cut], 2)
        found = newest(str(tmp_path), "ckpt-*")
        assert found.path == "ckpt-9." + kind, cut
        assert found.passed_over[0][0] == "ckpt-10." + kind and found.passed_over[0][1]
    write(tmp_path / ("ckpt-10." + kind), content, 2)
    assert newest(str(tmp_path), "ckpt-*") == ("ckpt-10." + kind, ())


def test_the_newest_is_the_one_written_last_then_the_higher_number(tmp_path: Path) -> None:
    for name, age in (("ckpt-9.json", 1), ("ckpt-10.json", 1), ("ckpt-8.json", 0)):
        write(tmp_path / name, b"{}", age)
    assert newest(str(tmp_path), "ckpt-*").path == "ckpt-10.json"
    write(tmp_path / "ckpt-8.json", b"{}", 5)
    assert newest(str(tmp_path), "ckpt-*").path == "ckpt-8.json"


def test_a_format_without_an_end_is_never_taken_and_the_log_says_so(tmp_path: Path) -> None:
    write(tmp_path / "state.bin", b"some numbers", 1)
    assert newest(str(tmp_path), "state.bin") == ("", (("state.bin", UNKNOWN),))
    values, said = variables(str(tmp_path), ["state.bin", "x-*"])
    assert values == {"LEASE_LATEST": "", "LEASE_LATEST_2": ""}
    assert said == ["state.bin was passed over: " + UNKNOWN, "no whole state.bin yet", "no whole x-* yet"]


def folder(root: Path, name: str, age: int, *without: str) -> None:
    files = {"model.safetensors": safetensors(), "optimizer.pt": torch_file(root), "trainer_state.json": b"{}"}
    for file, content in files.items():
        if file not in without:
            write(root / name / file, content, age)


def test_a_folder_is_whole_with_its_end_mark_and_whole_files(tmp_path: Path) -> None:
    folder(tmp_path, "checkpoint-40", 1)
    assert newest(str(tmp_path), "checkpoint-*").path == "checkpoint-40"
    folder(tmp_path, "checkpoint-60", 2, "trainer_state.json")
    found = newest(str(tmp_path), "checkpoint-*")
    assert found.path == "checkpoint-40" and "end mark" in found.passed_over[0][1]
    write(tmp_path / "checkpoint-60" / "trainer_state.json", b'{"global', 2)
    assert "trainer_state.json: it is not complete JSON" in newest(str(tmp_path), "checkpoint-*").passed_over[0][1]
    write(tmp_path / "checkpoint-60" / "trainer_state.json", b"{}", 2)
    assert newest(str(tmp_path), "checkpoint-*").path == "checkpoint-60"
    write(tmp_path / "checkpoint-60" / "model.safetensors", safetensors()[:-3], 2)
    assert "model.safetensors: it has" in newest(str(tmp_path), "checkpoint-*").passed_over[0][1]


def test_a_folder_that_lacks_what_the_one_before_has_is_passed_over(tmp_path: Path) -> None:
    for name, files in (("step_2", ("model", "random_states_0", "custom_checkpoint_0")), ("step_4", ("model",))):
        for file in files:
            write(tmp_path / name / (file + ".pkl"), pickle.dumps(1), int(name[-1]))
    write(tmp_path / "step_4" / "random_states_0.pkl", pickle.dumps(1), 4)
    found = newest(str(tmp_path), "step_*")
    assert found.path == "step_2"
    assert found.passed_over == (("step_4", "custom_checkpoint_0.pkl, which step_2 has, is not there"),)


def test_passing_names_and_links_are_no_checkpoints(tmp_path: Path) -> None:
    write(tmp_path / "ckpt.json", b"{}", 1)
    for name in ("ckpt.json.tmp", "tmp-ckpt/ckpt.json", "a.partial.json"):
        write(tmp_path / name, b"{}", 9)
    (tmp_path / "link.json").symlink_to(tmp_path / "ckpt.json")
    assert newest(str(tmp_path), "**/*.json*").path == "ckpt.json"
    assert newest(str(tmp_path / "absent"), "*") == ("", ())


def test_an_odd_name_is_found(tmp_path: Path, odd_name: str) -> None:
    write(tmp_path / odd_name / "last.json", b"{}", 1)
    assert newest(str(tmp_path), "*/last.json").path == odd_name + "/last.json"
