"""Bring home: resumable, bounded, verified; whatever dies or lies, nothing good is lost and nothing bad accepted."""

from __future__ import annotations

import itertools
import json
import os
import threading
from hashlib import sha256

import pytest

from leasehold.errors import HomeError, LinkError, RunFailed, VerifyError
from leasehold.kit.files.canonical_json import canonical
from leasehold.ledger import books
from leasehold.ledger.store import Ledger
from leasehold.lifecycle.results import bring_home as stage
from leasehold.lifecycle.results.salvage import salvage
from leasehold.lifecycle.results.verify import home_damage, read_receipt
from leasehold.model.job.job import Artifact
from tests.unit.lifecycle.conftest import FILES, WEIGHTS


class Crash(BaseException):
    """A kill at this very line."""


def home_files(scene):
    root = scene.folders.export / "cells" / "main"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def assert_home(scene, files=FILES):
    """Everything is home, the ledger knows it, and nothing half is left."""
    assert home_files(scene) == files
    receipt = read_receipt(scene.folders.export)
    assert books.receipt_of(scene.record) == receipt is not None
    assert home_damage(scene.folders.export, receipt) == ()
    assert scene.record.home_since == str(scene.folders.export)
    assert not scene.folders.partial.exists()


# ---------------------------------------------------------------- the plain way


def test_results_come_home_with_a_receipt(scene):
    receipt = scene.pull()
    assert_home(scene)
    assert (receipt.run, receipt.cells, receipt.files) == ("toy-1", ("main",), 2)
    assert receipt.bytes == sum(map(len, FILES.values()))
    assert receipt.manifest_sha256 == sha256((scene.folders.export / "manifest.json").read_bytes()).hexdigest()
    assert {load["path"]: load["kind"] for load in receipt.loads} == {
        "main/metrics.json": "json",
        "main/weights/best.bin": "bytes",
    }
    assert scene.kinds == ["run_planned", "run_seen", "manifest_taken", "receipt_written"]
    assert scene.box.open_wires == 0


def test_the_evidence_lies_beside_the_results(scene):
    scene.pull()
    evidence = scene.folders.export / "evidence"
    assert (evidence / "main" / "attempt-0001" / "log").read_bytes() == b"epoch 1\n"
    assert (evidence / "journal.jsonl").exists()
    assert not (evidence / "main" / "attempt-0001" / "exit.json").exists(), "an attempt may have none"
    facts = json.loads((scene.folders.export / "run.json").read_bytes())
    assert (facts["run"], facts["plan_sha256"]) == ("toy-1", scene.plan.sha256)


def test_the_second_call_finds_it_done_and_fetches_nothing(scene):
    first = scene.pull()
    scene.box.on_get = lambda path, offset, data: pytest.fail("fetched again")
    assert scene.pull() == first
    assert scene.notes[-1].kind == "already_home"
    assert scene.kinds.count("receipt_written") == 1


def test_results_may_go_anywhere(new_scene, odd_name):
    scene = new_scene(odd_name).finish()
    scene.pull()
    assert_home(scene)


def test_results_may_have_any_name(new_scene, odd_name):
    scene = new_scene(artifacts=(Artifact("**", "bytes"),)).finish({f"{odd_name}/{odd_name}": b"x"})
    scene.pull()
    assert_home(scene, {f"{odd_name}/{odd_name}": b"x"})


def test_every_cell_comes_home(new_scene):
    scene = new_scene(cells=("a", "b")).finish()
    assert scene.pull().cells == ("a", "b")


def test_of_a_failed_sweep_the_finished_cells_come_home(new_scene):
    scene = new_scene(cells=("a", "b")).finish()
    scene.run.state, scene.run.cell_states["b"] = "failed", "failed"
    assert scene.pull().cells == ("a",)


