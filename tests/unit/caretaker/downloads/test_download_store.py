"""Markers vouch for what was fetched: by size and time, for the same source or the same hash."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import pytest

from leasehold.caretaker.downloads.download_store import Store, Taken, hash_file

ITEM: Dict[str, Any] = {"source": ["https://a.example/f"], "to": "d/中 文", "sha256": "", "size_bytes": 0}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(str(tmp_path / "data"))
    found.open()
    path = Path(found.path(ITEM["to"]))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"bytes")
    seen = hash_file(str(path))
    found.keep(ITEM, [{"path": ITEM["to"], "sha256": seen.sha256}], "")
    return found


def test_what_was_fetched_is_found_again(store: Store) -> None:
    found = store.finished(ITEM)
    assert found is not None and found["files"][0]["size"] == 5


def test_a_changed_file_is_not_vouched_for(store: Store) -> None:
    os.utime(store.path(ITEM["to"]), ns=(1, 1))
    assert store.finished(ITEM) is None
    store.refuse_other(ITEM)  # but it is ours to fetch again


def test_the_same_hash_from_elsewhere_is_the_same_thing(store: Store) -> None:
    sha = hash_file(store.path(ITEM["to"])).sha256
    other = {**ITEM, "source": ["https://b.example/f"], "sha256": sha}
    assert store.finished(other) is not None


@pytest.mark.parametrize("change", [{"source": ["https://b.example/f"]}, {"sha256": "0" * 64}, {"size_bytes": 6}])
def test_another_thing_in_the_same_place_is_refused(store: Store, change: Dict[str, Any]) -> None:
    other = {**ITEM, **change}
    assert store.finished(other) is None
    with pytest.raises(Taken, match="https://a.example/f"):
        store.refuse_other(other)
    os.unlink(store.path(ITEM["to"]))
    store.refuse_other(other)
