"""Cells that join and leave a run by a wish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.run import ownership
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.caretaker.supervisor import roster
from leasehold.caretaker.supervisor.card_slots import hear_roster, in_order
from leasehold.caretaker.wire.connection import Refused
from leasehold.kit.files.journal import Journal
from leasehold.kit.run.run_state import RunState, fold


def _folder(tmp_path: Path) -> RunFolder:
    path = tmp_path / "active" / "sweep-1"
    path.mkdir(parents=True)
    return RunFolder(str(path))


def _hear(folder: RunFolder, run: RunState, wish: Dict[str, Any]) -> List[str]:
    Path(folder.roster).write_text(json.dumps(wish))
    said: List[str] = []

    def note(kind: str, **data: Any) -> None:
        said.append(kind)
        fold([dict(data, k=kind, n=run.seq + 1, t=0.0)], into=run)

    hear_roster(folder, run, note)
    assert not Path(folder.roster).exists()
    return said


def _run(*more: Dict[str, Any]) -> RunState:
    events: List[Dict[str, Any]] = [{"k": "run_opened", "cells": ["a", "b", "c"]}, *more]
    return fold(dict(event, n=number + 1, t=0.0) for number, event in enumerate(events))


_A_RUNS = ({"k": "attempt_starting", "cell": "a", "attempt": 1}, {"k": "attempt_started", "cell": "a", "pid": 1})


def test_a_cell_that_has_begun_is_not_released_but_ended_on_withdrawal(tmp_path: Path) -> None:
    folder, run = _folder(tmp_path), _run(*_A_RUNS)
    _hear(folder, run, {"release": ["a", "b"], "to": "b1"})
    assert sorted(run.cells) == ["a", "c"]
    assert run.left == {"b": {"to": "b1", "attempt": 0}}
    assert _hear(folder, run, {"withdraw": ["a", "c"], "to": "b2"}) == ["cells_released", "cells_withdrawn"]
    assert run.cells["a"].leaves == "b2"
    assert not in_order(run)


def test_what_is_finished_stays(tmp_path: Path) -> None:
    run = _run(*_A_RUNS, {"k": "cell_finished", "cell": "a"})
    assert _hear(_folder(tmp_path), run, {"withdraw": ["a"], "release": ["a"]}) == []


def test_a_cell_that_comes_back_goes_on_counting_its_attempts(tmp_path: Path) -> None:
    folder, run = _folder(tmp_path), _run(*_A_RUNS, {"k": "attempt_ended", "cell": "a", "code": 1})
    fold([{"k": "cells_released", "cells": ["a"], "to": "b1", "n": 9, "t": 0.0}], into=run)
    _hear(folder, run, {"add": ["a"], "given": {"a": 77}})
    assert (run.cells["a"].attempt, run.cells["a"].state, run.cells["a"].given) == (1, "pending", 77)


def test_cells_are_given_back_also_where_nobody_cares_for_the_run(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    journal = Journal(folder.journal)
    journal.append("run_opened", cells=["a", "b"])
    journal.append("run_failed", reason="b failed")
    journal.close()
    assert roster.give_back(folder, {"withdraw": ["b"], "to": "b1"}) == ["b"]
    assert sorted(fold(Journal(folder.journal).events).cells) == ["a"]


def test_a_claim_is_the_first_homes_until_it_lapses_or_the_run_begins(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    assert ownership.claim(folder, {"home": "one"})
    assert ownership.claim(folder, {"home": "one"})
    assert not ownership.claim(folder, {"home": "two"})
    holder = json.loads(Path(folder.holder).read_text())
    Path(folder.holder).write_text(json.dumps(dict(holder, at_unix=holder["at_unix"] - 400)))
    assert ownership.claim(folder, {"home": "two"})
    Path(folder.plan).write_text("{}")
    Path(folder.holder).write_text(json.dumps({"home": "two", "epoch": 2, "at_unix": 1.0}))
    assert not ownership.claim(folder, {"home": "one"}), "what was begun does not lapse"
    ownership.unclaim(folder, {"home": "two"})
    assert json.loads(Path(folder.holder).read_text())["home"] == "two"


def test_only_the_holder_adds_cells(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    Path(folder.plan).write_text(json.dumps({"cells": ["a"], "job": {"cells": [{"name": "a", "params": {}}]}}))
    cells = [{"name": name, "params": {}} for name in ("a", "b")]

    def refuse() -> None:
        raise Refused("run.taken_over", "another home")

    with pytest.raises(Refused):
        roster.add_cells(folder, {"cells": ["a", "b"], "job": {"cells": cells}}, refuse)
    assert not Path(folder.added).exists()
    roster.add_cells(folder, {"cells": ["a"], "job": {"cells": cells}}, refuse)
