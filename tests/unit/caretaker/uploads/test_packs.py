"""Many small code files that come at once share a file on the box: nothing of it may be lost, spoiled or left over."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Dict, List

import pytest

from leasehold.caretaker.uploads import blobs, packs, prune_code
from leasehold.caretaker.uploads.trees import lay_out
from leasehold.caretaker.wire.refused import Refused
from tests.support.shelf import Shelf

LATER_S = 7200.0
SMALL = {"pkg/%03d.py" % number: b"%d " % number * (number + 1) for number in range(120)}
FILES = {**SMALL, "empty": b"", "large": b"l" * (200 << 10), "twin": SMALL["pkg/007.py"]}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "root")


def laid_out(shelf: Shelf, name: str) -> Dict[str, bytes]:
    """Make a run's copy of a tree and read it."""
    target = shelf.root.parent / "copy"
    shutil.rmtree(str(target), ignore_errors=True)
    try:
        lay_out(str(shelf.root), name, str(target))
    except Refused:
        shutil.rmtree(str(target))
        raise
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def pack_files(shelf: Shelf, ending: str = ".pack") -> List[Path]:
    return sorted((shelf.root / "blobs" / "packs").glob("*" + ending))


def apart(shelf: Shelf) -> int:
    """Count the blobs that are files of their own."""
    return sum(len(path.name) in (64, 65) for path in (shelf.root / "blobs").rglob("*"))


def test_many_small_files_share_one_and_large_ones_do_not(shelf: Shelf) -> None:
    name = shelf.push(FILES)
    assert (len(pack_files(shelf)), len(pack_files(shelf, ".json")), apart(shelf)) == (1, 1, 1)
    assert laid_out(shelf, name) == FILES


def test_few_files_are_files_of_their_own(shelf: Shelf) -> None:
    files = dict(list(SMALL.items())[:20])
    name = shelf.push(files)
    assert (pack_files(shelf), apart(shelf)) == ([], 20)
    assert laid_out(shelf, name) == files


def test_an_edit_joins_what_lies_in_a_pack(shelf: Shelf) -> None:
    shelf.push(FILES)
    edited = {**FILES, "pkg/001.py": b"edited", "pkg/002.py": FILES["pkg/003.py"]}
    shelf.announce(edited)
    name = shelf.push(edited)
    assert laid_out(shelf, name) == edited