def test_a_folder_of_results_is_kept_out_of_git(scene):
    scene.pull()
    assert (scene.folder / "results" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("state, code", [("running", "run.unfinished"), ("failed", "run.no_result")])
def test_what_has_no_result_is_not_brought_home(new_scene, state, code):
    scene = new_scene()
    scene.run.end(state)
    with pytest.raises(RunFailed) as caught:
        scene.pull()
    assert caught.value.code == code
    assert caught.value.hint


# ---------------------------------------------------------------- lost links and kills


def cut_after(count, log):
    """Answer every get with at most count bytes, then lose the link."""

    def get(path, offset, data):
        log.append((path, offset))
        yield data[:count]
        if len(data) > count:
            raise LinkError("link.lost", "cut")

    return get


@pytest.mark.parametrize("count", [17, 63, 100, 767])
def test_a_cut_pull_goes_on_where_it_was(scene, count):
    asked: list[tuple[str, int]] = []
    scene.box.on_get = cut_after(count, asked)
    for _ in range(2000):
        try:
            scene.pull()
            break
        except LinkError:
            assert "receipt_written" not in scene.kinds
    assert_home(scene)
    offsets = [offset for path, offset in asked if path == "weights/best.bin"]
    assert offsets == list(range(0, len(WEIGHTS), count))[: len(offsets)], "nothing was fetched twice"


def spoil_a_byte(path):
    path.write_bytes(b"\xff" + path.read_bytes()[1:])


def make_longer(path):
    path.write_bytes(path.read_bytes() + b"more than promised" * 100)


def make_other(path):
    path.write_bytes(b"\0" * len(WEIGHTS))


@pytest.mark.parametrize("spoil", [spoil_a_byte, make_longer, make_other])
def test_a_spoiled_part_is_fetched_again(scene, spoil):
    scene.box.on_get = cut_after(100, [])
    with pytest.raises(LinkError):
        scene.pull()
    part = scene.folders.partial / "cells" / "main" / "weights" / "best.bin"
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(WEIGHTS[:100])
    spoil(part)
    scene.box.on_get = None
    scene.pull()
    assert_home(scene)


def test_a_kill_at_any_step_is_survived(new_scene, monkeypatch):
    """Crash at the n-th rename, ledger entry or atomic write, for every n; the same call then completes."""
    for number in itertools.count(1):
        scene = new_scene(f"kill-{number}").finish()
        crashed = crash_at(number, scene, monkeypatch)
        scene.pull()
        assert_home(scene)
        assert scene.quarantined() == []
        if not crashed:
            break
    assert number > 4


def test_a_kill_at_any_step_of_a_second_pull_is_survived(new_scene, monkeypatch):
    """The same with an older export in the way: that one must never vanish."""
    new = {**FILES, "metrics.json": b'{"loss": 0.125}'}
    for number in itertools.count(1):
        scene = new_scene(f"kill-{number}").finish()
        scene.pull()
        scene.write(new)
        crashed = crash_at(number, scene, monkeypatch)
        scene.pull()
        assert_home(scene, new)
        (old,) = scene.quarantined()
        assert (old / "cells" / "main" / "metrics.json").read_bytes() == FILES["metrics.json"]
        if not crashed:
            break
    assert number > 5


def crash_at(number, scene, monkeypatch):
    """Pull, and crash at the number-th step that changes something; tell whether there were so many."""
    steps = itertools.count(1)

    def stepping(real):
        def step(*args, **kwargs):
            if next(steps) == number:
                raise Crash
            return real(*args, **kwargs)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", stepping(os.rename))
        patch.setattr(Ledger, "append", stepping(Ledger.append))
        patch.setattr(stage, "write_atomic", stepping(stage.write_atomic))
        patch.setattr("leasehold.lifecycle.results.verify.write_json", stepping(stage.write_json))
        try:
            scene.pull()
        except Crash:
            return True
    return False


def test_a_kill_between_rename_and_ledger_is_recovered_without_fetching(scene, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(stage, "_record_receipt", lambda *_: (_ for _ in ()).throw(Crash()))
        with pytest.raises(Crash):
            scene.pull()
    assert books.receipt_of(scene.record) is None
    scene.box.on_get = lambda path, offset, data: pytest.fail("fetched again")
    scene.pull()
    assert_home(scene)


def test_two_pulls_at_once_fetch_once(scene):
    """The second waits for the first and finds the work done."""
    started, go = threading.Event(), threading.Event()
    fetched: list[str] = []

    def slow(path, offset, data):
        fetched.append(path)
        started.set()
        assert go.wait(60)
        yield data

    scene.box.on_get = slow
    receipts, failures = [], []

    def pull():
        own = Ledger(scene.ledger.path)
        try:
            record = books.find_run(own, "toy-1")
            receipts.append(stage.bring_home(own, record, scene.box.connect(), scene.notes.append))
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            failures.append(error)
        own.close()

    threads = [threading.Thread(target=pull) for _ in range(2)]
    threads[0].start()
    assert started.wait(60)
    threads[1].start()
    while not any(note.kind == "waiting" for note in scene.notes):
        assert threads[1].is_alive()
    go.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert receipts[0] == receipts[1]
    assert sorted(fetched) == sorted(FILES)


# ---------------------------------------------------------------- what came is not what was promised


def always_wrong(path, offset, data):
    yield b"\0" * len(data)


def too_much(path, offset, data):
    yield data
    for _ in range(1000):
        yield b"x" * 1000
    pytest.fail("took far more than was promised")


def too_little(path, offset, data):
    yield data[:-1]


@pytest.mark.parametrize("lie", [always_wrong, too_little])
def test_a_file_that_arrives_different_twice_is_refused_and_kept_aside(scene, lie):
    scene.box.on_get = lie
    with pytest.raises(VerifyError) as caught:
        scene.pull()
    assert caught.value.code == "artifact.hash_differs"
    (place,) = scene.quarantined()
    assert place.name.startswith("toy-1--")
    reason = json.loads((place / "reason.json").read_bytes())
    assert (reason["code"], reason["message"]) == ("artifact.hash_differs", caught.value.message)
    assert str(place) in caught.value.hint
    assert not scene.folders.export.exists()
    assert books.receipt_of(scene.record) is None
    assert scene.kinds[-1] == "quarantined"
    scene.box.on_get = None
    scene.pull()
    assert_home(scene)


def test_more_than_was_asked_for_is_not_taken(scene):
    scene.box.on_get = too_much
    try:
        scene.pull()
    except VerifyError as error:  # what is too much stands where the file's sum should: no sum of the box's came first
        assert "arrived different" in error.message
        assert books.receipt_of(scene.record) is None
    else:
        assert_home(scene)


def test_a_file_that_is_wrong_once_is_fetched_again(scene):
    wrong = iter([True])
    scene.box.on_get = lambda path, offset, data: iter([b"\0" * len(data) if next(wrong, False) else data])
    scene.pull()
    assert_home(scene)


def test_an_artifact_that_does_not_load_is_refused_and_kept_aside(new_scene):
    scene = new_scene().finish({**FILES, "metrics.json": b'{"loss": '})
    with pytest.raises(VerifyError) as caught:
        scene.pull()
    assert caught.value.code == "artifact.does_not_load"
    (place,) = scene.quarantined()
    assert (place / "cells" / "main" / "metrics.json").read_bytes() == b'{"loss": '
    assert json.loads((place / "reason.json").read_bytes())["code"] == "artifact.does_not_load"
    assert not (place / "receipt.json").exists()
    assert books.receipt_of(scene.record) is None


def test_a_missing_promise_is_refused(new_scene):
    scene = new_scene().finish({"metrics.json": b"{}"})
    with pytest.raises(VerifyError) as caught:
        scene.pull()
    assert caught.value.code == "artifact.unsealable"
    assert "weights/*" in caught.value.message


def test_an_older_export_is_set_aside_not_overwritten(scene):
    first = scene.pull()
    scene.write({"metrics.json": b'{"loss": 0.125}'})
    second = scene.pull()
    assert second.digest != first.digest
    (place,) = scene.quarantined()
    assert "superseded" in place.name
    assert (place / "cells" / "main" / "metrics.json").read_bytes() == FILES["metrics.json"]
    assert read_receipt(place) == first
    assert scene.kinds[-2:] == ["receipt_void", "receipt_written"]
    assert_home(scene, {**FILES, "metrics.json": b'{"loss": 0.125}'})


def test_a_damaged_export_is_replaced_and_kept_aside(scene):
    scene.pull()
    (scene.folders.export / "cells" / "main" / "metrics.json").write_bytes(b"damaged")
    scene.pull()
    assert_home(scene)
    (place,) = scene.quarantined()
    assert (place / "cells" / "main" / "metrics.json").read_bytes() == b"damaged"


def test_parts_of_an_older_manifest_do_not_stay(new_scene):
    """Between two pulls the trainer replaced files by others, one of them a folder where a file was."""
    scene = new_scene(artifacts=(Artifact("**", "bytes"),)).finish({"a": b"1" * 100, "b/c": b"2" * 100, "same": b"3"})
    scene.box.on_get = lambda path, offset, data: cut_after(0 if path == "same" else 100, [])(path, offset, data)
    with pytest.raises(LinkError):
        scene.pull()
    for path in ("a", "b/c"):
        (scene.run.out("main") / path).unlink()
    (scene.run.out("main") / "b").rmdir()
    scene.write({"a/now": b"4" * 100, "b": b"5" * 100})
    scene.box.on_get = None
    scene.pull()
    assert_home(scene, {"a/now": b"4" * 100, "b": b"5" * 100, "same": b"3"})


# ---------------------------------------------------------------- a home without room


class Disk:
    """What statvfs says of a nearly full disk."""

    def __init__(self, free_bytes, free_inodes):
        self.f_frsize, self.f_blocks, self.f_bfree = 1, 1 << 41, free_bytes
        self.f_bavail, self.f_favail, self.f_files = free_bytes, free_inodes, 10**6


def test_a_full_disk_is_refused_before_a_byte_is_fetched(scene, monkeypatch):
    scene.box.on_get = lambda path, offset, data: pytest.fail("fetched")
    monkeypatch.setattr(os, "statvfs", lambda path: Disk(64 << 20, 10**6))
    with pytest.raises(HomeError) as caught:
        scene.pull()
    assert caught.value.code == "home.disk_short"
    assert str(scene.folder / "results") in caught.value.message
    assert "--results" in caught.value.hint
    monkeypatch.undo()
    scene.box.on_get = None
    scene.pull()
    assert_home(scene)


def test_what_is_already_here_needs_no_room(scene, monkeypatch):
    scene.box.on_get = cut_after(len(WEIGHTS) - 1, [])
    with pytest.raises(LinkError):
        scene.pull()
    scene.box.on_get = None
    monkeypatch.setattr(os, "statvfs", lambda path: Disk((64 << 20) + 1, 10**6))
    scene.pull()


def test_a_disk_without_inodes_is_refused(scene, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: Disk(1 << 40, 10))
    with pytest.raises(HomeError) as caught:
        scene.pull()
    assert caught.value.code == "home.inodes_short"


def test_a_filesystem_without_inodes_at_all_is_fine(scene, monkeypatch):
    disk = Disk(1 << 40, 0)
    disk.f_files = 0  # btrfs and others count none
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    scene.pull()


def test_results_that_cannot_be_written_are_refused_with_a_way_out(scene):
    (scene.folder / "results").write_text("a file, not a folder")
    with pytest.raises(HomeError) as caught:
        scene.pull()
    assert caught.value.code == "home.unwritable"
    assert "--results" in caught.value.hint


# ---------------------------------------------------------------- a box that lies


def with_manifest(scene, monkeypatch, change):
    """Let the box send its manifest with a change."""
    real = type(scene.box.connect()).manifest

    def lying(self, run, cells, patterns):
        sent = change(json.loads(real(self, run, cells, patterns)))
        return sent if isinstance(sent, bytes) else canonical(sent)

    monkeypatch.setattr("tests.support.fake_box.FakeEngine.manifest", lying)


def drop_an_artifact(value):
    value["cells"]["main"] = [entry for entry in value["cells"]["main"] if entry["path"] != "weights/best.bin"]
    value["totals"] = {"files": 1, "bytes": value["cells"]["main"][0]["bytes"]}
    return value


def escape(value):
    value["cells"]["main"][0]["path"] = "../../../../escaped.json"
    return value


def stray(value):
    value["cells"]["main"].append({**value["cells"]["main"][0], "path": "nobody-promised.sh"})
    value["totals"] = {"files": 3, "bytes": sum(entry["bytes"] for entry in value["cells"]["main"])}
    return value


LIES = {
    "drops a promised artifact": drop_an_artifact,
    "drops a promised pattern too": lambda value: {**drop_an_artifact(value), "patterns": ["metrics.json"]},
    "escapes": escape,
    "adds what nobody promised": stray,
    "is of another run": lambda value: {**value, "run": "toy-2"},
    "lists another cell": lambda value: {**value, "cells": {"other": value["cells"]["main"]}},
    "lists one cell more": lambda value: {**value, "cells": {**value["cells"], "more": value["cells"]["main"]}},
    "lies about its totals": lambda value: {**value, "totals": {"files": 10**9, "bytes": 1}},
    "has no totals": lambda value: {key: value[key] for key in value if key != "totals"},
    "is no json": lambda value: b"{",
    "is not utf-8": lambda value: b"\xff",
    "is a list": lambda value: [],
    "is too deep": lambda value: b"[" * 100000,
    "is empty": lambda value: b"",
}


@pytest.mark.parametrize("lie", list(LIES.values()), ids=list(LIES))
def test_a_manifest_that_lies_is_refused_and_nothing_lands_anywhere(scene, monkeypatch, lie):
    before = {path for path in scene.everything() if not path.startswith("results")}
    with_manifest(scene, monkeypatch, lie)
    with pytest.raises(VerifyError):
        scene.pull()
    assert books.receipt_of(scene.record) is None
    assert not scene.folders.export.exists()
    after = {path for path in scene.everything() if not path.startswith("results")}
    assert {path for path in after - before if "ledger" not in path} == set()


@pytest.mark.parametrize("cell", ["../../../../escaped", "{folder}/escaped", "..", "a/b"])
@pytest.mark.parametrize("attempt", [1, 10**9])
def test_a_cell_that_nobody_planned_brings_no_evidence(scene, monkeypatch, cell, attempt):
    """The names of cells and the count of attempts come from the box: they may not choose where we write."""
    real = type(scene.box.connect()).look

    def lying(self, run):
        seen = real(self, run)
        seen["cells"][cell.format(folder=scene.folder)] = {**seen["cells"]["main"], "attempt": attempt}
        return seen

    monkeypatch.setattr("tests.support.fake_box.FakeEngine.look", lying)
    monkeypatch.setattr(
        "tests.support.fake_box.FakeEngine.get", planted(type(scene.box.connect()).get, b"ssh-ed25519 AAAA evil")
    )
    before = scene.everything()
    scene.pull()
    allowed = ("results/export/toy-1/", "results/export/.partial/.toy-1.lock", "results/.gitignore", "home/ledger")
    assert {path for path in scene.everything() - before if not path.startswith(allowed)} == set()
    assert_home(scene)


def planted(real, content):
    """Answer every request for evidence, whatever it asks for."""

    def get(self, run, area, cell, path, offset=0):
        if area == "out":
            return real(self, run, area, cell, path, offset)
        return iter([content])

    return get


def test_a_planned_cell_with_attempts_beyond_reason_is_bounded(scene, monkeypatch):
    real = type(scene.box.connect()).look

    def lying(self, run):
        seen = real(self, run)
        seen["cells"]["main"]["attempt"] = 10**12
        return seen

    monkeypatch.setattr("tests.support.fake_box.FakeEngine.look", lying)
    scene.pull()
    assert_home(scene)


# ---------------------------------------------------------------- salvage


def test_what_a_cell_left_is_salvaged_promised_or_not(scene):
    scene.write({"scratch/notes.txt": b"n"})
    place = scene.folder / "salvaged"
    kept = salvage(scene.box.connect(), "toy-1", "main", place, scene.notes.append)
    assert {entry["path"]: entry["bytes"] for entry in kept} == {
        **{path: len(content) for path, content in FILES.items()},
        "scratch/notes.txt": 1,
    }
    assert (place / "weights" / "best.bin").read_bytes() == WEIGHTS


@pytest.mark.parametrize("path", ["../../escaped", "/escaped", "caf\udce9", ""])
def test_a_name_that_cannot_be_kept_is_told_and_does_not_stop_the_rest(scene, monkeypatch, path):
    listed = [{"path": path, "bytes": 3}, {"path": "metrics.json", "bytes": 14}]
    monkeypatch.setattr("tests.support.fake_box.FakeEngine.salvageable", lambda self, run, cell: listed)
    before = scene.everything()
    kept = salvage(scene.box.connect(), "toy-1", "main", scene.folder / "salvaged", scene.notes.append)
    assert [entry["path"] for entry in kept if entry["salvaged"]] == ["metrics.json"]
    assert scene.everything() - before == {"salvaged/metrics.json"}
    assert any(note.kind == "not_salvaged" for note in scene.notes)


def test_a_file_unreadable_on_the_box_is_told_and_does_not_stop_the_rest(scene, monkeypatch):
    listed = [{"path": "vanished", "bytes": 3}, {"path": "metrics.json", "bytes": 14}]
    monkeypatch.setattr("tests.support.fake_box.FakeEngine.salvageable", lambda self, run, cell: listed)
    kept = salvage(scene.box.connect(), "toy-1", "main", scene.folder / "salvaged", scene.notes.append)
    assert [entry["path"] for entry in kept if entry["salvaged"]] == ["metrics.json"]
    assert not (scene.folder / "salvaged" / "vanished").exists()


def test_a_lost_link_stops_salvage(scene):
    scene.box.on_get = cut_after(0, [])
    with pytest.raises(LinkError):
        salvage(scene.box.connect(), "toy-1", "main", scene.folder / "salvaged", scene.notes.append)
