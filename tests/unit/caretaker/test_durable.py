"""The checked copy: whole and read back, or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from leasehold.caretaker import durable
from leasehold.caretaker.layout import RunFolder

CELLS = ["a", "b"]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(str(tmp_path / "root" / "active" / "toy-0123456789"))
    for cell in CELLS:
        os.makedirs(folder.out(cell))
        Path(folder.out(cell), "best.pt").write_bytes(cell.encode() * 3_000_000)
        Path(folder.out(cell), "deep").mkdir()
        Path(folder.out(cell), "deep", "m.json").write_text('{"loss": 1}')
        Path(folder.out(cell), "scratch.tmp").write_text("not promised")
    (tmp_path / "tier").mkdir()
    write_plan(folder, tmp_path / "tier")
    return folder


def write_plan(folder: RunFolder, tier: Path, **environment: object) -> None:
    environment = {"durable": str(tier), "durable_is_folder": True, **environment}
    plan = {"cells": CELLS, "patterns": ["best.pt", "deep/**"], "plan_sha256": "p", "environment": environment}
    Path(folder.plan).write_text(json.dumps(plan))


def export(folder: RunFolder, tmp_path: Path) -> Path:
    return tmp_path / "tier" / "leasehold" / "export" / folder.run


def outcome(folder: RunFolder) -> dict[str, object]:
    return dict(durable.outcome_of(folder))


def test_promised_files_arrive_whole_and_nothing_else(run: RunFolder, tmp_path: Path) -> None:
    assert durable.copy_run(run) == 0
    there = export(run, tmp_path)
    names = sorted(str(path.relative_to(there)) for path in there.rglob("*") if path.is_file())
    assert names == [
        "cells/a/best.pt",
        "cells/a/deep/m.json",
        "cells/b/best.pt",
        "cells/b/deep/m.json",
        "manifest.json",
    ]
    sealed = json.loads((there / "manifest.json").read_text())
    for cell, entries in sealed["cells"].items():
        for entry in entries:
            assert hashlib.sha256((there / "cells" / cell / entry["path"]).read_bytes()).hexdigest() == entry["sha256"]
    assert outcome(run)["files"] == 4
    assert not (tmp_path / "tier" / "leasehold" / ".partial" / run.run).exists()


def test_the_second_copy_finds_it_done(run: RunFolder, tmp_path: Path) -> None:
    durable.copy_run(run)
    before = (export(run, tmp_path) / "cells/a/best.pt").stat()
    assert durable.copy_run(run) == 0
    assert outcome(run)["how"] == "was there already"
    assert (export(run, tmp_path) / "cells/a/best.pt").stat().st_ino == before.st_ino


def test_a_damaged_copy_is_made_again_and_the_old_one_is_kept_aside(run: RunFolder, tmp_path: Path) -> None:
    durable.copy_run(run)
    damaged = export(run, tmp_path) / "cells/a/best.pt"
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    assert durable.copy_run(run) == 0
    assert damaged.read_bytes() == b"a" * 3_000_000
    assert len(list(export(run, tmp_path).parent.glob(run.run + "--*"))) == 1


def test_an_interrupted_copy_goes_on_with_what_is_whole(run: RunFolder, tmp_path: Path) -> None:
    partial = tmp_path / "tier" / "leasehold" / ".partial" / run.run / "cells" / "a"
    partial.mkdir(parents=True)
    (partial / "best.pt").write_bytes(b"a" * 3_000_000)
    (partial / "old.part").write_bytes(b"half")
    kept = (partial / "best.pt").stat().st_ino
    assert durable.copy_run(run) == 0
    assert (export(run, tmp_path) / "cells/a/best.pt").stat().st_ino == kept
    assert not (export(run, tmp_path) / "cells/a/old.part").exists()


def test_a_promise_that_is_not_kept_fails_the_copy(run: RunFolder, tmp_path: Path) -> None:
    Path(run.out("b"), "best.pt").unlink()
    assert durable.copy_run(run) == 2
    assert "nothing matches the promised artifact 'best.pt'" in str(outcome(run)["problem"])
    assert not export(run, tmp_path).exists()


def test_bytes_that_do_not_read_back_fail_the_copy(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that says yes and keeps something else."""
    honest = durable.write_all

    def lies(fd: int, data: bytes) -> None:
        honest(fd, b"z" + data[1:] if data[:1] == b"b" else data)

    monkeypatch.setattr(durable, "write_all", lies)
    assert durable.copy_run(run) == 2
    assert "b/best.pt differs from what was written" in str(outcome(run)["problem"])
    assert not export(run, tmp_path).exists()


@pytest.mark.parametrize(
    "short, said", [("f_favail", "inodes left, the copy needs"), ("f_bavail", "MB free, the copy needs")]
)
def test_a_tier_that_is_too_full_is_said_before_the_first_byte(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: str, said: str
) -> None:
    real = os.statvfs

    def full(path: str) -> os.statvfs_result:
        found = real(path)
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail", "f_flag")
        values = {name: getattr(found, name) for name in names} | {"f_files": 200_000, short: 3}
        return os.statvfs_result([*values.values(), 255])

    monkeypatch.setattr(os, "statvfs", full)
    assert durable.copy_run(run) == 2
    assert said in str(outcome(run)["problem"])


def test_a_tier_that_is_not_there_is_no_failure(run: RunFolder, tmp_path: Path) -> None:
    platform = run.platform()
    assert durable.why_not(platform) == ""
    assert "is no mount" in durable.why_not({**platform, "durable_is_folder": False})
    assert durable.why_not({"durable": "/nowhere at all"}) == "/nowhere at all is not attached"
    assert durable.why_not({}) == "the platform has no durable tier"
