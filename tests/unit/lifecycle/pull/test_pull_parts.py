"""The parts of a pull: ranges, the pace, what is ignored, what is remembered, what is evacuated."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import RunFailed
from leasehold.lifecycle.project.code_tree import read_tree
from leasehold.lifecycle.project.leaseignore import LeaseIgnore
from leasehold.lifecycle.pull.files.spans import Spans
from leasehold.lifecycle.pull.rate import Limiter, Pace
from leasehold.lifecycle.results.bring_home import PullWish
from leasehold.lifecycle.results.evacuate import evacuate
from leasehold.model.run.note import Note
from leasehold.model.values.units import parse_rate
from tests.support.fake_box import FakeChart, FakeEngine
from tests.unit.lifecycle.conftest import FILES


def test_spans_are_a_set_of_numbers():
    """Random adds and removes agree with a plain set."""
    chance = random.Random(7)
    for _ in range(200):
        spans, numbers = Spans(), set()
        for _ in range(30):
            start, end = sorted(chance.sample(range(40), 2))
            if chance.random() < 0.7:
                spans.add(start, end)
                numbers |= set(range(start, end))
            else:
                spans.remove(start, end)
                numbers -= set(range(start, end))
            assert {number for one, other in spans for number in range(one, other)} == numbers
            assert spans.total == len(numbers)
            assert {n for one, other in spans.gaps(40) for n in range(one, other)} == set(range(40)) - numbers
            assert spans.covers(start, end) == (set(range(start, end)) <= numbers)
        edges = list(spans)
        assert all(edges[i][1] < edges[i + 1][0] for i in range(len(edges) - 1)), "what touches is one"


def test_the_limit_holds_over_all_streams():
    now, slept = [0.0], []

    def sleep(pause):
        slept.append(pause)
        now[0] += pause

    limiter = Limiter(1000.0, clock=lambda: now[0], sleep=sleep)
    for _ in range(10):
        limiter.pass_through(500)
    assert now[0] == pytest.approx(5.0)
    Limiter(0.0, sleep=lambda pause: pytest.fail("waited")).pass_through(10**9)


def test_progress_says_rate_and_time_left_of_the_last_seconds():
    now, notes = [0.0], []
    pace = Pace(notes.append, clock=lambda: now[0])
    for _ in range(10):
        now[0] += 1.0
        pace.add(2_000_000)
        pace.tick(900_000_000 + pace.fetched_bytes, 1_000_000_000, 3)
    said: Note = notes[-1]
    assert (said.kind, said.data["bytes_per_s"]) == ("pulling", pytest.approx(2_000_000, rel=0.01))
    assert said.data["eta_s"] == pytest.approx(40, rel=0.05)
    assert "2.0 MB/s over 3 connections" in said.text
    for _ in range(8):
        now[0] += 1.0
        pace.tick(920_000_000, 1_000_000_000, 3)
    assert notes[-1].data["eta_s"] is None
    assert "nothing came" in notes[-1].text


@pytest.mark.parametrize("text, rate", [("10MB", 10e6), ("2MiB/s", 2 * 1024**2), (" 500kB/s ", 5e5)])
def test_a_rate_is_read_as_people_write_it(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["fast", "10", "5B/s", "-1MB", ""])
def test_what_is_no_rate_says_how_to_write_one(text):
    with pytest.raises(ValueError, match="write it like 10MB"):
        parse_rate(text)


# ---------------------------------------------------------------- code


@pytest.mark.parametrize(
    "lines, gone, kept",
    [
        (["data/"], ["data/a", "x/data/b"], ["data", "mydata/a"]),
        (["/data"], ["data/a", "data"], ["x/data/a"]),
        (["*.ckpt", "!keep.ckpt"], ["a.ckpt", "x/b.ckpt"], ["keep.ckpt", "x/keep.ckpt", "a.ckpt.py"]),
        (["docs/*.md"], ["docs/a.md"], ["docs/x/a.md", "a.md"]),
        (["# comment", "", "notes"], ["notes", "x/notes", "notes/deep/x"], ["# comment", "notes2"]),
        (["a/**/z"], ["a/z", "a/b/c/z"], ["z", "b/a/z"]),
        (["\\#odd"], ["#odd"], ["odd"]),
    ],
)
def test_leaseignore_speaks_gitignore(lines, gone, kept):
    ignore = LeaseIgnore(lines)
    assert [path for path in gone if not ignore.ignores(path)] == []
    assert [path for path in kept if ignore.ignores(path)] == []


def test_what_leaseignore_names_stays_at_home(tmp_path):
    for path in ("train.py", "data/big.bin", "data/keep.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / ".leaseignore").write_text("*.bin\n")
    assert [entry["path"] for entry in read_tree(tmp_path).entries] == [".leaseignore", "data/keep.txt", "train.py"]


def test_a_file_that_has_not_changed_is_not_hashed_again(tmp_path, monkeypatch):
    project, memory = tmp_path / "project", tmp_path / "cache" / "memory.json"
    project.mkdir()
    for name in ("old.py", "young.py"):
        (project / name).write_text(name)
    written_ns = os.stat(project / "old.py").st_mtime_ns
    with monkeypatch.context() as clock:
        clock.setattr("leasehold.lifecycle.project.hash_cache.time.time_ns", lambda: written_ns + 10**9)
        first = read_tree(project, memory=memory)
    assert not memory.exists(), "what was written a moment ago is not believed"
    past = time.time_ns() - 10**10
    info = os.stat(project / "old.py")
    os.utime(project / "old.py", ns=(past, past))
    wrong = [info.st_size, past, os.stat(project / "old.py").st_ctime_ns, info.st_ino, "f" * 64]
    memory.parent.mkdir()
    memory.write_text(json.dumps({"schema": 1, "files": {"old.py": wrong}}))
    sums = {entry["path"]: entry["sha256"] for entry in read_tree(project, memory=memory).entries}
    assert sums["old.py"] == "f" * 64, "taken from the memory"
    (project / "old.py").write_text("OLD.PY")
    sums = {entry["path"]: entry["sha256"] for entry in read_tree(project, memory=memory).entries}
    assert sums["old.py"] not in ("f" * 64, first.entries[0]["sha256"])


def test_few_edited_files_are_told_from_those_that_were_known(tmp_path, monkeypatch):
    project, memory = tmp_path / "project", tmp_path / "memory.json"
    project.mkdir()
    for number in range(5):
        (project / f"{number}.py").write_text(str(number))
    later_ns = time.time_ns() + 60 * 10**9
    with monkeypatch.context() as clock:
        clock.setattr("leasehold.lifecycle.project.hash_cache.time.time_ns", lambda: later_ns)
        assert read_tree(project, memory=memory).changed == (), "all of it is new: the box is asked first"
    (project / "3.py").write_text("three")
    assert [entry["path"] for entry in read_tree(project, memory=memory).changed] == ["3.py"]
    (project / "3.py").write_text("x" * 300_000)
    assert read_tree(project, memory=memory).changed == (), "too much to send unasked"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": 2, "files": {"a": 1}}'])
def test_a_broken_memory_is_only_slower(tmp_path, text):
    (tmp_path / "a.py").write_text("x")
    memory = tmp_path.parent / f"{tmp_path.name}.json"
    memory.write_text(text)
    assert len(read_tree(tmp_path, memory=memory).entries) == 1


# ---------------------------------------------------------------- evacuation


def take(scene):
    with scene.box.connect() as engine:
        return evacuate(scene.ledger, scene.record, engine, scene.notes.append, PullWish())  # type: ignore[arg-type]


def evacuated(scene):
    root = scene.folders.evacuated / "cells" / "main"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_a_live_run_has_finished_comes_home_without_a_receipt(new_scene):
    scene = new_scene()
    scene.write(FILES)
    done = take(scene)
    assert evacuated(scene) == FILES
    assert (done.files, done.new_files) == (2, 2)
    assert scene.kinds[-1] == "evacuated"
    assert scene.record.receipt_json == ""
    assert not scene.folders.export.exists()


def test_a_second_evacuation_fetches_only_news_and_replaces_if_proved(new_scene):
    scene = new_scene()
    scene.write(FILES)
    take(scene)
    asked: list[str] = []

    def watch(path, offset, data):
        asked.append(path)
        old = (scene.folders.evacuated / "cells" / "main" / "metrics.json").read_bytes()
        assert old == FILES["metrics.json"], "the older copy stays until the newer one is proved"
        yield data

    scene.box.on_get = watch
    scene.write({"metrics.json": b'{"loss": 0.125}'})
    done = take(scene)
    assert asked == ["metrics.json"]
    assert (done.files, done.new_files) == (2, 1)
    assert evacuated(scene) == {**FILES, "metrics.json": b'{"loss": 0.125}'}
    events = [event for event in scene.ledger.events(run="toy-1") if event.kind == "evacuated"]
    assert events[-1].data["new"] == ["main/metrics.json"]
    take(scene)
    assert scene.kinds.count("evacuated") == 2, "nothing new is no event"


def test_what_was_evacuated_is_not_fetched_again_in_the_end(new_scene):
    scene = new_scene()
    scene.write(FILES)
    take(scene)
    scene.run.end("finished")
    scene.box.on_get = lambda path, offset, data: pytest.fail("fetched again")
    receipt = scene.pull()
    assert receipt.files == 2
    assert scene.record.receipt_json


def test_after_a_quarantine_only_what_was_wrong_is_fetched(new_scene):
    scene = new_scene().finish({**FILES, "metrics.json": b'{"loss": '})
    with pytest.raises(Exception, match="do not load"):
        scene.pull()
    scene.write({"metrics.json": b'{"loss": 1.0}'})
    asked: list[str] = []
    scene.box.on_get = lambda path, offset, data: iter([asked.append(path) or data])
    scene.pull()
    assert asked == ["metrics.json"]


def test_a_run_that_has_finished_nothing_says_so(new_scene, monkeypatch):
    scene = new_scene()
    nothing = [{"listed": 0}, b"{}"]

    def chart(self: FakeEngine, run: str, *rest: Any, look: bool = False) -> FakeChart:
        return FakeChart(iter([{"seen": self.look(run)}] if look else nothing))

    monkeypatch.setattr(FakeEngine, "chart", chart)
    with pytest.raises(RunFailed) as caught:
        take(scene)
    assert caught.value.code == "run.unfinished"
    assert not Path(scene.folders.evacuated).exists()
