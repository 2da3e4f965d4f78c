"""A cell is one box's alone: between two homes, across a home's death, and when a box that was given up comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.front import ONE_SYSTEM, Front, front
from tests.support.screens import Session
from tests.support.sshd import SshBox
from tests.support.sweeps import add_boxes, results, running, said_by, told, until, write_sweep

pytestmark = pytest.mark.real_ssh

NewBox = Callable[..., SshBox]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Give somebody with an empty project."""
    with front(tmp_path / "person") as someone:
        yield someone


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Front]:
    """Give the same somebody at another laptop."""
    with front(tmp_path / "other") as someone:
        yield someone


def _finished(*boxes: SshBox) -> Counter[str]:
    return Counter(event["cell"] for box in boxes for event in told(box, "cell_finished"))


def test_two_homes_that_begin_at_once_run_every_cell_once_for_both(
    person: Front, other: Front, new_ssh_box: NewBox
) -> None:
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    for one in (person, other):
        write_sweep(one, [{"name": f"c{n}", "n": n} for n in range(5)])
        add_boxes(one, boxes)
    with running(person, "run", "--on", "a,b") as first, running(other, "run", "--on", "b,a") as second:
        codes = first.wait(60), second.wait(60)
        both = said_by(first) + said_by(second)
    assert codes == (0, 0), both
    begun = Counter(event["cell"] for box in boxes.values() for event in told(box, "attempt_started"))
    assert begun == {f"c{n}": 1 for n in range(5)}
    assert both.count("shares this sweep out") == 1
    assert sorted(results(person)) == sorted(results(other)) == [f"c{n}" for n in range(5)]


def test_a_returning_box_ends_what_moved_and_one_result_per_cell_counts(
    person: Front, new_ssh_box: NewBox, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    write_sweep(person, [{"name": f"c{n}", "n": n, "gate": str(gate)} for n in range(4)])
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    on = add_boxes(person, boxes)
    with running(person, "run", "--on", on, "--move-after", "1s") as home:
        until(lambda: all(told(box, "attempt_started") for box in boxes.values()), "both at work")
        mine = told(boxes["a"], "run_opened")[0]["cells"]
        boxes["a"].stop()  # its sshd: what it runs goes on
        until(lambda: set(mine) <= {c for e in told(boxes["b"], "cells_added") for c in e["cells"]}, "moved")
        boxes["a"].start()
        until(lambda: {c for e in told(boxes["a"], "cells_released") for c in e["cells"]} == set(mine), "given up")
        gate.touch()
        assert home.wait(60) == 0, said_by(home)
    assert _finished(*boxes.values()) == {f"c{n}": 1 for n in range(4)}
    assert {name: len(found) for name, found in results(person).items()} == {f"c{n}": 1 for n in range(4)}
    for box in boxes.values():
        (run,) = {path.name for path in (box.home / ".leasehold" / "active").glob("sweep-*")}
        plan = person.lease("down", run, "--plan", *ONE_SYSTEM)
        assert "gate: passed" in plan.said, plan.said
    again = person.lease("run", "--on", on)
    assert again.code == 0, again.said
    assert "pulled" not in again.said


def test_what_a_silent_box_finished_meanwhile_is_taken_not_run_again(
    person: Front, new_ssh_box: NewBox, tmp_path: Path
) -> None:
    gates = [tmp_path / "gate0", tmp_path / "gate1"]
    write_sweep(person, [{"name": f"c{n}", "n": n, "gate": str(gates[n])} for n in range(2)])
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    on = add_boxes(person, boxes)
    with running(person, "run", "--on", on, "--move-after", "1s") as home:
        until(lambda: all(told(box, "attempt_started") for box in boxes.values()), "both at work")
        (mine,) = told(boxes["a"], "run_opened")[0]["cells"]
        boxes["a"].stop()
        until(lambda: told(boxes["b"], "cells_added"), "moved")
        gates[int(mine[1])].touch()
        until(lambda: told(boxes["a"], "run_finished"), "finished where nobody sees it")
        boxes["a"].start()
        until(lambda: told(boxes["b"], "cells_released"), "the other gives it up")
        for gate in gates:
            gate.touch()
        assert home.wait(60) == 0, said_by(home)
    assert _finished(*boxes.values()) == {"c0": 1, "c1": 1}
    assert sorted(results(person)) == ["c0", "c1"]


def test_a_home_killed_between_two_boxes_loses_and_doubles_no_cell(
    person: Front, new_ssh_box: NewBox, tmp_path: Path
) -> None:
    gate, aim = tmp_path / "gate", tmp_path / "aim"
    aim.mkdir()
    pause = {"LEASEHOLD_PAUSE": f"{aim}:cells_released:after"}
    cells = [{"name": "quick", "n": 0, "cost": 9}] + [
        {"name": f"slow{n}", "n": n, "cost": 3, **({"gate": str(gate)} if n == 0 else {})} for n in range(3)
    ]
    write_sweep(person, cells, cost="cost")
    boxes = {"a": new_ssh_box("a", environment=pause), "b": new_ssh_box("b", environment=pause)}
    on = add_boxes(person, boxes)
    with running(person, "run", "--on", on):
        until((aim / "reached").exists, "a cell is on its way from one box to the other")
    (aim / "go").touch()
    gate.touch()
    again = person.lease("run", "--on", on)
    assert again.code == 0, again.said
    assert _finished(*boxes.values()) == {"quick": 1, "slow0": 1, "slow1": 1, "slow2": 1}
    assert sorted(results(person)) == ["quick", "slow0", "slow1", "slow2"]


def test_the_second_home_takes_a_sweep_over_and_the_first_gives_no_more(
    person: Front, other: Front, new_ssh_box: NewBox, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    cells = [{"name": f"c{n}", "n": n, "gate": str(gate)} for n in range(2)]
    for one in (person, other):
        write_sweep(one, cells)
        add_boxes(one, boxes)
    assert person.lease("run", "--on", "a,b", "--detach").code == 0
    write_sweep(other, [*cells, {"name": "new", "n": 9}])
    looks = other.lease("run", "--on", "a,b", "--detach")
    assert "shares this sweep out" in looks.said
    assert not any(told(box, "cells_added") for box in boxes.values()), "a home that looks on gives no cells"
    sweep = json_of(person)["sweep"]
    session = Session(other, "unused")
    typed = session.type("lease run --on a,b --detach --take-over", ("type exactly", f"take over {sweep}"))
    assert "this home shares" in typed
    write_sweep(person, [*cells, {"name": "mine", "n": 8}])
    refused = person.lease("run", "--on", "a,b", "--detach")
    assert "shares this sweep out" in refused.said
    gate.touch()
    done = other.lease("run", "--on", "a,b")
    assert done.code == 0, done.said
    assert sorted(results(other)) == ["c0", "c1", "new"]
    assert _finished(*boxes.values()) == {"c0": 1, "c1": 1, "new": 1}


def json_of(person: Front) -> dict[str, str]:
    """Ask for the sweep as this home knows it."""
    import json

    found: dict[str, str] = json.loads(person.lease("sweep", "status", "sweep", "--json", "--offline").out)
    return found
