"""What every place of a refuge keeps to: whole objects or none, exactly one creator, bytes as they were put."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.kit.refuge.place import Absent, Place, PlaceError, SourceChanged
from tests.support import object_stores
from tests.support.places import PLACES, Opened

BIG = 9 * 1024 * 1024 + 17


STORES = (pytest.mark.object_stores, pytest.mark.full)


@pytest.fixture(params=[pytest.param(name, marks=STORES if name in object_stores.STORES else ()) for name in PLACES])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    with PLACES[request.param](tmp_path) as found:
        yield found


@pytest.fixture
def place(opened: Opened) -> Place:
    return opened.again()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(place: Place, key: str, data: bytes) -> None:
    place.put(key, io.BytesIO(data), len(data), sha256(data))


def whole(place: Place, key: str) -> bytes:
    return b"".join(place.get(key))


def keys(place: Place, prefix: str) -> list[str]:
    return sorted(one.key for one in place.list(prefix))


def test_what_was_put_is_got_listed_and_read_back(opened: Opened) -> None:
    put(opened.again(), "a/b/c.bin", b"some bytes")
    other = opened.again()
    assert whole(other, "a/b/c.bin") == b"some bytes"
    assert [(one.key, one.bytes) for one in other.list("a/")] == [("a/b/c.bin", 10)]
    assert other.read_back("a/b/c.bin") == sha256(b"some bytes")


@pytest.mark.parametrize("data", [b"", b"x", os.urandom(BIG)], ids=["empty", "one byte", "large"])
def test_any_size_comes_back_as_it_was(place: Place, data: bytes) -> None:
    put(place, "k", data)
    assert whole(place, "k") == data
    assert place.read_back("k") == sha256(data)


def test_keys_may_have_any_name(opened: Opened, place: Place, odd_name: str) -> None:
    if any(char in odd_name for char in opened.rewrites):
        pytest.xfail(f"this store changes {opened.rewrites} in names")
    key = f"states/{odd_name}/.hidden/{odd_name}"
    put(place, key, b"1")
    assert keys(place, f"states/{odd_name}/") == [key]
    assert whole(place, key) == b"1"
    place.delete(key)
    assert keys(place, "") == []


def test_an_object_is_replaced_as_a_whole(place: Place) -> None:
    put(place, "k", b"a longer text")
    put(place, "k", b"short")
    assert whole(place, "k") == b"short"
    assert [one.bytes for one in place.list("k")] == [5]


def test_a_range_is_got_alone(place: Place) -> None:
    data = os.urandom(BIG)
    put(place, "k", data)
    assert b"".join(place.get("k", 5, 10)) == data[5:15]
    assert b"".join(place.get("k", BIG - 3)) == data[-3:]
    assert b"".join(place.get("k", BIG - 3, 100)) == data[-3:]
    assert b"".join(place.get("k", 0, 0)) == b""


def test_an_absent_key_is_told_at_once(place: Place) -> None:
    with pytest.raises(Absent):
        place.get("nothing/here")
    with pytest.raises(Absent):
        place.read_back("nothing/here")
    place.delete("nothing/here")
    assert keys(place, "nothing/") == []


def test_a_prefix_is_text_and_not_a_folder(place: Place) -> None:
    for key in ("run/epochs/000001.json", "run/epochs/000002.json", "run/epochs2/x", "running/y"):
        put(place, key, b"1")
    assert keys(place, "run/epochs/") == ["run/epochs/000001.json", "run/epochs/000002.json"]
    assert keys(place, "run/epochs/00000") == ["run/epochs/000001.json", "run/epochs/000002.json"]
    assert len(keys(place, "run")) == 4


def test_more_objects_than_one_answer_lists(opened: Opened, place: Place) -> None:
    for number in range(opened.page + 3):
        assert place.put_new(f"many/{number:04d}", b"x")
    assert len(keys(place, "many/")) == opened.page + 3


def test_a_key_is_created_only_once(opened: Opened) -> None:
    assert opened.again().put_new("claim", b"first")
    assert not opened.again().put_new("claim", b"second")
    assert whole(opened.again(), "claim") == b"first"


def test_of_many_creators_exactly_one_wins(opened: Opened) -> None:
    for turn in range(10):
        won: list[int] = []
        start = threading.Barrier(4)

        def create(number: int, turn: int = turn, won: list[int] = won, start: threading.Barrier = start) -> None:
            place = opened.again()
            start.wait(30)
            if place.put_new(f"claim-{turn}", b"by %d" % number):
                won.append(number)

        threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(won) == 1
        assert whole(opened.again(), f"claim-{turn}") == b"by %d" % won[0]


@pytest.mark.parametrize(
    "given", [b"other byte", b"short", b"longer than it", b""], ids=["other", "short", "long", "no"]
)
@pytest.mark.parametrize("before", [b"old", None], ids=["replacing", "new"])
def test_a_source_that_changed_leaves_what_was_there(place: Place, given: bytes, before: bytes | None) -> None:
    if before is not None:
        put(place, "k", before)
    with pytest.raises(SourceChanged):
        place.put("k", io.BytesIO(given), 10, sha256(b"some bytes"))
    assert [whole(place, key) for key in keys(place, "")] == ([before] if before is not None else [])


def test_a_source_that_cannot_be_read_is_not_the_places_fault(place: Place) -> None:
    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(SourceChanged):
        place.put("k", io.BufferedReader(Failing()), 10, sha256(b"some bytes"))
    assert keys(place, "") == []


def test_reading_back_shows_what_is_really_there(opened: Opened) -> None:
    put(opened.again(), "k", b"some bytes")
    opened.spoil("k", b"same sizeX")
    assert opened.again().read_back("k") == sha256(b"same sizeX")


@pytest.mark.parametrize("key", ["", "/absolute", "../outside", "a/../../b", "a//b", "a\0b"])
def test_a_key_cannot_leave_the_place(place: Place, key: str) -> None:
    for act in (lambda: put(place, key, b"x"), lambda: place.put_new(key, b"x"), lambda: place.get(key)):
        with pytest.raises(PlaceError) as refused:
            act()
        assert refused.value.kind == "refused"


def test_a_place_names_itself_for_people(place: Place) -> None:
    assert isinstance(place.where, str) and place.where
