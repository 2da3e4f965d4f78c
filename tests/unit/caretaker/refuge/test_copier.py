"""One state on its way off the box: killed at any step it is never torn, and continued by the next worker."""

from __future__ import annotations

import os

import pytest

from leasehold.caretaker.refuge import worker
from leasehold.caretaker.refuge.cell_record import CellRecord
from leasehold.caretaker.refuge.copier import Origin, Retention, StateCopy
from leasehold.caretaker.refuge.found_states import candidates
from leasehold.caretaker.refuge.held_files import HeldFiles
from leasehold.kit.refuge import folder_place, publishing
from leasehold.kit.refuge.epochs import Claim, claim
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.layout import pins_key, states_prefix
from leasehold.kit.refuge.place import PlaceError, SourceChanged
from leasehold.kit.refuge.publishing import Fenced
from leasehold.kit.refuge.read_object import put_object
from leasehold.kit.refuge.reading import kept_states, newest_state, newest_whole, read_pointer, verify
from leasehold.kit.refuge.records import encode_pins

RUN, CELL = "toy-0123", "main"
POINTS = [
    ("refuge_file_written", 1), ("refuge_file_written", 2), ("refuge_file_written", 3), ("refuge_files_written", 1),
    ("refuge_file_written", 4), ("refuge_manifest_written", 1), ("refuge_fence_read", 1), ("refuge_published", 1),
    ("refuge_pruning", 1),
]  # fmt: skip


class Killed(BaseException):
    """What a test raises where a kill -9 would be; no `except Exception` may swallow it."""


