"""Artifact patterns against an oracle that shares no code with them."""

from __future__ import annotations

import os
import tempfile
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.kit.files.globbing import compile_pattern, matching, walk
from tests.support.examples import MANY, SOME

NAMES = st.text("ab.]-\n中!^[", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PIECES = st.sampled_from(
    ["*", "?", "a", "b", ".", "[ab]", "[!a]", "[^b]", "[a-c]", "[]]", "[!]a]", "[", "]", "-", "中"]
)
RAW = st.text("ab.*?[]!^-\\中\n&|~", min_size=1, max_size=7)
SEGMENTS = st.just("**") | st.lists(PIECES, min_size=1, max_size=4).map("".join) | RAW
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)


def oracle(pattern, path):
    return segments_match(pattern.split("/"), path.split("/"))


def segments_match(wanted, given_):
    if not wanted:
        return not given_
    if wanted == ["**"]:
        return bool(given_)
    if wanted[0] == "**":
        return any(segments_match(wanted[1:], given_[skip:]) for skip in range(len(given_)))
    return bool(given_) and text_matches(wanted[0], given_[0]) and segments_match(wanted[1:], given_[1:])


def text_matches(pattern, text):
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(text_matches(pattern[1:], text[skip:]) for skip in range(len(text) + 1))
    if not text:
        return False
    if pattern[0] == "?":
        return text_matches(pattern[1:], text[1:])
    end = class_end(pattern)
    if end:
        return in_class(pattern[1:end], text[0]) and text_matches(pattern[end + 1 :], text[1:])
    return pattern[0] == text[0] and text_matches(pattern[1:], text[1:])


def class_end(pattern):
    """Where a class at the start of pattern closes; 0 when there is none and `[` means itself."""
    if pattern[0] != "[":
        return 0
    first = 2 if pattern[1:2] in ("!", "^") else 1
    return max(0, pattern.find("]", first + 1))


def in_class(body, char):
    if body[0] in "!^":
        return not in_class("x" + body[1:], char) if body[1:2] == "" else not listed(body[1:], char)
    return listed(body, char)


def listed(body, char):
    while body:
        if body[1:2] == "-" and len(body) > 2:
            if body[0] <= char <= body[2]:
                return True
            body = body[3:]
        else:
            if body[0] == char:
                return True
            body = body[1:]
    return False


@MANY
@given(PATTERNS, PATHS)
@example("**", "a")
@example("**/a", "a")
@example("a/**", "a")
@example("a/**/b", "a/b")
@example("a/**/b", "a/x/y/b")
@example("[!]a]", "b")
@example("[!]", "[!]")
@example("[b-a]", "a")
@example("[!b-a]", "a")
@example("[a&&b]", "&")
@example("[a||b]", "|")
@example("[[]", "[")
@example("[\\]", "\\")
@example("a\\d", "a1")
@example("*", "a\nb")
@example("[!a]", "\n")
@example("[.-0]", "/")
def test_a_pattern_matches_what_the_oracle_says(pattern, path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a regex that only happens to compile is a warning away from an error
        matched = bool(compile_pattern(pattern).match(path))
    assert matched == oracle(pattern, path)


@pytest.mark.parametrize(
    "pattern, path, wanted",
    [
        ("best.pt", "best.pt", True),
        ("best.pt", "bestXpt", False),
        ("best.pt", "sub/best.pt", False),
        ("*.pt", "best.pt", True),
        ("*.pt", "sub/best.pt", False),
        ("*.pt", ".pt", True),
        ("**/*.pt", "best.pt", True),
        ("**/*.pt", "a/b/c/best.pt", True),
        ("logs/**", "logs/a/b", True),
        ("logs/**", "logs", False),
        ("**", "any/thing", True),
        ("a**b", "a/b", False),
        ("a**b", "axxb", True),
        ("step-[0-9]?.pt", "step-42.pt", True),
        ("step-[0-9]?.pt", "step-x2.pt", False),
        ("*", "two\nlines", True),
        ("two\nlines", "two\nlines", True),
        ("a", "a\n", False),
    ],
)
def test_patterns_mean_what_people_expect(pattern, path, wanted):
    assert bool(compile_pattern(pattern).match(path)) is wanted


@SOME
@given(patterns=st.lists(PATTERNS, min_size=1, max_size=3), paths=st.lists(PATHS, max_size=8))
def test_a_tree_is_searched_as_the_oracle_says(tmp_path, patterns, paths):
    root = tempfile.mkdtemp(dir=str(tmp_path))
    made = sorted(path for path in paths if make(root, path))
    made = sorted(set(made))
    assert sorted(found.path for found in walk(root)) == made
    hits = matching(root, patterns)
    assert [[found.path for found in hit] for hit in hits] == [
        [path for path in made if oracle(pattern, path)] for pattern in patterns
    ]


def make(root, path):
    """Make a file where no earlier path stands in the way."""
    where = os.path.join(root, path)
    try:
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, "wb") as file:
            file.write(b"x")
    except OSError:
        return False
    return True


def test_symlinks_are_seen_as_themselves_and_never_entered(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.pt").write_bytes(b"x")
    root = tmp_path / "root"
    root.mkdir()
    os.symlink("../outside", str(root / "folder"))
    os.symlink("../outside/secret.pt", str(root / "file.pt"))
    os.symlink("nowhere", str(root / "dangling.pt"))
    os.symlink(".", str(root / "loop"))
    found = {item.path: item for item in walk(str(root))}
    assert sorted(found) == ["dangling.pt", "file.pt", "folder", "loop"]
    assert all(item.is_link and not item.is_file for item in found.values())
    assert [item.path for item in matching(str(root), ["**/secret.pt"])[0]] == []


def test_names_that_are_not_utf8_are_found(tmp_path):
    with open(os.path.join(os.fsencode(str(tmp_path)), b"caf\xe9.pt"), "wb") as file:
        file.write(b"x")
    (found,) = matching(str(tmp_path), ["*.pt"])[0]
    assert os.fsencode(found.path) == b"caf\xe9.pt"


def test_files_come_sorted_within_each_folder(tmp_path):
    for name in ("b", "a", "c/z", "c/y", "B"):
        assert make(str(tmp_path), name)
    assert [found.path for found in walk(str(tmp_path))] == ["B", "a", "b", "c/y", "c/z"]


def test_an_absent_root_matches_nothing(tmp_path):
    assert matching(str(tmp_path / "none"), ["*", "**"]) == [[], []]


def test_a_folder_without_end_is_given_up_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("leasehold.kit.files.globbing._MAX_FILES", 3)
    for name in "abcd":
        make(str(tmp_path), name)
    with pytest.raises(OSError, match="more than 3 files"):
        list(walk(str(tmp_path)))
