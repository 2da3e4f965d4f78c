"""`lease status`: how far each run is, its share of the cost, order and choice; elsewhere one line of warning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import NO_SMOKE, Front, front
from tests.support.lives import eventually

pytestmark = pytest.mark.full  # each test is several launches

# Counts to the number in the file named by GATE and waits there; then it ends.
TRAIN = """
import json, os, time
out = os.environ["LEASE_OUT"]
state = os.path.join(out, "state.json")
step = json.load(open(state))["step"] if os.path.exists(state) else 0
print("trainer begins", flush=True)
while step < 400:
    if os.path.exists(os.environ["GATE"]):
        break
    step += 1
    print("step %d/400 loss %.4f" % (step, 1 / step), flush=True)
    with open(state + ".tmp", "w") as file:
        json.dump({"step": step}, file)
    os.replace(state + ".tmp", state)
    time.sleep(0.2)
print("step 400/400 loss 0.0025", flush=True)
json.dump({}, open(os.path.join(out, "result.json"), "w"))
"""


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path) as person:
        person.write("train.py", TRAIN)
        yield person
        for name in ("one", "two"):
            (tmp_path / name).touch()


def begin(me: Front, name: str) -> str:
    """Start a run that goes on until its gate is there; say its id."""
    me.job(name=name, env={"GATE": str(me.folder / name)}, checkpoint={"path": "state.json"})
    begun = me.lease("run", "--detach", "--price", "3600USD/h", *NO_SMOKE)
    assert begun.code == 0, begun.said
    return begun.out.strip()


def rows(me: Front, *words: str) -> list[dict[str, Any]]:
    done = me.lease("status", "--json", *words)
    assert done.code == 0, done.said
    return list(json.loads(done.out)["runs"])


def names(me: Front, *words: str) -> list[str]:
    return [row["name"] for row in rows(me, *words)]


def usd(text: str) -> float:
    return float(text.partition(" ")[0])


def test_a_row_says_how_far_a_run_is_and_what_of_the_cost_is_its_own(me: Front) -> None:
    one = begin(me, "one")
    assert eventually(lambda: "eta_s" in rows(me, "--refresh")[0]["progress"])
    (me.folder / "one").touch()
    assert me.lease("watch", one).code == 0
    two = begin(me, "two")
    assert eventually(lambda: rows(me, two, "--refresh")[0]["progress"].get("loss") is not None)
    seen = me.lease("status").out
    head, newer, older, lease = seen.splitlines()
    assert head.split() == ["RUN", "STATE", "BOX", "AGE", "SEEN", "STEP", "LOSS", "ETA", "RESULTS", "COST"]
    assert newer.startswith(two) and "/400 " in newer
    assert older.startswith(one) and " 400/400  0.0025 " in older, "the last line of the log counts"
    assert lease.startswith("local (local)  running") and "3600.00 USD/h" in lease

    first, second = rows(me, one)[0], rows(me, two)[0]
    assert usd(first["cost"]) > 1 and usd(second["cost"]) > 0
    assert usd(first["cost"]) + usd(second["cost"]) <= usd(second["lease_cost"])
    was = first["cost"]
    assert rows(me, one)[0]["cost"] == was, "a run that has ended costs no more, though its lease goes on"
    shown = me.lease("show", one).out
    assert f"{was}, by its time, of the " in shown and "that local-1 cost so far" in shown


def test_an_order_and_a_choice(me: Front) -> None:
    one = begin(me, "one")
    (me.folder / "one").touch()
    assert me.lease("watch", one).code == 0
    begin(me, "two")
    assert names(me) == ["two", "one"], "newest first"
    assert names(me, "--sort", "name") == ["one", "two"]
    assert names(me, "--live") == ["two"]
    assert names(me, "--state", "finished") == ["one"]
    assert names(me, "--owed") == ["two", "one"]
    assert me.lease("pull", one).code == 0
    assert names(me, "--owed") == ["two"]
    assert names(me, "--box", "elsewhere") == []
    none = me.lease("status", "--box", "elsewhere")
    assert none.code == 0 and "no run matches" in none.said
    assert names(me, "--refresh", "--sort", "state") == ["two", "one"]
    assert me.lease("status", "--sort", "colour").code == 2


def test_a_resumed_run_is_judged_by_its_new_attempt_alone(me: Front) -> None:
    one = begin(me, "one")
    assert eventually(lambda: (me.box_root / "active" / one / "out" / "main" / "state.json").exists())
    stopped = me.lease("stop", one)
    assert stopped.code == 0, stopped.said
    again = me.lease("resume", one, "--detach")
    assert again.code == 0, again.said
    assert "launch: passed" in again.said, again.said
    assert again.said.count("trainer begins") == 1 and "step 1/400" not in again.said, "the old log is not told again"
    assert me.gates()["launch"] == "passed"


def test_one_line_of_warning_before_a_command_and_all_of_them_in_status(tmp_path: Path) -> None:
    with front(tmp_path) as me:
        me.write("train.py", 'import os\nopen(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w").write("{}")\n')
        me.job()
        for place in ("a", "b", "c"):
            done = me.lease("run", "--root", str(tmp_path / place), "--again", "--price", "1USD/h", *NO_SMOKE)
            assert done.code == 0, done.said
        warned = [line for line in me.lease("platforms").said.splitlines() if line.startswith("! ")]
        assert len(warned) == 1 and warned[0].endswith("(2 more: lease status)"), warned
        assert len([line for line in me.lease("status").said.splitlines() if line.startswith("! ")]) == 3
