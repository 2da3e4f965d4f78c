"""A refuge is read from its newest good state down, and written so that no kill leaves a torn one visible."""

from __future__ import annotations

import io
import json

import pytest

from leasehold.kit.files.canonical_json import sha256
from leasehold.kit.refuge import epochs, layout
from leasehold.kit.refuge.epochs import Claim, claim
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.place import PlaceError, SourceChanged
from leasehold.kit.refuge.publishing import Fenced, prune, put_pointer, put_state
from leasehold.kit.refuge.read_object import put_object
from leasehold.kit.refuge.reading import cells, kept_states, newest_state, newest_whole, read_file, read_pins, verify
from leasehold.kit.refuge.records import (
    BadRecord,
    Pointer,
    State,
    StateFile,
    encode_pins,
    encode_pointer,
    encode_state,
    parse_pointer,
    parse_state,
)

RUN, CELL = "mnist-0123abcd", "main"


@pytest.fixture
def place(tmp_path):
    return FolderPlace(str(tmp_path))


def state_of(step, data=b"weights", epoch=1, **changes):
    files = (StateFile("model.pt", len(data), sha256(data)), StateFile("opt/.meta", 0, sha256(b"")))
    root = "ckpt/checkpoint-%d" % step
    state = State(RUN, CELL, epoch, "gpu1", 1, step, step, 1000.0 + step, 2000.0 + step, "folder", root, files)
    return state._replace(**changes)


def keep(place, step, data=b"weights", epoch=1, pointed=True):
    kept = put_state(place, state_of(step, data, epoch), opener(data))
    if pointed:
        put_pointer(place, RUN, CELL, pointer_to(kept, epoch))
    return kept


def opener(data):
    return lambda one: io.BytesIO(data if one.path == "model.pt" else b"")


def pointer_to(kept, epoch=1, **more):
    return Pointer(epoch, kept.id, kept.manifest_sha256, kept.state.step, kept.state.made_unix, 3000.0, **more)


def claimed(place, *numbers):
    for number in numbers:
        assert claim(place, RUN, Claim(number, nonce="n%d" % number))


def newest_step(place):
    found = newest_state(place, RUN, CELL)
    return found.state.step if found else None


def test_the_newest_state_is_the_one_last_published(place):
    claimed(place, 1)
    keep(place, 100)
    keep(place, 200)
    found = newest_state(place, RUN, CELL)
    assert found.state == state_of(200) and verify(place, found) == []
    assert cells(place, RUN) == [CELL]


def test_nothing_kept_is_none(place):
    assert newest_state(place, RUN, CELL) is None and newest_whole(place, RUN, CELL) is None


def test_a_pointer_may_go_back_to_a_lower_step(place):
    claimed(place, 1)
    keep(place, 900)
    keep(place, 500, b"rolled back")
    assert newest_step(place) == 500
    assert [one.state.step for one in kept_states(place, RUN, CELL)] == [500, 900]


def test_the_pointer_of_the_highest_claimed_epoch_wins(place):
    claimed(place, 1, 2)
    keep(place, 300, epoch=1, pointed=False)
    put_object(
        place,
        layout.pointer_key(RUN, CELL, 1),
        encode_pointer(pointer_to(put_state(place, state_of(300), opener(b"weights")))),
    )
    keep(place, 100, b"moved", epoch=2)
    assert newest_step(place) == 100


def test_an_epoch_that_nobody_claimed_does_not_count(place):
    claimed(place, 1)
    keep(place, 100)
    kept = put_state(place, state_of(999, epoch=7), opener(b"weights"))
    put_object(place, layout.pointer_key(RUN, CELL, 7), encode_pointer(pointer_to(kept, 7)))
    assert [one.state.step for one in kept_states(place, RUN, CELL)] == [100]


def test_a_claimed_epoch_without_states_falls_back(place):
    claimed(place, 1)
    keep(place, 100)
    claimed(place, 2)
    assert newest_step(place) == 100