class Bed:
    """A box's folder, a tier, and a cell's record; each copy is made by a worker that knows only what is written."""

    def __init__(self, tmp_path):
        self.out, self.tier, self.record = tmp_path / "out", tmp_path / "tier", str(tmp_path / "record.json")
        self.out.mkdir()
        self.tier.mkdir()
        self.epoch = 1
        assert claim(self.place(), RUN, Claim(1, "mine"))

    def place(self):
        return FolderPlace(str(self.tier), writer="toy")

    def save(self, step, text=None):
        folder = self.out / ("checkpoint-%d" % step)
        folder.mkdir()
        for name in ("model.bin", "sub/opt.bin", "trainer_state.json"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text((text or "%s of step %d" % (name, step)))
        os.utime(str(folder / "model.bin"), (1000 + step, 1000 + step))

    def copy(self, keep=2, metric=None, during=lambda held: None, place=None):
        [state, *_] = sorted(candidates(str(self.out), "checkpoint-*"), key=lambda one: -one.step)
        record = CellRecord(self.record)
        with HeldFiles(str(self.out), state, lambda count: None) as held:
            during(held)
            copy = StateCopy(held, state, Origin(RUN, CELL, self.epoch, "gpu1", 1), record, metric)
            return copy.to(place or self.place(), Retention(keep, "min"), lambda: None)

    def newest(self):
        found = newest_state(self.place(), RUN, CELL)
        assert found is None or verify(self.place(), found) == [], "a torn state is visible"
        return found.state.step if found else None

    def steps(self):
        return [one.state.step for one in kept_states(self.place(), RUN, CELL)]

    def strangers(self):
        """Return the files that belong to no state with a manifest."""
        names = {one.id for one in kept_states(self.place(), RUN, CELL)}
        prefix = states_prefix(RUN, CELL)
        rest = [one.key[len(prefix) :] for one in self.place().list(prefix)]
        return [one for one in rest if one.split("/")[0].replace(".json", "") not in names]


@pytest.fixture
def bed(tmp_path):
    return Bed(tmp_path)


def die_at(monkeypatch, event, number):
    count = [0]

    def pause_at(name, phase):
        count[0] += name == event
        if name == event and count[0] == number:
            raise Killed(event)

    for module in (folder_place, publishing, worker):
        monkeypatch.setattr(module, "pause_at", pause_at)


@pytest.mark.parametrize("event, number", POINTS)
def test_a_kill_at_any_step_leaves_a_whole_newest_and_is_continued(bed, monkeypatch, event, number):
    for step in (100, 200):
        bed.save(step)
        bed.copy()
    bed.save(300)
    with monkeypatch.context() as patch:
        die_at(patch, event, number)
        with pytest.raises(Killed):
            bed.copy()
    assert bed.newest() in (200, 300)
    done = bed.copy()
    assert bed.newest() == 300 and bed.steps() == [300, 200] and bed.strangers() == []
    assert done.kept.state.step == 300 and not os.listdir(str(bed.tier / folder_place.PARTS))


def test_a_continued_copy_keeps_its_name_and_its_files(bed, monkeypatch):
    bed.save(100)
    with monkeypatch.context() as patch:
        die_at(patch, "refuge_manifest_written", 1)
        with pytest.raises(Killed):
            bed.copy()
    before = [one.id for one in kept_states(bed.place(), RUN, CELL)]
    assert [bed.copy().kept.id] == before


def test_a_state_that_its_trainer_deletes_meanwhile_is_still_copied(bed):
    bed.save(100)

    def delete(held):
        for path in sorted((bed.out / "checkpoint-100").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()

    bed.copy(during=delete)
    assert bed.newest() == 100


@pytest.mark.parametrize("size", ["same", "other"])
def test_a_state_that_is_written_to_meanwhile_is_given_up(bed, size):
    bed.save(100)
    text = (bed.out / "checkpoint-100/model.bin").read_text()

    def write(held):
        with open(str(bed.out / "checkpoint-100/model.bin"), "r+") as file:
            file.write(text[::-1] if size == "same" else text + "more")

    with pytest.raises(SourceChanged):
        bed.copy(during=write)
    assert bed.newest() is None


def test_bytes_that_change_under_the_same_time_are_noticed(bed):
    """A memory map may write without a new time: the second hash differs from the first."""
    bed.save(100)
    path = str(bed.out / "checkpoint-100/model.bin")
    info = os.stat(path)
    real = HeldFiles.hashed

    def hashed(self, row):
        found = real(self, row)
        if row[0] == "model.bin":
            with open(path, "r+") as file:
                file.write("MODEL")
            os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        return found

    HeldFiles.hashed = hashed
    try:
        with pytest.raises(SourceChanged):
            bed.copy()
    finally:
        HeldFiles.hashed = real
    assert bed.newest() is None


def test_very_many_files_are_opened_one_by_one(bed):
    bed.save(100)
    [state] = candidates(str(bed.out), "checkpoint-*")
    with HeldFiles(str(bed.out), state, lambda count: None, most_open=1) as held:
        assert held.hashed(state.rows[0]).bytes == state.rows[0][1]
        (bed.out / "checkpoint-100/model.bin").unlink()
        with pytest.raises(SourceChanged):
            held.check()


def test_the_best_stays_and_moves_only_to_a_better_one(bed):
    for step, loss in ((100, 0.5), (200, 0.9), (300, None), (400, 0.7)):
        bed.save(step)
        bed.copy(keep=1, metric=loss)
    assert bed.steps() == [400, 100]
    pointer = read_pointer(bed.place(), RUN, CELL, 1)
    assert pointer.best_value == 0.5 and pointer.best.startswith("000000000100-")
    bed.save(500)
    bed.copy(keep=1, metric=0.1)
    assert bed.steps() == [500]


def test_what_a_person_pinned_stays(bed):
    bed.save(100)
    pinned = bed.copy().kept.id
    put_object(bed.place(), pins_key(RUN), encode_pins({CELL: [pinned]}))
    for step in (200, 300, 400):
        bed.save(step)
        bed.copy(keep=1)
    assert bed.steps() == [400, 100]


def test_nothing_is_deleted_while_the_pins_cannot_be_read(bed):
    put_object(bed.place(), pins_key(RUN), b"garbled")
    for step in (100, 200, 300):
        bed.save(step)
        bed.copy(keep=1)
    assert bed.steps() == [300, 200, 100]


def test_a_box_that_comes_back_publishes_nothing(bed):
    bed.save(100)
    bed.copy()
    assert claim(bed.place(), RUN, Claim(2, "theirs"))
    bed.save(200)
    with pytest.raises(Fenced):
        bed.copy()
    assert read_pointer(bed.place(), RUN, CELL, 1).step == 100


def test_the_next_epoch_takes_over_what_the_last_one_left(bed):
    for step in (100, 200):
        bed.save(step)
        bed.copy(metric=1.0 / step)
    assert claim(bed.place(), RUN, Claim(2, "theirs"))
    bed.epoch, bed.record = 2, bed.record + "2"
    bed.save(300)
    bed.copy(metric=9.0)
    assert bed.steps() == [300, 200], "its own is alone so far: the last one of the box before stays"
    assert read_pointer(bed.place(), RUN, CELL, 2).best.startswith("000000000200-")
    for step in (400, 500):
        bed.save(step)
        bed.copy(metric=9.0)
    assert bed.steps() == [500, 400, 200], "the best of the box before stays"
    assert read_pointer(bed.place(), RUN, CELL, 1) is None


def test_states_without_a_step_are_numbered_in_order(bed, tmp_path):
    names = []
    for text in ("one", "two", "three"):
        (bed.out / "last.json").write_text('{"a": "%s"}' % text)
        [state] = candidates(str(bed.out), "last.json")
        with HeldFiles(str(bed.out), state, lambda count: None) as held:
            copy = StateCopy(held, state, Origin(RUN, CELL, 1, "gpu1", 1), CellRecord(bed.record), None)
            names.append(copy.to(bed.place(), Retention(9, "min"), lambda: None).kept.id[:12])
    assert names == ["000000000001", "000000000002", "000000000003"]
    os.unlink(bed.record)
    (bed.out / "last.json").write_text('{"a": "after the record was lost"}')
    [state] = candidates(str(bed.out), "last.json")
    with HeldFiles(str(bed.out), state, lambda count: None) as held:
        copy = StateCopy(held, state, Origin(RUN, CELL, 1, "gpu1", 1), CellRecord(bed.record), None)
        assert copy.to(bed.place(), Retention(9, "min"), lambda: None).kept.id.startswith("000000000004")


class Lying(FolderPlace):
    """A tier that keeps other bytes than it was given."""

    def put(self, key, source, size, sha256):
        super().put(key, source, size, sha256)
        path = os.path.join(self.where, key)
        if key.endswith("opt.bin"):
            with open(path, "r+b") as file:
                file.write(b"?")


def test_a_tier_that_lies_is_found_out_before_anything_is_published(bed):
    bed.save(100)
    bed.copy()
    bed.save(200)
    with pytest.raises(PlaceError) as error:
        bed.copy(place=Lying(str(bed.tier)))
    assert error.value.kind == "lying" and bed.newest() == 100


def test_damage_that_comes_later_falls_back_to_the_state_before(bed):
    for step in (100, 200):
        bed.save(step)
        bed.copy()
    newest = newest_state(bed.place(), RUN, CELL)
    (bed.tier / states_prefix(RUN, CELL) / newest.id / "model.bin").write_text("rotten")
    assert newest_whole(bed.place(), RUN, CELL).state.step == 100


def test_only_a_copy_that_succeeded_makes_the_next_one_wait(bed):
    bed.save(100)
    with pytest.raises(PlaceError):
        bed.copy(place=Lying(str(bed.tier)))
    assert CellRecord(bed.record).begun_unix(str(bed.tier)) == 0.0
    bed.copy()
    assert CellRecord(bed.record).begun_unix(str(bed.tier)) > 0.0
