"""Which files are one checkpoint, and whether it is whole: ours, and those of the usual frameworks."""

from __future__ import annotations

import json
import os
import zipfile

import pytest

from leasehold.caretaker.refuge.found_states import QUIET_S, candidates, why_not
from leasehold.kit.files.globbing import Found

NOW = 2_000_000_000.0


def write(path, data=b"{}", age_s=100.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(str(path), (NOW - age_s, NOW - age_s))


def torch_file(path, age_s=100.0, cut=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(str(path), "w") as archive:
        archive.writestr("archive/data.pkl", b"x" * 1000)
    if cut:
        os.truncate(str(path), os.path.getsize(str(path)) - cut)
    os.utime(str(path), (NOW - age_s, NOW - age_s))


def found(root, pattern):
    return [(one.name, one.root, [row[0] for row in one.rows], one.step) for one in candidates(str(root), pattern)]


def verdict(root, pattern, left=False, place=0):
    states = candidates(str(root), pattern)
    older = states[place + 1] if place + 1 < len(states) else None
    return why_not(str(root), states[place]._replace(renamed=False), older, left, NOW)


def test_one_file_is_one_state(tmp_path):
    torch_file(tmp_path / "last.pt")
    write(tmp_path / "other.txt")
    assert found(tmp_path, "last.pt") == [("last.pt", "", ["last.pt"], None)]
    assert verdict(tmp_path, "last.pt") == ""


def test_our_checkpointers_files_are_states_by_their_step(tmp_path):
    for step in (100, 200):
        write(tmp_path / ("ckpt/step-%010d.safetensors" % step), age_s=300 - step)
    write(tmp_path / "ckpt/index.json", age_s=1)
    expected = [
        ("ckpt/step-0000000200.safetensors", "ckpt", ["step-0000000200.safetensors"], 200),
        ("ckpt/step-0000000100.safetensors", "ckpt", ["step-0000000100.safetensors"], 100),
    ]
    assert found(tmp_path, "ckpt/step-*.safetensors") == expected
    assert found(tmp_path, "ckpt") == expected, "the folder alone names its checkpoints too"


def test_a_trainers_folders_are_states_and_whole_by_their_last_file(tmp_path):
    for step, age_s in ((500, 60.0), (1000, 1.0)):
        folder = tmp_path / ("out/checkpoint-%d" % step)
        torch_file(folder / "optimizer.pt", age_s)
        write(folder / "trainer_state.json", json.dumps({"global_step": step}).encode(), age_s)
    for pattern in ("out/checkpoint-*", "out", "out/*"):
        states = found(tmp_path, pattern)
        assert [one[3] for one in states] == [1000, 500], pattern
        assert states[0][1:3] == ("out/checkpoint-1000", ["optimizer.pt", "trainer_state.json"])
    assert verdict(tmp_path, "out/checkpoint-*") == ""
    (tmp_path / "out/checkpoint-1000/optimizer.pt").unlink()
    assert "optimizer.pt" in verdict(tmp_path, "out/checkpoint-*")


def test_a_folder_that_is_still_written_is_not_whole(tmp_path):
    torch_file(tmp_path / "checkpoint-1/model.pt", age_s=1.0)
    assert "no end mark" in verdict(tmp_path, "checkpoint-*")
    assert verdict(tmp_path, "checkpoint-*", left=True) == "", "its writer has gone on, or ended"


def test_a_folder_without_a_mark_is_whole_when_it_was_quiet(tmp_path):
    torch_file(tmp_path / "state/model.pt", age_s=QUIET_S + 1)
    write(tmp_path / "state/opt.bin", b"anything", age_s=QUIET_S + 1)
    assert verdict(tmp_path, "state") == ""


def test_a_cut_file_is_never_whole_however_quiet(tmp_path):
    torch_file(tmp_path / "last.pt", age_s=9999, cut=30)
    assert "cut short" in verdict(tmp_path, "last.pt", left=True)


def test_a_lightning_name_has_its_step(tmp_path):
    torch_file(tmp_path / "logs/version_0/checkpoints/epoch=3-step=400.ckpt")
    assert found(tmp_path, "logs/**/*.ckpt")[0][3] == 400
    torch_file(tmp_path / "logs/version_0/checkpoints/epoch=4.ckpt", age_s=1)
    assert found(tmp_path, "logs/**/*.ckpt")[0][3] is None, "an epoch is no step"


def test_a_dcp_folder_is_one_state(tmp_path):
    for name in (".metadata", "__0_0.distcp", "__1_0.distcp"):
        write(tmp_path / "ckpt/step-7" / name, b"\x80\x04.", age_s=1)
    name, root, files, step = found(tmp_path, "ckpt/step-*")[0]
    assert (root, files, step) == ("ckpt/step-7", [".metadata", "__0_0.distcp", "__1_0.distcp"], 7)


def test_names_of_unfinished_files_are_left_out(tmp_path):
    torch_file(tmp_path / "a/step-1.pt")
    write(tmp_path / "a/step-2.pt.tmp", b"half", age_s=1)
    write(tmp_path / "a/.step-3.pt.123.tmp", b"half", age_s=1)
    write(tmp_path / "a/tmp-checkpoint-9/model.pt", b"half", age_s=1)
    assert [one[0] for one in found(tmp_path, "a/**")] == ["a/step-1.pt"]


def test_an_unknown_format_needs_quiet_or_a_rename(tmp_path):
    write(tmp_path / "w.bin", b"anything", age_s=1)
    [state] = candidates(str(tmp_path), "w.bin")
    assert "format" in why_not(str(tmp_path), state._replace(renamed=False), None, False, NOW)
    assert why_not(str(tmp_path), state._replace(renamed=True), None, False, NOW) == ""


def test_a_renamed_file_is_told_from_one_written_in_place(tmp_path):
    class Info:
        st_size, st_mtime_ns, st_ino, st_mode = 1, 5, 7, 0o100644
        st_ctime_ns = 5

    from leasehold.caretaker.refuge.found_states import _candidate

    assert not _candidate("a", "", [Found("a", Info())]).renamed
    Info.st_ctime_ns = 6
    assert _candidate("a", "", [Found("a", Info())]).renamed


def test_symlinks_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    torch_file(outside / "last.pt")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/last.pt").symlink_to(outside / "last.pt")
    (tmp_path / "out/ckpt").symlink_to(outside)
    assert found(tmp_path / "out", "last.pt") == found(tmp_path / "out", "ckpt") == found(tmp_path / "out", "**") == []


def test_the_mark_changes_with_any_file(tmp_path):
    torch_file(tmp_path / "c/a.pt")
    torch_file(tmp_path / "c/b.pt")
    [before] = candidates(str(tmp_path), "c")
    torch_file(tmp_path / "c/b.pt", age_s=50)
    [after] = candidates(str(tmp_path), "c")
    assert before.mark != after.mark and after.mark == candidates(str(tmp_path), "c")[0].mark


@pytest.mark.parametrize("pattern", ["nothing", "no/such/*.pt", "**/x"])
def test_nothing_there_is_no_state(tmp_path, pattern):
    assert candidates(str(tmp_path / "absent"), pattern) == [] and candidates(str(tmp_path), pattern) == []


def test_odd_names_are_states_too(tmp_path, odd_name):
    torch_file(tmp_path / odd_name / "checkpoint-1" / "a.pt")
    [(name, root, files, step)] = found(tmp_path, "**/checkpoint-*")
    assert (name, files, step) == (odd_name + "/checkpoint-1", ["a.pt"], 1)