def test_a_damaged_newest_state_falls_back_to_the_one_before(place, tmp_path):
    claimed(place, 1)
    keep(place, 100, b"old")
    new = keep(place, 200, b"new")
    (tmp_path / layout.file_key(RUN, CELL, new.id, "model.pt")).write_bytes(b"neX")
    assert newest_step(place) == 200
    assert "model.pt" in verify(place, new)[0]
    assert newest_whole(place, RUN, CELL).state.step == 100
    (tmp_path / layout.file_key(RUN, CELL, new.id, "model.pt")).unlink()
    assert newest_whole(place, RUN, CELL).state.step == 100
    (tmp_path / layout.state_key(RUN, CELL, new.id)).write_bytes(b"{}")
    assert newest_step(place) == 100


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"schema": "leasehold.pointer/1"}', b"\xff" * 10])
def test_a_damaged_pointer_does_not_hide_the_states(place, tmp_path, damage):
    claimed(place, 1)
    keep(place, 100)
    keep(place, 200)
    (tmp_path / layout.pointer_key(RUN, CELL, 1)).write_bytes(damage)
    assert newest_step(place) == 200


def test_a_state_whose_pointer_was_never_written_is_found(place):
    claimed(place, 1)
    keep(place, 100, pointed=False)
    assert newest_step(place) == 100


def test_a_file_longer_than_its_manifest_says_is_refused(place, tmp_path):
    claimed(place, 1)
    kept = keep(place, 100)
    (tmp_path / layout.file_key(RUN, CELL, kept.id, "model.pt")).write_bytes(b"weights and more")
    with pytest.raises(PlaceError) as error:
        list(read_file(place, kept, kept.state.files[0]))
    assert error.value.kind == "lying"


def test_a_fenced_box_publishes_nothing(place):
    claimed(place, 1)
    keep(place, 100)
    claimed(place, 2)
    with pytest.raises(Fenced) as fenced:
        keep(place, 200)
    assert fenced.value.epoch == 2
    assert place.read_back(layout.pointer_key(RUN, CELL, 1)) == sha256(
        encode_pointer(pointer_to(next(one for one in kept_states(place, RUN, CELL) if one.state.step == 100)))
    )


def test_a_source_that_changes_puts_no_manifest(place):
    claimed(place, 1)
    with pytest.raises(SourceChanged):
        put_state(place, state_of(100, b"weights"), opener(b"changed"))
    assert newest_step(place) is None


def test_a_copy_that_was_cut_continues_with_the_files_that_are_there(place):
    claimed(place, 1)
    read = []

    def cut(one):
        read.append(one.path)
        if one.path != "model.pt":
            raise KeyboardInterrupt
        return io.BytesIO(b"weights")

    with pytest.raises(KeyboardInterrupt):
        put_state(place, state_of(100), cut)
    put_state(place, state_of(100), lambda one: (read.append(one.path), io.BytesIO(b""))[1])
    assert read == ["model.pt", "opt/.meta", "opt/.meta"]
    assert newest_step(place) == 100


def test_pruning_keeps_what_is_named_and_what_is_not_ours(place):
    claimed(place, 1)
    states = [keep(place, step, b"%d" % step) for step in (100, 200, 300, 400)]
    ids = [one.id for one in states]
    gone = prune(place, RUN, CELL, [ids[3]], lambda name: name != ids[1])
    assert gone == [ids[0], ids[2]]
    assert [one.state.step for one in kept_states(place, RUN, CELL)] == [400, 200]
    assert all(verify(place, one) == [] for one in kept_states(place, RUN, CELL))


def test_pruning_removes_the_files_of_a_copy_that_was_given_up(place):
    claimed(place, 1)
    with pytest.raises(SourceChanged):
        put_state(
            place, state_of(50, b"weights"), lambda one: io.BytesIO(b"weights" if one.path == "model.pt" else b"?")
        )
    kept = keep(place, 100)
    assert len(prune(place, RUN, CELL, [kept.id], lambda name: True)) == 1
    assert {one.key.split("/")[6][:19] for one in place.list(layout.states_prefix(RUN, CELL))} == {kept.id[:19]}