def test_a_push_that_is_cut_leaves_what_came(shelf: Shelf) -> None:
    name = shelf.announce(SMALL)
    sent = b"".join(SMALL.values())
    with pytest.raises(Refused, match="files of"):
        shelf.send(name, SMALL, sent[: len(sent) // 2])
    lacking = set(blobs.BlobStore(str(shelf.root)).lacking(shelf.names(SMALL)))
    assert 0 < len(lacking) < len(SMALL)
    rest = {path: data for path, data in SMALL.items() if shelf.names({path: data})[0] in lacking}
    shelf.send(name, rest, b"".join(rest.values()))
    assert laid_out(shelf, name) == SMALL


def test_a_file_that_comes_different_is_refused_and_earlier_ones_are_kept(shelf: Shelf) -> None:
    name = shelf.announce(SMALL)
    sent = bytearray(b"".join(SMALL.values()))
    sent[-1] ^= 1
    with pytest.raises(Refused, match="different from its hash"):
        shelf.send(name, SMALL, bytes(sent))
    assert blobs.BlobStore(str(shelf.root)).lacking(shelf.names(SMALL)) == shelf.names({"x": SMALL["pkg/119.py"]})
    assert not shelf.whole(name)


@pytest.mark.parametrize(("limit", "value"), [("_FULL_BYTES", 2000), ("_LONG_S", 0.0)])
def test_what_came_counts_every_so_often(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    monkeypatch.setattr(packs, limit, value)
    name = shelf.push(SMALL)
    assert len(pack_files(shelf)) > 5
    assert laid_out(shelf, name) == SMALL


def test_beyond_so_many_packs_files_are_apart(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "MOST_PACKS", 1)
    shelf.push(SMALL)
    others = {path: b"other " + data for path, data in SMALL.items()}
    assert laid_out(shelf, shelf.push(others)) == others
    assert (len(pack_files(shelf)), apart(shelf)) == (1, len(SMALL))


@pytest.mark.parametrize("harm", ["a byte", "shorter", "empty", "gone", "places gone", "places torn", "places lie"])
def test_a_spoiled_pack_never_reaches_a_run_and_its_files_come_again(shelf: Shelf, harm: str) -> None:
    name, other = shelf.push(FILES), shelf.push({**FILES, "more": b"more"})
    few = shelf.push({"few": b"few"})
    (pack,), (places,) = pack_files(shelf), pack_files(shelf, ".json")
    whole = pack.read_bytes()
    if harm == "a byte":
        pack.write_bytes(whole[:50] + b"~" + whole[51:])
    elif harm in ("shorter", "empty"):
        pack.write_bytes(whole[:-1] if harm == "shorter" else b"")
    elif harm == "places lie":
        said = json.loads(places.read_text())
        said["files"] = {blob: [start + 1, size] for blob, (start, size) in said["files"].items()}
        places.write_text(json.dumps(said))
    elif harm == "places torn":
        places.write_bytes(places.read_bytes()[:-20])
    else:
        (pack if harm == "gone" else places).unlink()
    with pytest.raises(Refused, match="next push sends it again"):
        laid_out(shelf, name)
    assert [shelf.whole(tree) for tree in (name, other, few)] == [False, False, True]
    assert laid_out(shelf, shelf.push(FILES)) == FILES
    assert laid_out(shelf, few) == {"few": b"few"}


def test_a_disk_without_room_leaves_no_pack(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as without_room:
        without_room.setattr(packs, "write_json", full)
        name = shelf.announce(SMALL)
        with pytest.raises(OSError, match="No space"):
            shelf.send(name, SMALL, b"".join(SMALL.values()))
    assert pack_files(shelf) == []
    assert laid_out(shelf, shelf.push(SMALL)) == SMALL


def test_two_homes_may_push_at_once(shelf: Shelf) -> None:
    trees = [{path: b"%d" % home + data for path, data in SMALL.items()} for home in range(4)]
    trees[3] = trees[0]
    homes = [threading.Thread(target=shelf.push, args=(files,)) for files in trees]
    for home in homes:
        home.start()
    for home in homes:
        home.join()
    for files in trees:
        assert laid_out(shelf, shelf.push(files)) == files


def test_a_pack_goes_when_no_tree_has_anything_of_it(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    old, shared = {path: b"old" + data for path, data in SMALL.items()}, SMALL
    names = [shelf.push(old), shelf.push(shared)]
    names += [shelf.push({"one": shared["pkg/010.py"], "own": b"%d" % number}) for number in range(2)]
    for age, name in enumerate(names):
        os.utime(str(shelf.root / "trees" / (name + ".list")), (1000 + age, 1000 + age))
    assert shelf.prune()["blobs"] == 0, "all of it is young"
    killed = shelf.root / "blobs" / "packs" / "1-2-3.pack"
    killed_bytes = killed.write_bytes(b"what a killed push left")
    now = time.time() + LATER_S
    monkeypatch.setattr(prune_code.time, "time", lambda: now)
    would = shelf.prune(dry_run=True)
    assert (len(pack_files(shelf)), would["blobs"]) == (3, len(old))
    answer = shelf.prune()
    assert (sorted(answer["trees"]), answer["blobs"]) == (sorted(names[:2]), len(old))
    assert answer["bytes"] == would["bytes"] == sum(map(len, old.values())) + killed_bytes
    assert (len(pack_files(shelf)), killed.exists()) == (1, False)
    assert laid_out(shelf, names[2])["one"] == shared["pkg/010.py"]


def test_files_that_may_be_run_stay_so(tmp_path: Path) -> None:
    store = blobs.BlobStore(str(tmp_path))
    tool = b"#!/bin/sh\n"
    plain = Shelf(tmp_path).names({"x": tool})[0]
    store.expect([1] * 200)
    for blob in (plain, plain + "x"):
        store.keep(blob, memoryview(tool))
    store.settle()
    for blob in (plain, plain + "x"):
        store.copy(blob, str(tmp_path / ("t" + blob[64:])))
    store.close()
    assert os.access(str(tmp_path / "tx"), os.X_OK)
    assert not (tmp_path / "t").stat().st_mode & 0o111
