"""Names and paths that cannot escape."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.kit.files.paths import UnsafePath, check_name, check_relative, join_checked, open_below
from tests.support.examples import MANY, SOME

# Text a hostile box may send: any character, and many of the dangerous ones.
NASTY = st.text(st.characters() | st.sampled_from("/\\.~\0\n: \ud800"), max_size=30)
SEGMENTS = st.sampled_from(
    ["..", ".", "", "a", "b c", "...", "~", "a\\..\\b", "C:", "\n", "中", "\ud800", "\0", "x" * 256]
)
PATHS = NASTY | st.lists(SEGMENTS, max_size=6).map("/".join)


@MANY
@given(PATHS)
@example("../a")
@example("a/../../b")
@example("/etc/passwd")
@example("a//b")
@example("a/./b")
@example("a/")
def test_a_path_is_refused_or_stays_below_its_root(path):
    root = "/srv/root"
    try:
        joined = join_checked(root, path)
    except UnsafePath:
        return
    assert joined.startswith(root + "/")
    assert os.path.normpath(joined) == joined
    assert os.path.relpath(joined, root) == path
    os.fsencode(joined)


@SOME
@given(path=PATHS)
def test_what_is_accepted_can_really_be_made_and_lies_below_the_root(tmp_path, path):
    root = tempfile.mkdtemp(dir=str(tmp_path))
    try:
        where = join_checked(root, path)
    except UnsafePath:
        return
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with open(where, "xb") as file:
        file.write(b"x")
    assert os.path.realpath(where).startswith(os.path.realpath(root) + os.sep)


@pytest.mark.parametrize("path", [None, 1, b"a", ["a"], "", "x" * 256, "a/" * 2001 + "a", "训" * 86])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(UnsafePath):
        check_relative(path)


@pytest.mark.parametrize("path", ["a", "a/b", "x" * 255, "训" * 85, "..a", "a..", "-rf", " ", "a\nb", "~", "*"])
def test_odd_but_harmless_paths_pass(path):
    assert check_relative(path) == path


@MANY
@given(NASTY)
def test_a_name_is_refused_or_is_one_plain_word(name):
    try:
        check_name(name)
    except UnsafePath as error:
        assert repr(name) in str(error)
        return
    assert name.isascii() and 1 <= len(name) <= 100
    assert name[0].isalnum() and not name.endswith(".")
    assert not set(name) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
    assert check_relative(name) == name


@pytest.mark.parametrize("name", ["a", "A-1", "run.2", "x" * 100, "0_"])
def test_plain_names_pass(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", [None, 3, "", ".", "..", ".a", "-a", "_a", "a.", "a b", "a/b", "a\n", "é", "x" * 101])
def test_other_names_are_refused_and_the_error_says_what_for(name):
    with pytest.raises(UnsafePath, match="cell"):
        check_name(name, "cell")


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").write_bytes(b"inside")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"secret")
    return root


def read(root, path):
    with os.fdopen(open_below(str(root), path), "rb") as file:
        return file.read()


def test_a_plain_file_opens(root):
    assert read(root, "sub/file") == b"inside"


def test_a_file_with_an_odd_name_opens(root, odd_name):
    (root / odd_name).mkdir()
    (root / odd_name / odd_name).write_bytes(b"x")
    assert read(root, "%s/%s" % (odd_name, odd_name)) == b"x"


def test_the_root_itself_may_be_reached_through_a_symlink(root, tmp_path):
    os.symlink(str(root), str(tmp_path / "alias"))
    assert read(tmp_path / "alias", "sub/file") == b"inside"


@pytest.mark.parametrize("target", ["../outside/file", "sub/file", "/etc/passwd", "nowhere"])
def test_a_symlinked_file_is_not_followed(root, target):
    os.symlink(target, str(root / "link"))
    with pytest.raises(OSError):
        open_below(str(root), "link")


@pytest.mark.parametrize("target", ["../outside", "sub", "/etc", "."])
def test_a_symlinked_parent_is_not_followed(root, target):
    os.symlink(target, str(root / "link"))
    with pytest.raises(OSError):
        open_below(str(root), "link/file")


def test_a_symlink_deep_inside_is_not_followed(root):
    (root / "sub" / "deep").mkdir()
    os.symlink("../../../outside", str(root / "sub" / "deep" / "link"))
    with pytest.raises(OSError):
        open_below(str(root), "sub/deep/link/file")


def test_a_fifo_neither_opens_nor_hangs(root):
    os.mkfifo(str(root / "fifo"))
    with pytest.raises(UnsafePath, match="not a regular file"):
        open_below(str(root), "fifo")


def test_a_folder_does_not_open(root):
    with pytest.raises((OSError, UnsafePath)):
        open_below(str(root), "sub")


def test_a_socket_does_not_open(root, monkeypatch):
    monkeypatch.chdir(root)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises((OSError, UnsafePath)):
            open_below(str(root), "socket")


@pytest.mark.parametrize("path", ["../outside/file", "/etc/passwd", "sub/../../outside/file", "", "."])
def test_a_path_that_escapes_does_not_open(root, path):
    with pytest.raises(UnsafePath):
        open_below(str(root), path)


def open_in(folder):
    """List what this process has open there; what else it opens and closes meanwhile is others' business."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink("/proc/self/fd/" + number))
    return [link for link in links if link.startswith(os.path.realpath(str(folder)))]


def test_refusals_leave_no_file_descriptor_open(root, tmp_path):
    os.mkfifo(str(root / "fifo"))
    os.symlink("../outside", str(root / "link"))
    with open(str(root / "sub" / "file"), "rb"):
        assert len(open_in(tmp_path)) == 1
    for path in ("fifo", "link/file", "sub", "none", "sub/none", "sub/file/below"):
        with contextlib.suppress(OSError, UnsafePath):
            os.close(open_below(str(root), path))
    assert open_in(tmp_path) == []
