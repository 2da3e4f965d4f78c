"""A state on its way into $LEASE_OUT: hashed, resumed after a cut, whole or absent, older states set aside."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Iterator, List

import pytest

from leasehold.caretaker.moves.arriving import Arriving
from leasehold.caretaker.moves.laid import laid_state
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.wire.refused import Refused

STATE = "000000000020-0123456789ab"
DATA = {"checkpoints/step-20.bin": b"x" * 3000, "curve.csv": b""}
FACTS = {"box": "a", "step": 20, "epoch": 2}


@pytest.fixture
def folder(tmp_path: Path, odd_name: str) -> RunFolder:
    path = tmp_path / odd_name / "active" / "toy-0123456789"
    path.mkdir(parents=True)
    return RunFolder(str(path))


def arriving(folder: RunFolder, state: str = STATE) -> Arriving:
    parts = [(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in sorted(DATA.items())]
    return Arriving(folder, "main", state, parts)


def parts_of(data: bytes, offset: int = 0) -> Iterator[bytes]:
    for start in range(offset, len(data), 700):
        yield data[start : start + 700]


def bring(one: Arriving) -> None:
    for index, offset in one.lacking():
        one.take(index, offset, parts_of(DATA[one.parts[index].path], offset), lambda count: None)


def laid(folder: RunFolder) -> List[str]:
    out = Path(folder.out("main"))
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


def test_a_state_appears_whole_and_says_where_it_came_from(folder: RunFolder) -> None:
    one = arriving(folder)
    assert [index for index, _ in one.lacking()] == [0, 1]
    bring(one)
    assert laid(folder) == [] if os.path.isdir(folder.out("main")) else True
    one.settle("checkpoints/step-*.bin", FACTS)
    assert laid(folder) == sorted(DATA)
    assert laid_state(folder, "main") == {**FACTS, "state": STATE, "files": 2, "bytes": 3000}
    assert not os.path.exists(folder.arriving("main"))


def test_a_cut_keeps_what_came_and_the_next_try_continues(folder: RunFolder) -> None:
    one = arriving(folder)
    with pytest.raises(Refused) as refused:
        one.take(0, 0, iter([DATA[one.parts[0].path][:1200]]), lambda count: None)
    assert refused.value.code == "state.cut"
    assert arriving(folder).lacking()[0] == (0, 1200)
    bring(arriving(folder))
    arriving(folder).settle("", FACTS)
    assert Path(folder.out("main"), "checkpoints/step-20.bin").read_bytes() == DATA["checkpoints/step-20.bin"]


def test_other_bytes_than_the_hash_says_leave_nothing(folder: RunFolder) -> None:
    one = arriving(folder)
    with pytest.raises(Refused) as refused:
        one.take(0, 0, parts_of(b"y" * 3000), lambda count: None)
    assert refused.value.code == "state.differs"
    assert arriving(folder).lacking()[0] == (0, 0)


def test_a_resumed_file_whose_beginning_was_changed_is_refused(folder: RunFolder) -> None:
    one = arriving(folder)
    with pytest.raises(Refused):
        one.take(0, 0, iter([b"z" * 1200]), lambda count: None)
    with pytest.raises(Refused) as refused:
        one.take(0, 1200, parts_of(DATA[one.parts[0].path], 1200), lambda count: None)
    assert refused.value.code == "state.differs"


def test_leftovers_of_another_state_are_removed(folder: RunFolder) -> None:
    bring(arriving(folder, "000000000010-0123456789ab"))
    arriving(folder).lacking()
    assert os.listdir(folder.arriving("main")) == []


def test_older_states_are_set_aside_and_nothing_is_overwritten(folder: RunFolder) -> None:
    out = Path(folder.out("main"))
    (out / "checkpoints").mkdir(parents=True)
    for name in ("step-20.bin", "step-30.bin"):
        (out / "checkpoints" / name).write_bytes(b"of this box")
    bring(arriving(folder))
    arriving(folder).settle("checkpoints/step-*.bin", FACTS)
    assert laid(folder) == sorted(DATA)
    kept = Path(folder.replaced("main"), "0001", "checkpoints")
    assert sorted(path.name for path in kept.iterdir()) == ["step-20.bin", "step-30.bin"]


def test_a_kill_while_it_is_moved_in_is_mended_by_the_next_try(folder: RunFolder) -> None:
    bring(arriving(folder))
    target = Path(folder.out("main"), "checkpoints")
    target.mkdir(parents=True)
    os.replace(Path(folder.arriving("main"), STATE, "checkpoints/step-20.bin"), target / "step-20.bin")
    again = arriving(folder)
    assert again.lacking() == []
    again.settle("checkpoints/step-*.bin", FACTS)
    assert laid(folder) == sorted(DATA)
    assert (target / "step-20.bin").read_bytes() == DATA["checkpoints/step-20.bin"]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", ""])
def test_a_path_that_escapes_is_refused(folder: RunFolder, path: str) -> None:
    with pytest.raises(ValueError):
        Arriving(folder, "main", STATE, [(path, 1, "0" * 64)])
