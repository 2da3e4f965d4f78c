"""A folder as a place: what only a folder can do wrong."""

from __future__ import annotations

import errno
import io
import os

import pytest

from leasehold.kit.files.canonical_json import sha256
from leasehold.kit.refuge import folder_place
from leasehold.kit.refuge.folder_place import PARTS, FolderPlace
from leasehold.kit.refuge.place import PlaceError


def put(place, key, data):
    place.put(key, io.BytesIO(data), len(data), sha256(data))


def tree(root):
    return sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())


def test_a_folder_that_is_not_there_is_unreachable_and_not_made(tmp_path):
    with pytest.raises(PlaceError) as error:
        FolderPlace(str(tmp_path / "tier"))
    assert error.value.kind == "unreachable" and not (tmp_path / "tier").exists()


def test_a_folder_that_was_detached_is_unreachable(tmp_path, monkeypatch):
    place = FolderPlace(str(tmp_path))
    place._disk += 1
    for act in (lambda: put(place, "k", b"x"), lambda: place.put_new("k", b"x"), lambda: place.delete("k")):
        with pytest.raises(PlaceError) as error:
            act()
        assert error.value.kind == "unreachable"
    assert tree(tmp_path) == []


@pytest.mark.parametrize(
    "number, kind",
    [(errno.ENOSPC, "full"), (errno.EDQUOT, "full"), (errno.EROFS, "read_only"), (errno.EACCES, "refused")]
    + [(errno.EIO, "unreachable"), (errno.ESTALE, "unreachable"), (errno.ENOTCONN, "unreachable")],
)
def test_an_error_of_the_disk_is_told_by_its_kind(tmp_path, monkeypatch, number, kind):
    place = FolderPlace(str(tmp_path))

    def failing(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(folder_place, "write_all", failing)
    with pytest.raises(PlaceError) as error:
        put(place, "k", b"data")
    assert error.value.kind == kind and str(tmp_path) in str(error.value)
    assert tree(tmp_path) == []


def test_no_symlink_is_followed(tmp_path):
    root, outside = tmp_path / "tier", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "link").symlink_to(outside)
    place = FolderPlace(str(root))
    acts = [
        lambda: put(place, "link/new", b"x"),
        lambda: place.put_new("link/new", b"x"),
        lambda: b"".join(place.get("link/secret")),
        lambda: place.read_back("link/secret"),
        lambda: place.delete("link/secret"),
        lambda: place.list("link/"),
    ]
    for act in acts:
        with pytest.raises(PlaceError):
            act()
    assert list(place.list("")) == [] and tree(outside) == ["secret"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    (tmp_path / PARTS).mkdir()
    (tmp_path / PARTS / "mine-0123").write_bytes(b"half")
    (tmp_path / PARTS / "yours-0123").write_bytes(b"half")
    (tmp_path / PARTS / "old-0123").write_bytes(b"half")
    os.utime(str(tmp_path / PARTS / "old-0123"), (1, 1))
    put(FolderPlace(str(tmp_path), writer="mine"), "k", b"x")
    assert tree(tmp_path) == [PARTS + "/yours-0123", "k"]


def test_unfinished_objects_are_never_listed(tmp_path):
    (tmp_path / PARTS).mkdir()
    (tmp_path / PARTS / "x").write_bytes(b"half")
    place = FolderPlace(str(tmp_path))
    assert list(place.list("")) == [] and list(place.list(PARTS)) == []
    with pytest.raises(PlaceError):
        put(place, PARTS + "/k", b"x")


def test_where_links_are_impossible_a_key_is_still_created_once(tmp_path, monkeypatch):
    def impossible(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", impossible)
    assert FolderPlace(str(tmp_path)).put_new("a/claim", b"first")
    assert not FolderPlace(str(tmp_path)).put_new("a/claim", b"second")
    assert (tmp_path / "a" / "claim").read_bytes() == b"first" and tree(tmp_path) == ["a/claim"]


def test_a_link_whose_answer_was_lost_still_counts(tmp_path, monkeypatch):
    real = os.link

    def twice(*args):
        real(*args)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", twice)
    assert FolderPlace(str(tmp_path)).put_new("claim", b"first")


def test_a_claim_is_not_changed_by_what_follows_a_kill_after_the_link(tmp_path):
    place = FolderPlace(str(tmp_path), writer="mine")
    assert place.put_new("claim", b"first")
    name = sha256(b"claim")[:24]
    os.link(str(tmp_path / "claim"), str(tmp_path / PARTS / ("mine-" + name)))
    assert not place.put_new("claim", b"second, longer")
    assert (tmp_path / "claim").read_bytes() == b"first"


def test_deleting_leaves_no_empty_folders(tmp_path):
    place = FolderPlace(str(tmp_path))
    put(place, "a/b/c/one", b"1")
    put(place, "a/two", b"2")
    place.delete("a/b/c/one")
    assert sorted(os.listdir(str(tmp_path / "a"))) == ["two"]
    place.delete("a/two")
    assert not (tmp_path / "a").exists() and tmp_path.exists()


def test_a_folder_removed_while_we_put_into_it_is_made_again(tmp_path, monkeypatch):
    place = FolderPlace(str(tmp_path))
    real, calls = os.replace, []

    def replace(source, target):
        if not calls:
            calls.append(1)
            os.rmdir(os.path.dirname(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    put(place, "a/b/k", b"x")
    assert tree(tmp_path) == ["a/b/k"]


def test_bytes_are_told_as_they_move(tmp_path):
    moved = []
    place = FolderPlace(str(tmp_path), tick=moved.append)
    put(place, "k", b"12345")
    assert sum(moved) == 5
    place.read_back("k")
    assert sum(moved) == 10
