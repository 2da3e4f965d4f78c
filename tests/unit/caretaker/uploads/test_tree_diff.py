"""After an edit only the new lines of a list are looked at; a list that cannot be believed is not."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.uploads.tree_diff import news
from leasehold.kit.files.code_tree import tree_hash, tree_text

ODD = ['a"},{"b', "},{", 'x"}],"schema":"', "ü/é", "plain"]


def entry(path: str, number: int) -> Dict[str, Any]:
    return {"path": path, "bytes": number, "sha256": "%064x" % number}


def keep(folder: Path, entries: List[Dict[str, Any]], age_s: int = 0) -> str:
    """Put a list where the box keeps them."""
    name = tree_hash(entries)
    path = folder / (name + ".list")
    path.write_bytes(zlib.compress(tree_text(entries)))
    os.utime(path, (10**9 - age_s, 10**9 - age_s))
    return name


def told(folder: Path, entries: List[Dict[str, Any]]) -> Any:
    found = news(str(folder), ".list", tree_text(entries))
    return found if found is None else sorted(found, key=lambda one: str(one["path"]))


BASE = [entry("f%03d" % number, number) for number in range(100)] + [entry(path, 900) for path in ODD]


def test_only_what_is_new_or_changed_is_named(tmp_path):
    keep(tmp_path, BASE)
    changed = [entry("f007", 7007), {**entry("f008", 8), "exec": True}, {"path": "link", "link": 'f"},{"01'}]
    now = [one for one in BASE if one["path"] not in ("f007", "f008")] + changed
    assert told(tmp_path, now) == sorted(changed, key=lambda one: str(one["path"]))
    assert told(tmp_path, BASE) == []
    assert told(tmp_path, BASE[:-50]) == [], "what went away needs nothing"


def test_odd_names_are_entries_like_others(tmp_path):
    keep(tmp_path, BASE)
    more = [entry(path + path, 950 + number) for number, path in enumerate(ODD)]
    assert told(tmp_path, BASE + more) == sorted(more, key=lambda one: str(one["path"]))


def test_the_newest_list_is_compared_with(tmp_path):
    keep(tmp_path, BASE, age_s=100)
    newer = [*BASE, entry("new", 77)]
    keep(tmp_path, newer)
    assert told(tmp_path, newer) == []


@pytest.mark.parametrize("spoil", ["empty", "torn", "other", "none"])
def test_a_list_that_is_not_what_it_is_called_is_not_believed(tmp_path, spoil):
    name = keep(tmp_path, BASE)
    path = tmp_path / (name + ".list")
    if spoil == "empty":
        path.write_bytes(b"")
    elif spoil == "torn":
        path.write_bytes(path.read_bytes()[:-500])
    elif spoil == "other":
        path.write_bytes(zlib.compress(tree_text(BASE[:-1])))
    else:
        path.unlink()
    assert told(tmp_path, BASE) is None


def test_another_project_is_looked_at_whole(tmp_path):
    keep(tmp_path, BASE)
    assert told(tmp_path, [entry("g%d" % number, number) for number in range(50)]) is None
