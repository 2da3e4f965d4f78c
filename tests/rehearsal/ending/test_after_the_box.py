"""What of a run can be had when it was stopped, and what can be seen of it when its box is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import eventually

pytestmark = pytest.mark.full  # each test is several launches

TRAIN = """
import json, os, time
out = os.environ["LEASE_OUT"]
step = 0
while step < 40 or not os.path.exists(GATE):
    step += 1
    print("step %d/1000 loss 0.5" % step, flush=True)
    with open(os.path.join(out, "state.json.tmp"), "w") as file:
        json.dump({"step": step}, file)
    os.replace(os.path.join(out, "state.json.tmp"), os.path.join(out, "state.json"))
    time.sleep(0.01)
json.dump({"from": step}, open(os.path.join(out, "result.json"), "w"))
"""


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose job runs on a simulated rental until the gate is there."""
    with front(tmp_path) as person:
        person.write("train.py", TRAIN.replace("GATE", repr(str(tmp_path / "gate"))))
        person.job()
        yield person
        (tmp_path / "gate").touch()


def box(me: Front) -> Path:
    return me.home / "boxes" / "rehearsal"


def begin(me: Front) -> str:
    begun = me.lease("run", "--rehearse", "--detach", *NO_SMOKE)
    assert begun.code == 0, begun.said
    (folder,) = [path for path in (box(me) / "active").iterdir() if path.is_dir()]
    assert eventually((folder / "out" / "main" / "state.json").exists)
    assert eventually(lambda: any((folder / "readings").glob("5s.jsonl"))), "a first reading"
    return folder.name


def test_a_stopped_run_is_pulled_as_it_is_and_without_a_receipt(me: Front) -> None:
    run = begin(me)
    assert me.lease("stop", "toy").code == 0
    pulled = me.lease("pull", "toy")
    assert pulled.code == 6, pulled.said
    place = me.project / "lease-results" / "evacuated" / run
    assert json.loads((place / "cells" / "main" / "state.json").read_text())["step"] > 0
    assert "step 1/1000" in (place / "evidence" / "main" / "attempt-0001" / "log").read_text()
    assert not list(place.rglob("receipt.json"))
    assert "stopped" in pulled.said and "No receipt" in pulled.said and "goes on; this" not in pulled.said
    assert f"lease resume {run}" in pulled.said
    (row,) = json.loads(me.lease("status", "--json").out)["runs"]
    assert row["state"] == "stopped" and not row["receipt"]
    assert me.lease("down", "toy", "--rehearsal").code == 3, "what has no receipt is not given up unasked"

    again = json.loads(me.lease("pull", "toy", "--json").out)
    assert again["receipt"] is None and again["evacuated"]["state"] == "stopped", again
    assert again["evacuated"]["new_files"] == 0


def test_stop_keep_brings_home_what_is_there(me: Front) -> None:
    run = begin(me)
    stopped = me.lease("stop", "toy", "--keep")
    assert stopped.code == 0, stopped.said
    assert (me.project / "lease-results" / "evacuated" / run / "cells" / "main" / "state.json").exists()
    assert "No receipt" in stopped.said


def test_a_failed_run_that_left_nothing_still_brings_its_log(me: Front) -> None:
    me.write("train.py", "raise SystemExit('broken from the start')\n")
    assert me.lease("run", "--rehearse", *NO_SMOKE).code == 6
    pulled = me.lease("pull", "toy")
    assert pulled.code == 6, pulled.said
    (log,) = (me.project / "lease-results" / "evacuated").rglob("log")
    assert "broken from the start" in log.read_text()
    assert "0 files" in pulled.said or "no file" in pulled.said


def test_after_down_logs_plot_doctor_and_watch_answer_from_the_home_copy(me: Front) -> None:
    run = begin(me)
    (me.folder / "gate").touch()
    assert me.lease("watch", "toy").code == 0
    assert me.lease("pull", "toy").code == 0
    down = me.lease("down", "toy", "--rehearsal")
    assert down.code == 0, down.said
    assert not box(me).exists()

    says = "home copy of"
    logs = me.lease("logs", "toy")
    assert logs.code == 0 and "step 40/1000 loss 0.5" in logs.out, logs.said
    assert says in logs.said
    assert json.loads(me.lease("logs", "toy", "--json").out)["home_copy"]["taken_unix"] > 0

    plot = me.lease("plot", "toy", "--what", "mem")
    assert plot.code == 0 and "mem" in plot.out and says in plot.said, plot.said
    assert json.loads(me.lease("plot", "toy", "--what", "mem", "--json").out)["home_copy"]["taken_unix"] > 0
    patrol = me.lease("logs", "toy", "--patrol")
    assert patrol.code == 0 and says in patrol.said, patrol.said

    doctor = me.lease("doctor", "toy")
    assert doctor.code in (0, 1) and says in doctor.said, doctor.said

    watch = me.lease("watch", "toy")
    assert watch.code == 0 and says in watch.said, watch.said
    assert f"{run} finished" in watch.said and "attempt 1 runs as pid" in watch.said
    assert "step 40/1000" in watch.said


def listed(me: Front) -> list[str]:
    return [row["run"] for row in json.loads(me.lease("status", "--json").out)["runs"]]


def test_a_run_is_forgotten_only_when_nothing_can_be_lost_or_bill(me: Front) -> None:
    run = begin(me)
    refused = me.lease("forget", "toy")
    assert refused.code == 3 and "error[forget.lives]" in refused.said, refused.said
    assert me.lease("stop", "toy").code == 0
    refused = me.lease("forget", run)
    assert refused.code == 3 and "error[forget.owed]" in refused.said and "lease pull" in refused.said, refused.said
    (me.folder / "gate").touch()
    assert me.lease("resume", run).code == 0
    refused = me.lease("forget", run)
    assert refused.code == 3 and "error[forget.billed]" in refused.said, refused.said
    assert listed(me) == [run]
    assert me.lease("down", "toy", "--rehearsal").code == 0
    done = me.lease("forget", run)
    assert done.code == 0, done.said
    assert listed(me) == []
    assert (me.project / "lease-results" / "export" / run / "receipt.json").exists()
    assert me.lease("show", run).code == 2
    assert me.events("run_forgotten")


def test_a_settled_run_on_this_machine_can_be_forgotten(me: Front) -> None:
    (me.folder / "gate").touch()
    assert me.lease("run").code == 0
    (run,) = listed(me)
    assert me.lease("forget", run).code == 0
    assert listed(me) == []
