"""What a person gave up stays given up while the rest goes on, until they take it back; several go in one act."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import Front, front
from tests.support.screens import Session

_TRAIN = """
import json, os, sys
params = json.loads(os.environ["LEASE_PARAMS"])
if not os.path.exists(params["mended"]):
    sys.exit(3)
json.dump({"loss": 1}, open(os.path.join(os.environ["LEASE_OUT"], "metrics.json"), "w"))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Give somebody whose sweep of a and b failed, and who gave b up."""
    with front(tmp_path / "person") as someone:
        cells = [{"name": name, "mended": str(tmp_path / f"{name}-mended")} for name in ("a", "b")]
        someone.write("train.py", _TRAIN)
        someone.job(
            name="sweep", run="python3 -I -S train.py", cells={"list": cells}, artifacts=["metrics.json"], attempts=1
        )
        failed = someone.lease("run")
        assert failed.code == 6, failed.said
        (run,) = someone.runs_on_box()
        Session(someone, "unused").type("lease waive sweep b", ("type exactly", f"give up b of {run}"))
        yield someone


def _attempts(person: Front, cell: str) -> int:
    (run,) = person.runs_on_box()
    return len(list((person.box_root / "active" / run / "cells" / cell).glob("attempt-*")))


def _findings(person: Front) -> list[str]:
    plan: dict[str, Any] = json.loads(person.lease("down", "local", "--plan", "--json").out)
    return [finding["what"] for finding in plan["gate"]["findings"]]


def test_a_waiver_counts_after_another_cell_was_resumed(person: Front, tmp_path: Path) -> None:
    (tmp_path / "a-mended").touch()
    done = person.lease("run")
    assert done.code == 0, done.said
    assert "given up, and not trained again: b" in done.said
    assert any("/b: given up by a person" in what for what in _findings(person))
    assert (_attempts(person, "a"), _attempts(person, "b")) == (2, 1)


def test_a_run_with_nothing_owed_is_not_trained_again(person: Front, tmp_path: Path) -> None:
    (tmp_path / "a-mended").touch()
    (tmp_path / "b-mended").touch()
    assert person.lease("run").code == 0
    again = person.lease("run")
    assert again.code == 0, again.said
    assert _attempts(person, "b") == 1


def test_a_waiver_that_is_taken_back_lets_the_cell_train(person: Front, tmp_path: Path) -> None:
    (tmp_path / "a-mended").touch()
    (tmp_path / "b-mended").touch()
    assert person.lease("run").code == 0
    back = person.lease("waive", "sweep", "b", "--take-back")
    assert back.code == 0, back.said
    assert any("/b: the run failed and left no file" in what for what in _findings(person))
    done = person.lease("run")
    assert done.code == 0, done.said
    assert _attempts(person, "b") == 2
    assert any("/b: home, hash-equal" in what for what in _findings(person))


def test_a_run_that_was_given_up_whole_says_how_to_go_on(person: Front) -> None:
    (run,) = person.runs_on_box()
    Session(person, "unused").type("lease waive sweep a", ("type exactly", f"give up a of {run}"))
    refused = person.lease("run")
    assert refused.code == 6
    assert "run.given_up" in refused.said
    assert f"lease waive {run} a --take-back" in refused.said


_SEVERAL = """
import json, os, sys
params = json.loads(os.environ["LEASE_PARAMS"])
out = os.environ["LEASE_OUT"]
if params["ends"] == "well":
    json.dump({}, open(os.path.join(out, "metrics.json"), "w"))
elif params["ends"] == "with-a-file":
    open(os.path.join(out, "half.pt"), "w").write("half")
elif params["ends"] == "with-a-file-beside":
    open("half-beside.pt", "w").write("half")
sys.exit(0 if params["ends"] == "well" else 3)
"""


def _fail(someone: Front, name: str, ends: list[str]) -> str:
    cells = [{"name": f"c{number}", "ends": how} for number, how in enumerate(ends)]
    someone.job(name=name, run="python3 -I -S train.py", cells={"list": cells}, artifacts=["metrics.json"], attempts=1)
    failed = someone.lease("run")
    assert failed.code == 6, failed.said
    return str(someone.events("run_planned")[-1]["run"])


def test_everything_that_failed_on_a_box_is_given_up_in_one_typed_act(tmp_path: Path) -> None:
    with front(tmp_path / "person") as someone:
        someone.write("train.py", _SEVERAL)
        one = _fail(someone, "one", ["with-a-file", "well"])
        two = _fail(someone, "two", ["with-a-file"])
        bare = _fail(someone, "bare", ["with-nothing"])
        beside = _fail(someone, "beside", ["with-a-file-beside"])
        findings = "\n".join(_findings(someone))
        assert f"{bare}/c0: the run failed and left no file in its folders: there is nothing to give up" in findings
        assert f"{two}/c0: the run failed without a result, and no waiver" in findings
        no_result = f"{beside}/c0: the run failed without a result, and no waiver"
        assert f"{no_result}; it wrote into its working folder" in findings

        wrong = Session(someone, "unused").type("lease waive --failed local", ("type exactly", "give up"), code=3)
        assert "waiver.not_given" in wrong and not someone.events("waived")
        said = Session(someone, "unused").type(
            "lease waive --failed local", ("type exactly", "give up 3 failed on local")
        )
        assert f"giving up c0 of {one}" in said and f"giving up c0 of {two}" in said
        assert "NOT salvaged: what it wrote into its working folder (half-beside.pt" in said
        assert "half.pt" not in said or "WITHOUT a copy" not in said
        assert f"{bare}/c0 failed and left no file: it needs no waiver" in said
        waived = {(event["run"], event["cell"]) for event in someone.events("waived")}
        promised_still = "c1 finished: its results are to be brought home, not given up"
        assert waived == {(one, "c0"), (two, "c0"), (beside, "c0")}, promised_still
        findings = "\n".join(_findings(someone))
        assert f"{two}/c0: given up by a person (waiver)" in findings and f"{one}/c1: " in findings
        again = someone.lease("waive", "--failed", "local")
        assert again.code == 0 and "nothing that failed on local has to be given up" in again.said
        unknown = someone.lease("waive", "--failed", "nowhere")
        assert unknown.code == 2 and "no open lease" in unknown.said
