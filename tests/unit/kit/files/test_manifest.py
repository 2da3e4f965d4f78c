"""Manifests: sealing refuses what cannot be promised; reading one back refuses what a hostile box may claim."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.files.canonical_json import digest
from leasehold.kit.files.manifest import ManifestError, build, encode, fingerprints, parse
from leasehold.kit.files.paths import join_checked
from tests.support.examples import MANY, SOME

NAMES = st.sampled_from(["a", "b.pt", "deep/er/c", "deep/d", "two words", "line\nend", "中文/结果.json", "-rf"])
TREES = st.dictionaries(NAMES, st.binary(min_size=1, max_size=40), min_size=1)


def fill(root, files):
    for path, content in files.items():
        where = os.path.join(str(root), path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, "wb") as file:
            file.write(content)
    return str(root)


def seal(root, patterns=("**",)):
    return build("run-1", "p" * 64, {"main": str(root)}, list(patterns))


@SOME
@given(cells=st.dictionaries(st.sampled_from(["main", "seed-1", "seed-2"]), TREES, min_size=1))
def test_what_is_sealed_can_be_spelled_sent_and_read_back(tmp_path, cells):
    places = {name: fill(tempfile.mkdtemp(dir=str(tmp_path)), files) for name, files in cells.items()}
    built = build("run-1", "p" * 64, places, ["**"])
    back = parse(json.loads(encode(built)), "run-1")
    assert back == built
    assert {name: {e["path"]: e["sha256"] for e in entries} for name, entries in back["cells"].items()} == {
        name: {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
        for name, files in cells.items()
    }
    contents = [content for files in cells.values() for content in files.values()]
    assert back["totals"] == {"files": len(contents), "bytes": sum(map(len, contents))}


@SOME
@given(files=TREES)
def test_fingerprints_are_the_manifest_without_the_hashes(tmp_path, files):
    root = fill(tempfile.mkdtemp(dir=str(tmp_path)), files)
    sealed = seal(root)["cells"]["main"]
    for entry in sealed:
        del entry["sha256"]
    assert fingerprints({"main": root}, ["**"]) == {"main": sealed}


def test_a_file_named_by_two_patterns_is_sealed_once(tmp_path):
    fill(tmp_path, {"a.pt": b"x"})
    assert len(seal(tmp_path, ["*.pt", "a*"])["cells"]["main"]) == 1


def test_only_what_was_promised_is_sealed(tmp_path):
    fill(tmp_path, {"best.pt": b"x", "scratch.bin": b"y"})
    assert [entry["path"] for entry in seal(tmp_path, ["*.pt"])["cells"]["main"]] == ["best.pt"]


# ---------------------------------------------------------------- what cannot be sealed


def test_a_promised_artifact_that_is_absent_is_refused_by_name(tmp_path):
    fill(tmp_path, {"metrics.json": b"{}"})
    with pytest.raises(ManifestError, match=r"nothing matches the promised artifact 'best\.pt'"):
        seal(tmp_path, ["metrics.json", "best.pt"])


def test_a_cell_without_a_folder_is_refused(tmp_path):
    with pytest.raises(ManifestError, match="nothing matches"):
        seal(tmp_path / "none")


def test_no_cells_at_all_is_refused():
    with pytest.raises(ManifestError, match="the roster is empty"):
        build("run-1", "p" * 64, {}, ["**"])


def test_an_empty_file_is_refused(tmp_path):
    fill(tmp_path, {"best.pt": b""})
    with pytest.raises(ManifestError, match="is empty"):
        seal(tmp_path)


@pytest.mark.parametrize("target", ["real", "/etc/hostname", "nowhere", "."])
def test_a_symlink_is_refused_wherever_it_leads(tmp_path, target):
    fill(tmp_path, {"real": b"x"})
    os.symlink(target, str(tmp_path / "best.pt"))
    with pytest.raises(ManifestError, match=r"best\.pt is a symlink"):
        seal(tmp_path, ["best.pt"])


def test_a_symlinked_folder_is_refused_not_entered(tmp_path):
    fill(tmp_path / "outside", {"best.pt": b"x"})
    (tmp_path / "out").mkdir()
    os.symlink("../outside", str(tmp_path / "out" / "folder"))
    with pytest.raises(ManifestError, match="is a symlink"):
        seal(tmp_path / "out")


def test_a_fifo_is_refused(tmp_path):
    os.mkfifo(str(tmp_path / "best.pt"))
    with pytest.raises(ManifestError, match="not a regular file"):
        seal(tmp_path)


def test_a_name_that_is_not_utf8_is_refused_in_words_that_can_be_sent(tmp_path):
    with open(os.path.join(os.fsencode(str(tmp_path)), b"caf\xe9.pt"), "wb") as file:
        file.write(b"x")
    with pytest.raises(ManifestError, match="not valid UTF-8") as caught:
        seal(tmp_path)
    str(caught.value).encode("utf-8")


class Meddler:
    """Hashes, and lets something write the file at the first block."""

    def __init__(self, meddle) -> None:
        self._sha = hashlib.new("sha256")
        self._meddle = meddle

    def update(self, block: bytes) -> None:
        self._sha.update(block)
        meddle, self._meddle = self._meddle, lambda: None
        meddle()

    def hexdigest(self) -> str:
        return self._sha.hexdigest()


def grow(path):
    with open(path, "ab") as file:
        file.write(b"more")


def shrink(path):
    os.truncate(path, 1)


def rewrite(path):
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("meddle", [grow, shrink, rewrite])
def test_a_file_that_changes_while_it_is_hashed_is_refused(tmp_path, monkeypatch, meddle):
    fill(tmp_path, {"best.pt": b"x" * 100})
    path = str(tmp_path / "best.pt")
    monkeypatch.setattr(hashlib, "sha256", lambda: Meddler(lambda: meddle(path)))
    with pytest.raises(ManifestError, match="changed while it was hashed"):
        seal(tmp_path)


def swap_for_link(path):
    os.unlink(path)
    os.symlink("/etc/hostname", path)


def swap_for_fifo(path):
    os.unlink(path)
    os.mkfifo(path)


@pytest.mark.parametrize("swap", [os.unlink, swap_for_link, swap_for_fifo])
def test_a_file_that_is_swapped_between_listing_and_opening_is_refused(tmp_path, monkeypatch, swap):
    from leasehold.kit.files import manifest

    fill(tmp_path, {"best.pt": b"x"})
    real = manifest.survey

    def listing(cells, patterns):
        yield from real(cells, patterns)
        swap(str(tmp_path / "best.pt"))

    monkeypatch.setattr(manifest, "survey", listing)
    with pytest.raises(ManifestError, match=r"best\.pt"):
        seal(tmp_path)


# ---------------------------------------------------------------- fingerprints


def touched(path):
    info = os.stat(path)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns + 1))


def replaced(path):
    info = os.stat(path)
    with open(path, "rb") as file:
        content = file.read()
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.utime(path + ".new", ns=(info.st_atime_ns, info.st_mtime_ns))
    os.replace(path + ".new", path)


def overwritten(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.write(b"\xff" * size)
    os.utime(path, ns=(5, 5))


def joined_by_another(path):
    with open(path + ".second", "wb") as file:
        file.write(b"new")


@pytest.mark.parametrize("change", [grow, shrink, touched, replaced, overwritten, joined_by_another, os.unlink])
@pytest.mark.parametrize("path", ["a", "deep/er/c"])
def test_any_change_of_an_artifact_changes_the_fingerprint(tmp_path, change, path):
    fill(tmp_path, {"a": b"12345", "deep/er/c": b"67890"})
    before = fingerprints({"main": str(tmp_path)}, ["**"])
    assert digest(before) == digest(fingerprints({"main": str(tmp_path)}, ["**"]))
    change(str(tmp_path / path))
    after = fingerprints({"main": str(tmp_path)}, ["**"])
    assert after != before
    assert digest(after) != digest(before)


def test_what_was_not_promised_does_not_change_the_fingerprint(tmp_path):
    fill(tmp_path, {"best.pt": b"x"})
    before = fingerprints({"main": str(tmp_path)}, ["*.pt"])
    fill(tmp_path, {"scratch.bin": b"y"})
    assert fingerprints({"main": str(tmp_path)}, ["*.pt"]) == before


# ---------------------------------------------------------------- what a hostile box may claim


def honest():
    entry = {"path": "best.pt", "bytes": 3, "mtime_ns": 5, "inode": 7, "sha256": "a" * 64}
    return {
        "schema": "leasehold.manifest/1",
        "run": "run-1",
        "plan_sha256": "p" * 64,
        "created_unix": 1,
        "patterns": ["**"],
        "cells": {"main": [entry, dict(entry, path="sub/metrics.json")]},
        "totals": {"files": 2, "bytes": 6},
    }


def with_first(**change):
    value = honest()
    value["cells"]["main"][0].update(change)
    return value


def with_paths(*paths):
    value = honest()
    entry = value["cells"]["main"][0]
    value["cells"]["main"] = [dict(entry, path=path) for path in paths]
    value["totals"] = {"files": len(paths), "bytes": 3 * len(paths)}
    return value


def without(key):
    value = honest()
    del value[key]
    return value


def lacking(key):
    value = honest()
    del value["cells"]["main"][0][key]
    return value


def changed(**change):
    return dict(honest(), **change)


def test_the_honest_manifest_is_read():
    assert parse(honest(), "run-1") == honest()


HOSTILE = {
    "nothing": None,
    "list": [],
    "empty": {},
    "schema": changed(schema="leasehold.manifest/2"),
    "no schema": without("schema"),
    "another run": changed(run="run-2"),
    "no run": without("run"),
    "no cells": changed(cells={}),
    "cells a list": changed(cells=[]),
    "cells gone": without("cells"),
    "cell name": changed(cells={"../up": honest()["cells"]["main"]}),
    "empty cell name": changed(cells={"": honest()["cells"]["main"]}),
    "cell empty": changed(cells={"main": []}),
    "cell not a list": changed(cells={"main": {"path": "a"}}),
    "cell text": changed(cells={"main": "best.pt"}),
    "entry text": changed(cells={"main": ["best.pt"]}),
    "entry number": changed(cells={"main": [7]}),
    "entry null": changed(cells={"main": [None]}),
    "escape": with_first(path="../../.ssh/authorized_keys"),
    "escape inside": with_first(path="a/../../b"),
    "absolute": with_first(path="/etc/passwd"),
    "empty path": with_first(path=""),
    "dot": with_first(path="."),
    "nul": with_first(path="a\0b"),
    "surrogate": with_first(path="a\udcff"),
    "path a list": with_first(path=["a"]),
    "path a number": with_first(path=7),
    "long": with_first(path="x" * 256),
    "zero bytes": with_first(bytes=0),
    "negative": with_first(bytes=-1),
    "bytes text": with_first(bytes="3"),
    "bytes float": with_first(bytes=3.0),
    "bytes nan": with_first(bytes=float("nan")),
    "bytes true": with_first(bytes=True),
    "mtime text": with_first(mtime_ns="5"),
    "inode null": with_first(inode=None),
    "sha short": with_first(sha256="a" * 63),
    "sha upper": with_first(sha256="A" * 64),
    "sha odd": with_first(sha256="a" * 31 + "g" + "a" * 32),
    "sha number": with_first(sha256=7),
    "no path": lacking("path"),
    "no bytes": lacking("bytes"),
    "no mtime": lacking("mtime_ns"),
    "no inode": lacking("inode"),
    "no sha": lacking("sha256"),
    "twice": with_paths("a", "a"),
    "below a file": with_paths("a", "a/b"),
    "far below a file": with_paths("a/b", "a/b/c/d"),
    "no totals": without("totals"),
    "totals text": changed(totals="2"),
    "totals empty": changed(totals={}),
    "fewer files": changed(totals={"files": 1, "bytes": 6}),
    "more files": changed(totals={"files": 10**9, "bytes": 6}),
    "other bytes": changed(totals={"files": 2, "bytes": 7}),
}


@pytest.mark.parametrize("value", list(HOSTILE.values()), ids=list(HOSTILE))
def test_a_hostile_manifest_is_refused(value):
    with pytest.raises(ManifestError):
        parse(copy.deepcopy(value), "run-1")


@pytest.mark.parametrize("paths", [("model.pt", "Model.PT"), ("Sub/model.pt", "sub/model.pt"), ("A", "a/b")], ids=str)
def test_names_that_differ_only_in_case_are_two_files(paths):
    assert [entry["path"] for entry in parse(with_paths(*paths), "run-1")["cells"]["main"]] == list(paths)


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["a" * 64, "../x", "main"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(honest()) + ["main"]), inner),
    max_leaves=8,
)


@MANY
@given(st.sampled_from(sorted(honest())), VALUES)
def test_any_value_in_any_place_is_read_or_refused(key, value):
    read_or_refuse(changed(**{key: value}))


@MANY
@given(st.sampled_from(["path", "bytes", "mtime_ns", "inode", "sha256", "extra"]), VALUES)
def test_any_value_in_any_entry_is_read_or_refused(key, value):
    read_or_refuse(with_first(**{key: value}))


@MANY
@given(st.lists(st.text("aAbB/.", min_size=1, max_size=5), min_size=1, max_size=4))
def test_paths_that_are_read_can_all_stand_side_by_side(paths):
    read_or_refuse(with_paths(*paths))


def read_or_refuse(value):
    try:
        parsed = parse(value, "run-1")
    except ManifestError:
        return
    for entries in parsed["cells"].values():
        places = [join_checked("/root", entry["path"]) for entry in entries]
        assert len(set(places)) == len(places)
        for place in places:
            assert not any(other.startswith(place + "/") for other in places)
    assert parsed["totals"]["files"] == sum(len(entries) for entries in parsed["cells"].values())
