"""Downloads from a bucket: files and folders, resumed, checked, and refused for a reason that is said."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from leasehold.caretaker.downloads.download_file import LIMITS, Ears, Failed, FileFetch
from leasehold.caretaker.downloads.download_store import Store
from leasehold.caretaker.downloads.sources import list_item
from leasehold.kit.objects import bucket, read_ranges
from leasehold.kit.tables.download_sources import parse_source
from tests.support.fault_store import Asked, FaultStore, Reply, error

DATA = os.urandom(300_000)
QUICK: Dict[str, float] = {**LIMITS, "stall_s": 60.0, "pause_s": 0.0, "tries": 4}


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ranges, "RANGE_BYTES", 40_000)
    monkeypatch.setattr(bucket, "_FIRST_PAUSE_S", 0.0)


@pytest.fixture
def store() -> Iterator[FaultStore]:
    with FaultStore() as found:
        yield found


def fetch(store: FaultStore, data: Path, text: str, **item: Any) -> List[str]:
    found = Store(str(data))
    data.mkdir(exist_ok=True)
    found.open()
    ears = Ears(lambda kind, **facts: None, lambda count: None, lambda total: None)
    files = list_item([parse_source(text)], {"to": "w", **item}, store.environ, QUICK).files
    for file in files:
        FileFetch(found, file, QUICK, ears).run(True)
    return [file.path for file in files]


def test_an_object_is_a_file(store: FaultStore, tmp_path: Path) -> None:
    store.objects["a/model.bin"] = DATA
    sha256 = hashlib.sha256(DATA).hexdigest()
    assert fetch(store, tmp_path / "d", "s3://kept/a/model.bin", sha256=sha256) == ["w"]
    assert (tmp_path / "d" / "w").read_bytes() == DATA


@pytest.mark.parametrize("text", ["s3://kept/a/", "s3://kept/a"])
def test_a_prefix_is_a_folder(store: FaultStore, tmp_path: Path, text: str) -> None:
    store.objects.update({"a/x": b"1", "a/sub/y": DATA, "a/": b"", "ab/z": b"2"})
    assert sorted(fetch(store, tmp_path / "d", text)) == ["w/sub/y", "w/x"]
    assert (tmp_path / "d" / "w" / "sub" / "y").read_bytes() == DATA


def test_a_cut_download_asks_only_for_what_is_missing(store: FaultStore, tmp_path: Path) -> None:
    store.objects["k"] = DATA
    store.order = lambda asked: error(403, "ExpiredToken") if _first(asked) >= 120_000 else None
    with pytest.raises(Failed, match="session token has expired"):
        fetch(store, tmp_path / "d", "s3://kept/k")
    store.order, store.asked[:] = (lambda _: None), []
    fetch(store, tmp_path / "d", "s3://kept/k")
    assert (tmp_path / "d" / "w").read_bytes() == DATA
    assert min(_first(asked) for asked in store.asked[1:]) == 120_000


def test_an_object_that_was_replaced_comes_whole(store: FaultStore, tmp_path: Path) -> None:
    store.objects["k"] = DATA
    store.order = lambda asked: error(403, "AccessDenied") if _first(asked) >= 120_000 else None
    with pytest.raises(Failed):
        fetch(store, tmp_path / "d", "s3://kept/k")
    store.order, store.objects["k"] = (lambda _: None), DATA[::-1]
    fetch(store, tmp_path / "d", "s3://kept/k")
    assert (tmp_path / "d" / "w").read_bytes() == DATA[::-1]


def test_other_bytes_than_promised_are_never_placed(store: FaultStore, tmp_path: Path) -> None:
    store.objects["k"] = DATA
    with pytest.raises(Failed, match="was promised"):
        fetch(store, tmp_path / "d", "s3://kept/k", sha256="0" * 64)
    assert not (tmp_path / "d" / "w").exists()


def test_what_is_not_there_is_said(store: FaultStore, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="s3://kept/none: there is no such object, and none below it"):
        fetch(store, tmp_path / "d", "s3://kept/none")


def test_a_name_that_leaves_the_folder_is_refused(store: FaultStore, tmp_path: Path) -> None:
    store.objects["a/../../etc"] = b"x"
    with pytest.raises(Failed, match="not to be trusted"):
        fetch(store, tmp_path / "d", "s3://kept/a/")


def test_missing_keys_name_the_secrets(store: FaultStore, tmp_path: Path) -> None:
    store.environ.pop("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Failed, match="AWS_SECRET_ACCESS_KEY is not set.*secrets"):
        fetch(store, tmp_path / "d", "s3://kept/k")


def test_http_to_another_machine_needs_a_sha256(store: FaultStore, tmp_path: Path) -> None:
    store.environ["AWS_ENDPOINT_URL"] = "http://store.example"
    with pytest.raises(Failed, match="can be changed on its way"):
        fetch(store, tmp_path / "d", "s3://kept/k")


def test_a_list_whose_store_is_busy_is_asked_again(store: FaultStore, tmp_path: Path) -> None:
    store.objects["a/x"] = b"1"
    left = [error(503, "SlowDown"), Reply(200, b"", cut=-1)]
    store.order = lambda _: left.pop() if left else None
    assert fetch(store, tmp_path / "d", "s3://kept/a/") == ["w/x"]


def _first(asked: Asked) -> int:
    return int(asked.headers.get("range", "bytes=0-")[6:].partition("-")[0])
