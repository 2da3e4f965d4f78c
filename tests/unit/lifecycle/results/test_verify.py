"""Verify: the roster exact both ways, every byte equal, everything loads; anything else leaves no receipt."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from leasehold.errors import HomeError, VerifyError
from leasehold.kit.files import manifest as manifests
from leasehold.lifecycle.results.verify import home_damage, read_receipt, sealed_entries, write_receipt
from leasehold.model.job.job import Artifact
from leasehold.model.run.note import silent
from tests.unit.lifecycle.conftest import FILES, WEIGHTS


@pytest.fixture
def pulled(scene, tmp_path):
    """A pulled run that nobody has verified yet, and how to verify it."""
    data = scene.box.connect().manifest("toy-1", ["main"], scene.plan.patterns)
    place = tmp_path / "pulled"
    shutil.copytree(scene.run.out("main"), place / "cells" / "main")
    (place / "manifest.json").write_bytes(data)
    seen = scene.box.connect().look("toy-1")

    def verify(plan=scene.plan):
        return write_receipt(place, plan, json.loads(data), data, seen, silent)

    verify.place = place
    return verify


def test_what_is_equal_and_loads_gets_a_receipt(pulled):
    receipt = pulled()
    assert read_receipt(pulled.place) == receipt
    assert home_damage(pulled.place, receipt) == ()
    assert receipt.files == len(FILES)


def add(place):
    (place / "cells" / "main" / "extra.bin").write_bytes(b"x")


def add_a_cell(place):
    (place / "cells" / "other").mkdir()
    (place / "cells" / "other" / "extra.bin").write_bytes(b"x")


def add_a_temporary_file(place):
    (place / "cells" / "main" / "best.bin.tmp").write_bytes(b"x")


def remove(place):
    (place / "cells" / "main" / "metrics.json").unlink()


def remove_all(place):
    shutil.rmtree(place / "cells")


def shorten(place):
    (place / "cells" / "main" / "weights" / "best.bin").write_bytes(WEIGHTS[:-1])


def lengthen(place):
    (place / "cells" / "main" / "weights" / "best.bin").write_bytes(WEIGHTS + b"!")


def flip(place):
    (place / "cells" / "main" / "weights" / "best.bin").write_bytes(b"\xff" + WEIGHTS[1:])


def link(place):
    path = place / "cells" / "main" / "weights" / "best.bin"
    path.rename(place / "elsewhere.bin")
    path.symlink_to("../../../elsewhere.bin")


def link_a_folder(place):
    path = place / "cells" / "main" / "weights"
    path.rename(place / "elsewhere")
    path.symlink_to("../../elsewhere")


def a_folder(place):
    path = place / "cells" / "main" / "metrics.json"
    path.unlink()
    path.mkdir()


def a_fifo(place):
    path = place / "cells" / "main" / "metrics.json"
    path.unlink()
    os.mkfifo(path)


def rename_by_case(place):
    path = place / "cells" / "main" / "metrics.json"
    path.rename(path.with_name("Metrics.json"))


WRONG = {
    add: "artifact.unexpected",
    add_a_cell: "artifact.unexpected",
    add_a_temporary_file: "artifact.unexpected",
    remove: "artifact.missing",
    remove_all: "artifact.missing",
    shorten: "artifact.size_differs",
    lengthen: "artifact.size_differs",
    flip: "artifact.hash_differs",
    link: "artifact.not_plain",
    link_a_folder: "artifact.missing",
    a_folder: "artifact.missing",
    a_fifo: "artifact.not_plain",
    rename_by_case: "artifact.missing",
}


@pytest.mark.parametrize("spoil, code", list(WRONG.items()), ids=[spoil.__name__ for spoil in WRONG])
def test_what_differs_is_refused_and_leaves_no_receipt(pulled, spoil, code):
    spoil(pulled.place)
    with pytest.raises(VerifyError) as caught:
        pulled()
    assert caught.value.code == code
    assert not (pulled.place / "receipt.json").exists()
    assert not (pulled.place / "run.json").exists()


@pytest.mark.parametrize("spoil", list(WRONG), ids=[spoil.__name__ for spoil in WRONG])
def test_damage_that_came_later_is_seen(pulled, spoil):
    receipt = pulled()
    spoil(pulled.place)
    (damage,) = home_damage(pulled.place, receipt)
    assert "no longer fits its receipt" in damage


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"{", b"[" * 50000, b"null"],
    ids=["empty", "object", "cut", "deep", "null"],
)
def test_a_spoiled_manifest_is_damage(pulled, content):
    receipt = pulled()
    (pulled.place / "manifest.json").write_bytes(content)
    (damage,) = home_damage(pulled.place, receipt)
    assert "manifest.json is not the one" in damage
    assert sealed_entries(pulled.place) == {}


def test_a_manifest_in_other_words_is_damage(pulled):
    receipt = pulled()
    value = json.loads((pulled.place / "manifest.json").read_bytes())
    (pulled.place / "manifest.json").write_text(json.dumps(value, indent=2))
    assert home_damage(pulled.place, receipt) != ()


def test_a_home_copy_that_is_gone_is_damage(pulled):
    receipt = pulled()
    shutil.rmtree(pulled.place)
    (damage,) = home_damage(pulled.place, receipt)
    assert "gone" in damage
    assert sealed_entries(pulled.place) == {}
    assert read_receipt(pulled.place) is None


def test_a_home_copy_that_cannot_be_read_is_damage(pulled, monkeypatch):
    """A disk that gives errors is no proof of anything."""
    receipt = pulled()

    def failing(path):
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(os.path, "getsize", failing)
    (damage,) = home_damage(pulled.place, receipt)
    assert "Input/output error" in damage


def test_a_manifest_that_is_a_folder_is_damage(pulled):
    receipt = pulled()
    (pulled.place / "manifest.json").unlink()
    (pulled.place / "manifest.json").mkdir()
    assert home_damage(pulled.place, receipt) != ()
    assert sealed_entries(pulled.place) == {}


def test_what_lies_beside_the_cells_is_no_damage(pulled):
    receipt = pulled()
    (pulled.place / "notes.txt").write_text("my own notes")
    assert home_damage(pulled.place, receipt) == ()


def test_sealed_entries_are_those_of_the_manifest(pulled):
    data = (pulled.place / "manifest.json").read_bytes()
    assert sealed_entries(pulled.place) == manifests.parse(json.loads(data), "toy-1")["cells"]


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", '{"schema": "leasehold.receipt/1"}'])
def test_a_receipt_that_is_none_reads_as_none(tmp_path, content):
    (tmp_path / "receipt.json").write_text(content)
    assert read_receipt(tmp_path) is None


def test_a_receipt_of_a_newer_layout_is_refused_and_not_taken_for_none(tmp_path):
    (tmp_path / "receipt.json").write_text('{"schema": "leasehold.receipt/2"}')
    with pytest.raises(HomeError) as caught:
        read_receipt(tmp_path)
    assert caught.value.code == "layout.newer"


@pytest.mark.parametrize(
    "files, artifacts",
    [
        ({"m.json": b"{broken"}, (Artifact("m.json", "json"),)),
        ({"m.json": b'{"a": 1}'}, (Artifact("m.json", "json", ("loss",)),)),
        ({"w.npy": b"not numpy"}, (Artifact("w.npy", "npy"),)),
        ({"w.pt": b"not torch"}, (Artifact("w.pt", "torch"),)),
        ({"w.safetensors": b"\xff" * 20}, (Artifact("*", "safetensors"),)),
    ],
    ids=["json", "keys", "npy", "torch", "safetensors"],
)
def test_what_does_not_load_gets_no_receipt(new_scene, files, artifacts):
    scene = new_scene(artifacts=artifacts).finish(files)
    with pytest.raises(VerifyError) as caught:
        scene.pull()
    assert caught.value.code == "artifact.does_not_load"
    assert next(iter(files)) in caught.value.message


def test_the_first_pattern_that_fits_says_how_a_file_loads(new_scene):
    artifacts = (Artifact("*.json", "bytes"), Artifact("**", "json"))
    scene = new_scene(artifacts=artifacts).finish({"not-json.json": b"{broken", "ok": b"{}"})
    kinds = {load["path"]: load["kind"] for load in scene.pull().loads}
    assert kinds == {"main/not-json.json": "bytes", "main/ok": "json"}


def test_facts_are_kept_though_the_journal_is_torn(scene):
    """A sweep is pulled while it runs: the journal's last line may be half written."""
    ended = {"n": 1, "t": 1.0, "k": "attempt_ended", "cell": "main", "attempt": 1, "code": 0, "cpu_s": 2.5}
    scene.run.evidence("journal.jsonl", json.dumps(ended).encode() + b'\n{"n": 2, "k": "att')
    scene.pull()
    facts = json.loads((scene.folders.export / "run.json").read_bytes())
    assert facts["attempts"] == [{"cell": "main", "attempt": 1, "code": 0, "cpu_s": 2.5}]
    assert facts["receipt_sha256"] == read_receipt(scene.folders.export).digest


@pytest.mark.parametrize("forged", [b"evil", b"[]\n7\nnull\n", b'{"n": 1, "k": "attempt_ended"}\n', b"\xff\xfe"])
def test_a_forged_journal_spoils_no_receipt(scene, forged):
    scene.run.evidence("journal.jsonl", forged)
    scene.pull()
    assert read_receipt(scene.folders.export) is not None


def test_strange_moments_from_the_box_spoil_no_receipt(scene, monkeypatch):
    real = type(scene.box.connect()).look

    def lying(self, run):
        seen = real(self, run)
        seen["opened_unix"], seen["cells"]["main"]["ended_unix"] = None, "yesterday"
        return seen

    monkeypatch.setattr("tests.support.fake_box.FakeEngine.look", lying)
    scene.pull()
    assert json.loads((scene.folders.export / "run.json").read_bytes())["wall_s"] == 0
