"""What lies on the box was changed behind its size, time and inode: nothing is deleted that did not come home."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.front import NO_SMOKE, Front, front
from tests.support.screens import Session

_TRAIN = """
import json, os
print("step 1/1 loss 0.5", flush=True)
out = os.environ["LEASE_OUT"]
json.dump({"loss": 0.5}, open(os.path.join(out, "result.json"), "w"))
open(os.path.join(out, "best.bin"), "wb").write(b"a" * (3 << 20))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody whose simulated rental has a finished run, home and verified."""
    with front(tmp_path / "person") as someone:
        someone.write("train.py", _TRAIN)
        someone.job(artifacts={"result.json": "json", "best.bin": "bytes"})
        done = someone.lease("run", "--rehearse", *NO_SMOKE)
        assert done.code == 0, done.said
        yield someone


def root(person: Front) -> Path:
    return person.home / "boxes" / "rehearsal"


def on_box(person: Front, name: str = "best.bin") -> Path:
    (path,) = root(person).glob(f"active/*/out/main/{name}")
    return path


def at_home(person: Front, name: str = "best.bin") -> bytes:
    (path,) = person.project.glob(f"lease-results/export/toy-*/cells/main/{name}")
    return path.read_bytes()


def overwrite(path: Path, data: bytes) -> None:
    """Write in place and set the time back, as tools do that keep times."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)


def through_a_second_name(path: Path, data: bytes) -> None:
    other = path.parents[5] / "elsewhere.bin"
    os.link(path, other)
    overwrite(other, data)
    other.unlink()


@pytest.mark.parametrize("change", [overwrite, pytest.param(through_a_second_name, marks=pytest.mark.full)])
def test_what_was_written_in_place_comes_home_before_the_box_goes(
    person: Front, change: Callable[[Path, bytes], None]
) -> None:
    change(on_box(person), b"bbbb")
    plan = person.lease("down", "toy", "--plan")
    assert plan.code == 3, plan.said
    refused = person.lease("down", "toy", "--rehearsal")
    assert refused.code == 3, refused.said
    assert "'best.bin' holds other bytes on the box than came home" in refused.said
    assert "lease pull" in refused.said
    assert root(person).is_dir() and at_home(person)[:4] == b"aaaa"

    pulled = person.lease("pull", "toy")
    assert pulled.code == 0, pulled.said
    assert at_home(person)[:4] == b"bbbb"
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 0, done.said
    assert not root(person).exists() and at_home(person)[:4] == b"bbbb"


def test_a_store_into_a_mapped_page_is_found_by_reading(person: Front) -> None:
    with open(on_box(person), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0] = ord("b")  # the page is dirty from here on
        assert person.lease("pull", "toy").code == 0
        assert at_home(person)[:2] == b"ba"
        before = on_box(person).stat()
        mapped[1] = ord("c")
        timeless = before.st_ctime_ns == on_box(person).stat().st_ctime_ns
        plan = person.lease("down", "toy", "--plan")
        refused = person.lease("down", "toy", "--rehearsal")
        assert refused.code == 3, refused.said
        if (
            timeless and on_box(person).stat().st_ctime_ns == before.st_ctime_ns
        ):  # nothing wrote the page back meanwhile
            assert plan.code == 0, "its times say nothing; the plan says what is still to be read"
            assert "are read in full right before" in plan.out + plan.said
        assert "'best.bin' holds other bytes on the box than came home" in refused.said or "mtime" in refused.said
    assert root(person).is_dir()
    pulled = person.lease("pull", "toy")
    assert pulled.code == 0, pulled.said
    assert at_home(person)[:3] == b"bca"
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 0, done.said
    assert at_home(person)[:3] == b"bca"


def test_what_changes_while_the_person_thinks_is_not_deleted(person: Front) -> None:
    session = Session(person, "unused")

    def change() -> None:
        overwrite(on_box(person), b"cccc")

    plan = json.loads(person.lease("down", "toy", "--plan", "--json").out)
    phrase = f"{plan['verb']} {plan['lease']}"
    said = session.type("lease down toy", ("gate: passed", change), ("type", phrase), code=3)
    assert "something changed while the approval was given" in said
    assert "'best.bin' holds other bytes" in said
    assert root(person).is_dir()
    assert person.events("intent_recorded") == []


def test_what_is_read_in_full_is_said_with_bytes_and_seconds(person: Front) -> None:
    done = person.lease("down", "toy", "--rehearsal")
    assert done.code == 0, done.said
    assert "the box reads 2 files in full, 3.1 MB" in done.said
    assert "the box read 2 files in full, 3.1 MB in " in done.said
    assert not root(person).exists()


def test_another_name_or_mode_alone_is_read_and_found_equal(person: Front) -> None:
    os.link(on_box(person), root(person).parent / "backup.bin")  # as backup tools do: ctime moves, the bytes do not
    plan = person.lease("down", "toy", "--plan")
    assert plan.code == 0, plan.said
    assert "with a later ctime read in full, hash-equal" in plan.said + plan.out
    assert person.lease("down", "toy", "--rehearsal").code == 0


def test_a_pull_that_finds_nothing_new_still_finds_it_done(person: Front) -> None:
    again = person.lease("pull", "toy")
    assert again.code == 0, again.said
    assert "already home and verified" in again.said
