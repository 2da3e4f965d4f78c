"""Every gap of a sweep names the command that closes it, and that command does so when it is typed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import Done, Front, front
from tests.support.screens import Session
from tests.support.sshd import SshBox
from tests.support.sweeps import add_boxes, results, standing, told, until, write_sweep

pytestmark = pytest.mark.real_ssh


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Give somebody with an empty project."""
    with front(tmp_path / "person") as someone:
        yield someone


def _type(person: Front, mend: str) -> Done:
    words = shlex.split(mend)
    assert words[0] == "lease", mend
    return person.lease(*words[1:])


def _out(box: SshBox, cell: str) -> Path:
    (found,) = (box.home / ".leasehold" / "active").glob(f"sweep-*/out/{cell}/metrics.json")
    return found


def test_each_class_of_gap_is_closed_by_its_command(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    box, gate = new_ssh_box("a"), tmp_path / "gate"
    cells: list[dict[str, Any]] = [{"name": name, "n": 0} for name in ("fine", "empty", "missing", "broken")]
    write_sweep(person, [*cells, {"name": "failing", "gate": str(gate)}], attempts=1)
    on = add_boxes(person, {"a": box})
    assert person.lease("run", "--on", on, "--detach").code == 0
    gate.touch()
    until(lambda: told(box, "run_failed"), "the last cell fails for want of n")
    _out(box, "empty").write_text("")
    _out(box, "missing").unlink()
    _out(box, "broken").write_text("{")
    before = standing(person)
    assert {cell: one["word"] for cell, one in before.items()} == {
        "fine": "on the box", "empty": "empty", "missing": "missing", "broken": "on the box", "failing": "failed",
    }  # fmt: skip
    for cell in ("empty", "missing"):
        session = Session(person, "unused")
        session.type(before[cell]["mend"], ("type exactly", f"give up {cell} of {before[cell]['run']}"))
    pulled = _type(person, before["fine"]["mend"])
    assert "do not load" in pulled.said
    after = standing(person)
    assert {cell: after[cell]["word"] for cell in ("fine", "broken")} == {"fine": "home", "broken": "broken"}
    assert sorted(results(person)) == ["fine"], "a broken cell keeps no other from coming home"
    owed = person.lease("sweep", "reconcile", "sweep", "--json")
    assert owed.code == 3, owed.said
    assert json.loads(owed.out)["settled"] is False
    assert _type(person, after["failing"]["mend"]).code == 6, "it is run again, and fails again"
    assert sum(event["cell"] == "failing" for event in told(box, "attempt_started")) == 2


def test_a_stopped_sweep_goes_on_by_the_command_that_is_named(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    write_sweep(person, [{"name": f"c{n}", "n": n, "gate": str(gate)} for n in range(2)])
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    on = add_boxes(person, boxes)
    assert person.lease("run", "--on", on, "--detach").code == 0
    for one in standing(person).values():
        stopped = person.lease("stop", one["run"])
        assert stopped.code == 0, stopped.said
    gaps = standing(person)
    assert {one["word"] for one in gaps.values()} == {"stopped"}
    gate.touch()
    done = _type(person, gaps["c0"]["mend"])
    assert done.code == 0, done.said
    assert sorted(results(person)) == ["c0", "c1"]


def test_a_cell_that_left_the_file_comes_home_and_one_that_joined_runs(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    cells = [{"name": f"c{n}", "n": n, "gate": str(gate)} for n in range(3)]
    write_sweep(person, cells[:2])
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    on = add_boxes(person, boxes)
    assert person.lease("run", "--on", on, "--detach").code == 0
    write_sweep(person, cells[1:])
    gate.touch()
    done = person.lease("run", "--on", on)
    assert done.code == 0, done.said
    assert {cell: one["word"] for cell, one in standing(person).items()} == {"c0": "home", "c1": "home", "c2": "home"}


def test_cells_added_while_a_box_is_dead_run_and_its_own_are_moved(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    cells = [{"name": f"c{n}", "n": n, "gate": str(gate)} for n in range(3)]
    write_sweep(person, cells[:2])
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    on = add_boxes(person, boxes)
    assert person.lease("run", "--on", on, "--detach").code == 0
    boxes["a"].close()
    write_sweep(person, cells)
    gate.touch()
    done = person.lease("run", "--on", on, "--move-after", "1s")
    assert done.code == 0, done.said
    assert sorted(results(person)) == ["c0", "c1", "c2"]
    assert {one["box"] for one in standing(person).values()} == {"b"}
