"""States at home: published last, pruned to the last two, the best and the pinned, never from a box that was left."""

from __future__ import annotations

import io
import shutil
import time
from hashlib import sha256
from pathlib import Path

import pytest

from leasehold.errors import Refusal
from leasehold.kit.refuge.epochs import Claim, claim
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.layout import pins_key, pointer_key
from leasehold.kit.refuge.reading import Kept, newest_whole, read_pointer
from leasehold.kit.refuge.records import Pointer, State, StateFile, encode_pins, encode_pointer
from leasehold.lifecycle.states.home_place import HomePlace


@pytest.fixture
def place(scene) -> HomePlace:
    return HomePlace(scene.ledger, scene.record)


def keep(place: HomePlace, folder: Path, step: int, epoch: int = 0) -> Kept:
    """Keep and publish a state of one file."""
    source = folder / "source"
    content = b"weights of step %d" % step
    source.write_bytes(content)
    files = (StateFile("last.bin", len(content), sha256(content).hexdigest()),)
    number, now = epoch or place.epoch(), time.time()
    kept = place.put(
        State("toy-1", "main", number, "box", 1, step, step, now + step, now + step, "file", "", files),
        {"last.bin": source},
    )
    place.publish(kept)
    return kept


def steps(place: HomePlace) -> list[int | None]:
    return [one.state.step for one in place.kept("main")]


def test_the_newest_two_stay_and_are_whole(place, tmp_path):
    for step in (1, 2, 3):
        keep(place, tmp_path, step)
    assert steps(place) == [3, 2]
    newest = newest_whole(FolderPlace(str(place.folder)), "toy-1", "main")
    assert newest is not None and newest.state.step == 3
    assert (place.where(newest) / "last.bin").read_bytes() == b"weights of step 3"


def test_the_best_and_the_pinned_stay(place, tmp_path):
    best, pinned = keep(place, tmp_path, 1), keep(place, tmp_path, 2)
    raw = FolderPlace(str(place.folder))
    said = read_pointer(raw, "toy-1", "main", 1)
    assert said is not None
    for key, data in (
        (pointer_key("toy-1", "main", 1), encode_pointer(said._replace(best=best.id))),
        (pins_key("toy-1"), encode_pins({"main": [pinned.id]})),
    ):
        raw.put(key, io.BytesIO(data), len(data), sha256(data).hexdigest())
    for step in (3, 4, 5):
        keep(place, tmp_path, step)
    assert sorted(step for step in steps(place) if step) == [1, 2, 4, 5]
    assert isinstance(read_pointer(raw, "toy-1", "main", 1), Pointer)


def test_the_best_by_the_metric_stays(place, tmp_path):
    for step, value in ((1, 0.5), (2, 0.2), (3, None), (4, 0.9), (5, 0.4)):
        kept = keep(place, tmp_path, step)
        place.publish(kept, value)
    assert sorted(step for step in steps(place) if step) == [2, 4, 5]
    said = read_pointer(FolderPlace(str(place.folder)), "toy-1", "main", 1)
    assert said is not None and said.best_value == 0.2


def test_a_run_that_was_moved_takes_nothing_more_from_its_old_box(place, tmp_path):
    keep(place, tmp_path, 1)
    claim(FolderPlace(str(place.folder)), "toy-1", Claim(2, "n", box="another"))
    with pytest.raises(Refusal, match="moved to another") as caught:
        place.epoch()
    assert caught.value.code == "state.moved"
    with pytest.raises(Refusal):
        keep(place, tmp_path, 9, epoch=1)
    assert steps(place)[0] == 1, "what it published before counts as before"


def test_a_run_that_this_home_moved_here_continues_in_its_own_epoch(scene, tmp_path):
    scene.ledger.append("move_begun", lease=scene.lease.id, run="toy-1", to=scene.box.name, epoch=4, nonce="x", box="a")
    place = HomePlace(scene.ledger, scene.record)
    assert place.epoch() == place.epoch() == 4


def test_a_torn_newest_state_leaves_the_older_one_valid(place, tmp_path):
    keep(place, tmp_path, 1)
    torn = keep(place, tmp_path, 2)
    (place.where(torn) / "last.bin").write_bytes(b"weights")
    newest = newest_whole(FolderPlace(str(place.folder)), "toy-1", "main")
    assert newest is not None and newest.state.step == 1


def test_where_nothing_came_nothing_is_known(place, tmp_path):
    assert not place.exists and place.newest("main") is None
    keep(place, tmp_path, 1)
    shutil.rmtree(place.folder)
    assert place.newest("main") is None


def test_without_a_step_states_are_numbered_in_sequence(place, tmp_path):
    place.epoch()
    assert place.number("main", None) == 1
    keep(place, tmp_path, 7)
    assert (place.number("main", None), place.number("main", 3)) == (8, 3)