def test_of_two_claims_of_one_epoch_the_first_wins(place):
    assert claim(place, RUN, Claim(1, "mine", home="a"))
    assert not claim(place, RUN, Claim(1, "yours", home="b"))
    assert claim(place, RUN, Claim(1, "mine", home="a")), "an earlier try of ours created it"
    assert epochs.read_claim(place, RUN, 1).home == "a"
    assert epochs.highest(place, RUN) == 1


def test_a_claim_that_cannot_be_read_still_counts(place, tmp_path):
    claimed(place, 1)
    (tmp_path / layout.epoch_key(RUN, 2)).write_bytes(b"")
    assert epochs.epochs(place, RUN) == [2, 1]
    assert not claim(place, RUN, Claim(2, "mine"))


def test_a_cell_may_be_called_like_our_own_folders(place):
    claimed(place, 1)
    for cell in ("epochs", "pins.json", "cells", "states"):
        kept = put_state(place, state_of(1, cell=cell), opener(b"weights"))
        put_pointer(place, RUN, cell, pointer_to(kept))
        assert newest_state(place, RUN, cell).state.cell == cell
    assert epochs.epochs(place, RUN) == [1]


def test_pins_are_read_and_a_damaged_list_is_refused(place):
    assert read_pins(place, RUN) == {}
    pins = {CELL: ["000000000100-0123456789ab"]}
    put_object(place, layout.pins_key(RUN), encode_pins(pins))
    assert read_pins(place, RUN) == pins
    put_object(place, layout.pins_key(RUN), b"{}")
    with pytest.raises(BadRecord):
        read_pins(place, RUN)


def spoiled(**changes):
    data, _, _ = encode_state(state_of(100))
    value = dict(json.loads(data), **changes)
    raw = json.dumps(value).encode()
    return raw, layout.state_id(100, sha256(raw))


@pytest.mark.parametrize(
    "changes",
    [
        {"root": "../up"}, {"root": "/abs"}, {"root": 3}, {"files": []}, {"files": 3}, {"run": "other-1"},
        {"cell": "other"}, {"epoch": "1"}, {"epoch": True}, {"step": -1}, {"step": 1.5}, {"number": 7},
        {"made_unix": "now"}, {"made_unix": 1e300}, {"kind": "x" * 99}, {"schema": "leasehold.state/2"},
        {"files": [{"path": "../x", "bytes": 1, "sha256": "0" * 64}]},
        {"files": [{"path": "x", "bytes": -1, "sha256": "0" * 64}]},
        {"files": [{"path": "x", "bytes": 1, "sha256": "0"}]},
        {"files": [{"path": "x", "bytes": 1, "sha256": "0" * 64}] * 2},
        {"files": [{"path": "x", "bytes": 1, "sha256": "0" * 64}, {"path": "x/y", "bytes": 1, "sha256": "0" * 64}]},
    ],
)  # fmt: skip
def test_a_manifest_that_could_do_harm_is_refused(changes):
    raw, name = spoiled(**changes)
    with pytest.raises(BadRecord):
        parse_state(raw, RUN, CELL, name)


def test_a_manifest_under_another_name_is_refused():
    data, _, name = encode_state(state_of(100))
    assert parse_state(data, RUN, CELL, name) == state_of(100)
    with pytest.raises(BadRecord):
        parse_state(data, RUN, CELL, "000000000100-000000000000")


def test_a_pointer_of_another_epoch_is_refused(place):
    kept = keep(place, 100, pointed=False)
    data = encode_pointer(pointer_to(kept, 1, best=kept.id, pinned=(kept.id,)))
    assert parse_pointer(data, 1).keeps == (kept.id,) * 3
    with pytest.raises(BadRecord):
        parse_pointer(data, 2)
