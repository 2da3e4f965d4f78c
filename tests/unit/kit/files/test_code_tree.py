"""Code trees: one hash for one content, and no link that leads out."""

from __future__ import annotations

import os
import random
import tempfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.kit.files.code_tree import check_link, tree_hash
from tests.support.examples import MANY, SOME

FILES = st.fixed_dictionaries(
    {"path": st.text(min_size=1, max_size=6), "bytes": st.integers(0), "sha256": st.just("a" * 64)},
    optional={"exec": st.just(True)},
)
LINKS = st.fixed_dictionaries({"path": st.text(min_size=1, max_size=6), "link": st.text(min_size=1, max_size=6)})
ENTRIES = st.lists(FILES | LINKS, max_size=6, unique_by=lambda entry: entry["path"])
TARGETS = st.lists(st.sampled_from(["..", ".", "a", "b", "", "\0", "中"]), max_size=5).map("/".join) | st.text(
    max_size=6
)


@MANY
@given(ENTRIES, st.integers())
def test_the_hash_does_not_depend_on_the_order(entries, seed):
    mixed = list(entries)
    random.Random(seed).shuffle(mixed)
    assert tree_hash(mixed) == tree_hash(entries)


@MANY
@given(ENTRIES, ENTRIES)
def test_trees_that_differ_hash_differently(one, other):
    def by_path(entries):
        return sorted(entries, key=lambda entry: entry["path"])

    assert (tree_hash(one) == tree_hash(other)) == (by_path(one) == by_path(other))


def test_an_executable_bit_a_name_and_a_link_all_count():
    plain = {"path": "a", "bytes": 1, "sha256": "a" * 64}
    variants = [
        [plain],
        [dict(plain, exec=True)],
        [dict(plain, path="b")],
        [dict(plain, sha256="b" * 64)],
        [{"path": "a", "link": "b"}],
        [],
    ]
    assert len({tree_hash(variant) for variant in variants}) == len(variants)


@MANY
@given(st.sampled_from(["link", "a/link", "a/b/link"]), TARGETS)
@example("link", "..")
@example("a/link", "../..")
@example("a/link", "..")
@example("a/b/link", "../../../a")
@example("link", "a/../../x")
def test_a_link_is_refused_or_lands_inside_the_tree(path, target):
    try:
        check_link(path, target)
    except ValueError:
        return
    landed = os.path.normpath(os.path.join("/root/tree", os.path.dirname(path), target))
    assert landed == "/root/tree" or landed.startswith("/root/tree/")


@SOME
@given(path=st.sampled_from(["link", "a/link", "a/b/link"]), target=TARGETS)
def test_an_accepted_link_really_stays_inside(tmp_path, path, target):
    root = os.path.realpath(tempfile.mkdtemp(dir=str(tmp_path)))
    os.makedirs(os.path.join(root, "a", "b"))
    try:
        os.symlink(check_link(path, target), os.path.join(root, path))
    except (ValueError, OSError):
        return
    landed = os.path.realpath(os.path.join(root, path))
    assert landed == root or landed.startswith(root + "/")


@pytest.mark.parametrize("target", ["", "/", "/etc/passwd", "..", "../x", "a/../../x", "a\0b", "caf\udce9"])
def test_links_that_lead_out_or_cannot_travel_are_refused(target):
    with pytest.raises(ValueError):
        check_link("link", target)


def test_a_link_at_an_unsafe_place_is_refused():
    with pytest.raises(ValueError):
        check_link("../link", "a")
