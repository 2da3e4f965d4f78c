"""Where things lie below a box's root, and what no name may reach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict

import pytest

from leasehold.caretaker.run.run_folder import CellFolder, RunFolder
from leasehold.kit.files.paths import UnsafePath

ROOT = "/root of/the box"
ESCAPES = ["..", ".", "", "a/b", "/etc", "../other", "a\0b", "-rf", "a\nb", "x" * 101, "name."]


def folder() -> RunFolder:
    return RunFolder.below(ROOT, "life-0123456789")


def test_everything_of_a_run_lies_below_its_own_folder() -> None:
    run = folder()
    places = [value for name, value in vars(run).items() if name != "run" and name[0] != "_"]
    places += [run.cell("main"), run.cell_lock("main"), run.attempt("main", 1), run.work("main"), run.out("main")]
    for place in places:
        assert os.path.normpath(place) == place
        assert (place + "/").startswith(ROOT + "/active/life-0123456789/")


def test_what_a_trainer_writes_lies_apart_from_what_the_caretaker_writes() -> None:
    run = folder()
    out, work = run.out("main"), run.work("main")
    for ours in (run.plan, run.journal, run.status, run.caretaker_lock, run.cell("main")):
        assert not ours.startswith((out, work))


@pytest.mark.parametrize("name", ESCAPES, ids=repr)
def test_a_run_whose_name_could_escape_is_refused(name: str) -> None:
    with pytest.raises(UnsafePath):
        RunFolder.below(ROOT, name)


CELL_PATHS: Dict[str, Callable[[RunFolder, str], str]] = {
    "cell": RunFolder.cell,
    "lock": RunFolder.cell_lock,
    "work": RunFolder.work,
    "out": RunFolder.out,
    "attempt": lambda run, name: run.attempt(name, 1),
}


@pytest.mark.parametrize("place", list(CELL_PATHS))
@pytest.mark.parametrize("name", ESCAPES, ids=repr)
def test_a_cell_whose_name_could_escape_is_refused(name: str, place: str) -> None:
    with pytest.raises(UnsafePath):
        CELL_PATHS[place](folder(), name)


def test_attempts_sort_by_number() -> None:
    names = [folder().attempt("main", number) for number in (1, 2, 10, 100, 999)]
    assert names == sorted(names)


def test_marks_tell_runs_cells_and_attempts_apart() -> None:
    run = folder()
    marks = {run.mark("a", 1), run.mark("a", 11), run.mark("b", 1), RunFolder.below("/elsewhere", run.run).mark("a", 1)}
    assert len(marks) == 4


def test_a_cells_mark_begins_its_attempts_marks_and_no_other_cells() -> None:
    run = folder()
    assert run.mark("a", 3) == run.mark("a") + "/3"
    assert not run.mark("ab", 3).startswith(run.mark("a") + "/")


def test_cells_with_their_own_caretaker_tell_under_their_own_names(tmp_path: Path) -> None:
    run = RunFolder.below(str(tmp_path), "toy-1")
    one, two = (CellFolder(run.path, name) for name in ("lr-1", "lr-2"))
    assert len({folder.notices for folder in (run, one, two)}) == 3
    assert len({folder.handbook for folder in (run, one, two)}) == 3
    assert (run.label, one.label) == ("toy-1", "toy-1/lr-1")
    assert one.notify == run.notify, "the person's channels are one"
