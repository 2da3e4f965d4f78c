"""The checked copy: whole and read back, or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from leasehold.caretaker.artifacts import durable_copier
from leasehold.caretaker.artifacts.durable_watch import GIVE_UP_S, DurableCopy, outcome_of
from leasehold.caretaker.process import child_worker
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.refuge import read_back

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
    return dict(outcome_of(folder))


def test_promised_files_arrive_whole_and_nothing_else(run: RunFolder, tmp_path: Path) -> None:
    assert durable_copier.copy_run(run) == 0
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
    durable_copier.copy_run(run)
    before = (export(run, tmp_path) / "cells/a/best.pt").stat()
    assert durable_copier.copy_run(run) == 0
    assert outcome(run)["how"] == "was there already"
    assert (export(run, tmp_path) / "cells/a/best.pt").stat().st_ino == before.st_ino


def test_a_damaged_copy_is_made_again_and_the_old_one_is_kept_aside(run: RunFolder, tmp_path: Path) -> None:
    durable_copier.copy_run(run)
    damaged = export(run, tmp_path) / "cells/a/best.pt"
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    assert durable_copier.copy_run(run) == 0
    assert damaged.read_bytes() == b"a" * 3_000_000
    assert len(list(export(run, tmp_path).parent.glob(run.run + "--*"))) == 1


def test_an_interrupted_copy_goes_on_with_what_is_whole(run: RunFolder, tmp_path: Path) -> None:
    partial = tmp_path / "tier" / "leasehold" / ".partial" / run.run / "cells" / "a"
    partial.mkdir(parents=True)
    (partial / "best.pt").write_bytes(b"a" * 3_000_000)
    (partial / "old.part").write_bytes(b"half")
    kept = (partial / "best.pt").stat().st_ino
    assert durable_copier.copy_run(run) == 0
    assert (export(run, tmp_path) / "cells/a/best.pt").stat().st_ino == kept
    assert not (export(run, tmp_path) / "cells/a/old.part").exists()


def test_a_promise_that_is_not_kept_fails_the_copy(run: RunFolder, tmp_path: Path) -> None:
    Path(run.out("b"), "best.pt").unlink()
    assert durable_copier.copy_run(run) == 2
    assert "nothing matches the promised artifact 'best.pt'" in str(outcome(run)["problem"])
    assert not export(run, tmp_path).exists()


def meddle(monkeypatch: pytest.MonkeyPatch, moment: str, act: Callable[[], object]) -> None:
    """Do something to the tier at a moment of the copy: what a filesystem that lies would have done."""
    monkeypatch.setattr(durable_copier, "pause_at", lambda event, phase: act() if event == moment else None)


LIES = {
    "other-bytes": (lambda path: path.write_bytes(b"z" * path.stat().st_size), "differs from what was written"),
    "truncated": (lambda path: os.truncate(path, 17), "has 17 bytes, written were"),
    "emptied": (lambda path: os.truncate(path, 0), "has 0 bytes"),
    "grown": (lambda path: os.truncate(path, 9_000_000), "has 9000000 bytes"),
    "gone": (lambda path: path.unlink(), "is not there"),
    "all-gone": (lambda path: shutil.rmtree(path.parents[5]), "is not there"),
    "a-link": (lambda path: (path.rename(str(path) + ".x"), path.symlink_to(str(path) + ".x")), "written were"),
}


@pytest.mark.parametrize("lie, said", list(LIES.values()), ids=list(LIES))
def test_a_tier_that_keeps_something_else_fails_the_copy(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Callable[[Path], object], said: str
) -> None:
    written = tmp_path / "tier" / "leasehold" / ".partial" / run.run / "cells" / "b" / "best.pt"
    meddle(monkeypatch, "durable_written", lambda: lie(written))
    assert durable_copier.copy_run(run, lag_s=0.2) == 2
    assert "b/best.pt " in str(outcome(run)["problem"]) or "a/deep/m.json is not there" in str(outcome(run)["problem"])
    assert said in str(outcome(run)["problem"])
    assert not export(run, tmp_path).exists()


def test_a_manifest_that_does_not_read_back_takes_the_name_away_again(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = tmp_path / "tier" / "leasehold" / ".partial" / run.run
    meddle(monkeypatch, "durable_written", lambda: (partial / "manifest.json").write_bytes(b"{}"))
    assert durable_copier.copy_run(run, lag_s=0.2) == 2
    assert "does not show what was written" in str(outcome(run)["problem"])
    assert not export(run, tmp_path).exists()
    monkeypatch.undo()
    assert durable_copier.copy_run(run) == 0


def test_a_tier_that_shows_a_file_late_is_waited_for(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "tier" / "leasehold" / ".partial" / run.run / "cells" / "b" / "best.pt"
    hidden = tmp_path / "hidden"
    looks: List[str] = []

    def size_of(path: str) -> int:
        looks.append(path)
        if hidden.exists() and looks.count(str(written)) > 3:
            hidden.rename(written)
        return read_back.size_of(path)

    meddle(monkeypatch, "durable_written", lambda: written.rename(hidden))
    monkeypatch.setattr(durable_copier, "size_of", size_of)
    assert durable_copier.copy_run(run) == 0, outcome(run)
    assert (export(run, tmp_path) / "cells/b/best.pt").read_bytes() == b"b" * 3_000_000


def test_a_run_without_cells_or_files_has_nothing_to_claim(run: RunFolder, tmp_path: Path) -> None:
    plan = json.loads(Path(run.plan).read_text())
    Path(run.plan).write_text(json.dumps({**plan, "cells": []}))
    assert durable_copier.copy_run(run) == 2
    assert "the roster is empty" in str(outcome(run)["problem"])
    assert not export(run, tmp_path).exists()


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_a_file_is_hashed_past_the_cache_whatever_its_size(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    counted: List[int] = []
    assert read_back.sha256_of(str(tmp_path / "file"), counted.append) == hashlib.sha256(data).hexdigest()
    assert sum(counted) == size


# ---------------------------------------------------------------- the caretaker's side


class Clock:
    """A clock that a test moves."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Watched:
    """A copy under way, as the caretaker sees it."""

    def __init__(self, run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        code = "import sys; from leasehold.caretaker.entry import main; sys.exit(main(sys.argv[1:]))"
        monkeypatch.setattr(child_worker, "own_argv", lambda *words: [sys.executable, "-c", code, *words])
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        self.clock = Clock()
        self.notes: List[Dict[str, Any]] = []
        self.copy = DurableCopy(
            run, {"cells": CELLS}, lambda kind, **data: self.notes.append({"k": kind, **data}), self.clock
        )

    def step(self) -> bool:
        return self.copy.step(lambda: None)

    def kinds(self) -> List[str]:
        return [str(note["k"]) for note in self.notes]

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < deadline, self.notes
            time.sleep(0.01)


def test_the_caretaker_tells_a_copy_once_it_is_whole(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(run, monkeypatch)
    watched.until(watched.step)
    assert watched.copy.problem == ""
    assert [kind for kind in watched.kinds() if kind != "durable_started"] == ["durable_copied"] * 2


def test_a_tier_that_is_not_attached_is_said_and_is_no_failure(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plan(run, Path("/nowhere at all"))
    watched = Watched(run, monkeypatch)
    watched.until(watched.step)
    assert watched.copy.problem == ""
    assert watched.notes == [{"k": "durable_skipped", "why": "/nowhere at all is not attached"}]


def test_a_tier_that_answers_no_more_is_told_and_given_up(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that nobody reads stands in the copier's way, as a mount whose server is gone does."""
    place = tmp_path / "tier" / "leasehold" / ".partial" / run.run / "cells" / "a"
    place.mkdir(parents=True)
    os.mkfifo(str(place / "best.pt.part"))
    watched = Watched(run, monkeypatch)
    watched.step()
    watched.until(lambda: watched.step() or "durable_started" in watched.kinds())
    small = [place.parent / cell / "deep" / "m.json" for cell in CELLS]
    watched.until(lambda: all(path.exists() for path in small))  # these come first, and show progress
    assert not watched.step()
    for silent_s in (31, 40, 70, 150):
        watched.clock.now_s = 1000.0 + silent_s
        assert not watched.step()
    told = [note["silent_s"] for note in watched.notes if note["k"] == "durable_waiting"]
    assert told == [31, 70, 150]
    watched.clock.now_s += GIVE_UP_S
    assert watched.step()
    assert "has not answered for 750 s" in watched.copy.problem
    assert watched.kinds()[-1] == "durable_failed"
    assert not export(run, tmp_path).exists()


def test_a_copier_that_is_killed_fails_the_copy(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tier" / "leasehold" / ".partial" / run.run / "cells" / "a"
    place.mkdir(parents=True)
    os.mkfifo(str(place / "best.pt.part"))
    watched = Watched(run, monkeypatch)
    watched.step()
    watched.until(lambda: watched.step() or "durable_started" in watched.kinds())
    watched.copy.end()
    watched.until(watched.step)
    assert "ended without an outcome" in watched.copy.problem


def test_a_run_that_only_fetched_has_nothing_to_copy(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(run, monkeypatch)
    watched.copy.cells = []
    assert watched.step()
    assert watched.notes == []


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
    assert durable_copier.copy_run(run) == 2
    assert said in str(outcome(run)["problem"])


def test_a_tier_that_is_not_there_is_no_failure(run: RunFolder, tmp_path: Path) -> None:
    platform = run.platform()
    assert durable_copier.why_not(platform) == ""
    assert "is no mount" in durable_copier.why_not({**platform, "durable_is_folder": False})
    assert durable_copier.why_not({"durable": "/nowhere at all"}) == "/nowhere at all is not attached"
    assert durable_copier.why_not({}) == "the platform has no durable tier"


def test_a_folder_a_person_named_must_be_on_another_file_system(tmp_path: Path) -> None:
    named = {"durable": str(tmp_path), "durable_apart": True}
    run = tmp_path / "run"
    run.mkdir()
    assert "is on the same file system as the run" in durable_copier.why_not(named, str(run))
    assert durable_copier.why_not(named, "/proc") == "", "it need not be a mount itself"
