"""Files that are whole or absent, whatever dies in between."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.files import atomic
from leasehold.kit.files.atomic import read_json, write_all, write_atomic, write_json
from tests.support.examples import SOME


class PowerCut(BaseException):
    """What a test raises where a crash would happen; no `except Exception` may swallow it."""


def fail(error):
    def failing(*args, **kwargs):
        raise error

    return failing


@pytest.mark.parametrize("call", ["replace", "fsync", "write"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), PowerCut()], ids=["full disk", "crash"])
@pytest.mark.parametrize("before", [b"old content", None], ids=["replacing", "new"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, error, before):
    target = tmp_path / "status.json"
    if before is not None:
        target.write_bytes(before)
    monkeypatch.setattr(os, call, fail(error))
    with pytest.raises(type(error)):
        write_atomic(str(target), b"new content")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == (["status.json"] if before is not None else [])
    assert before is None or target.read_bytes() == before


def test_a_crash_after_the_rename_leaves_the_new_file(tmp_path, monkeypatch):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    monkeypatch.setattr(atomic, "fsync_folder", fail(PowerCut()))
    with pytest.raises(PowerCut):
        write_atomic(str(target), b"new")
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_data_is_on_disk_before_the_rename_makes_it_visible(tmp_path, monkeypatch):
    done = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("fsync"), real_fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), real_replace(a, b))[1])
    write_atomic(str(tmp_path / "a"), b"x")
    assert done == ["fsync", "replace", "fsync"]  # the file, the name, the folder


def test_a_heartbeat_need_not_be_durable(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fail(AssertionError("fsync was called")))
    write_atomic(str(tmp_path / "a"), b"x", durable=False)
    assert (tmp_path / "a").read_bytes() == b"x"


def test_a_symlink_in_the_place_of_the_temporary_file_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    spots = tmp_path / "spots"
    spots.mkdir()
    seen = []
    real_open = os.open

    def spying(path, flags, *rest, **more):
        seen.append((path, flags))
        return real_open(path, flags, *rest, **more)

    os.open = spying
    try:
        write_atomic(str(spots / "a"), b"x", durable=False)
    finally:
        os.open = real_open
    (temp, flags) = seen[0]
    assert flags & os.O_NOFOLLOW
    os.symlink(str(victim), temp)
    with pytest.raises(OSError):
        os.open(temp, flags)
    assert victim.read_bytes() == b"precious"


def test_a_symlink_in_the_place_of_the_target_is_replaced_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    os.symlink("victim", str(tmp_path / "a"))
    write_atomic(str(tmp_path / "a"), b"x")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "a").read_bytes() == b"x"
    assert not (tmp_path / "a").is_symlink()


def test_threads_that_write_the_same_file_never_show_a_torn_one(tmp_path):
    """Two requests of one connection may seal the same run at once."""
    target = tmp_path / "manifest.json"
    contents = [bytes([65 + i]) * 200_000 for i in range(4)]
    write_atomic(str(target), contents[0], durable=False)
    torn, errors, stop = [], [], threading.Event()

    def write(content):
        try:
            for _ in range(40):
                write_atomic(str(target), content, durable=False)
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    def read():
        while not stop.is_set():
            seen = target.read_bytes()
            if seen not in contents:
                torn.append(seen[:20])

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stop.set()
    reader.join()
    assert (errors, torn) == ([], [])
    assert target.read_bytes() in contents
    assert os.listdir(tmp_path) == ["manifest.json"]


def test_every_file_that_can_exist_can_be_written(tmp_path, odd_name):
    write_atomic(str(tmp_path / odd_name), b"x")
    assert (tmp_path / odd_name).read_bytes() == b"x"


@pytest.mark.parametrize("name", ["a" * 255, "训" * 85], ids=["ascii", "chinese"])
def test_the_longest_names_can_be_written(tmp_path, name):
    write_atomic(str(tmp_path / name), b"x")
    assert os.listdir(tmp_path) == [name]


def test_a_bare_file_name_is_written_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomic("a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


def test_write_all_survives_short_writes(tmp_path, monkeypatch):
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, bytes(data[:3])))
    fd = os.open(str(tmp_path / "a"), os.O_WRONLY | os.O_CREAT)
    write_all(fd, b"0123456789")
    os.close(fd)
    assert (tmp_path / "a").read_bytes() == b"0123456789"


@SOME
@given(value=st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=4))
def test_json_comes_back(tmp_path, value):
    path = str(tmp_path / "a.json")
    write_json(path, value, durable=False)
    assert read_json(path) == value


def test_half_a_character_comes_back_too(tmp_path):
    """File names that are not UTF-8 hold such halves."""
    path = str(tmp_path / "a.json")
    write_json(path, {"caf\udce9": "\ud800 \\ud800 中"})
    assert read_json(path) == {"caf\udce9": "\ud800 \\ud800 中"}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"null", b'"a"', b"\xff\xfe{}", b"{}{}", b'{"a":' * 50000],
    ids=["empty", "cut", "list", "null", "text", "not utf-8", "two", "too deep"],
)
def test_what_is_not_one_object_reads_as_none(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert read_json(str(tmp_path / "a")) is None


def test_an_absent_file_reads_as_none(tmp_path):
    (tmp_path / "plain").write_bytes(b"{}")
    assert read_json(str(tmp_path / "nothing")) is None
    assert read_json(str(tmp_path / "plain" / "below")) is None
