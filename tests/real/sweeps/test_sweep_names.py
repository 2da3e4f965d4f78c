"""A sweep over two boxes has one name: logs, verify, watch, plot and the table mean all of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.front import Front, front
from tests.support.sshd import SshBox
from tests.support.sweeps import add_boxes, running, said_by, standing, until, write_sweep

pytestmark = pytest.mark.real_ssh

TRAIN = """
import os, time
lr = float(os.environ["LEASE_PARAM_lr"])
print("this is cell", os.environ["LEASE_CELL"], flush=True)
while os.path.exists(os.environ["HOLD"]):
    time.sleep(0.02)
for step in range(1, 4):
    print(f"step {step}/3 loss {1 / step + lr:.3f}", flush=True)
print(f"step 3 val_loss {lr:.3f}", flush=True)
open(os.path.join(os.environ["LEASE_OUT"], "model.txt"), "w").write("weights")
"""


@pytest.fixture
def person(tmp_path: Path, new_ssh_box: Callable[..., SshBox]) -> Iterator[tuple[Front, str]]:
    """Somebody with two boxes and a sweep of code that writes no numbers into files."""
    with front(tmp_path / "person", {"COLUMNS": "100"}) as someone:
        on = add_boxes(someone, {"a": new_ssh_box("a"), "b": new_ssh_box("b")})
        cells = [{"name": f"c{number}", "lr": number / 10} for number in range(4)]
        hold = str(tmp_path / "hold")
        write_sweep(someone, cells, artifacts=["model.txt"], env={"HOLD": hold}, run="python3 -I -S train.py")
        someone.write("train.py", TRAIN)
        yield someone, on


def test_one_name_means_every_part(person: tuple[Front, str], tmp_path: Path) -> None:
    someone, on = person
    (tmp_path / "hold").touch()
    with running(someone, "run", "--on", on) as started:
        until(lambda: [c["word"] for c in standing(someone).values()].count("running") == 2, "one on each box")
        where = standing(someone)
        with running(someone, "watch", "sweep") as watching:
            for box in ("a", "b"):
                cell = next(name for name, one in where.items() if one["box"] == box and one["word"] == "running")
                line = f"| {box}: this is cell {cell}\n"
                until(partial(_shows, watching, line), line)
            (tmp_path / "hold").unlink()
            assert watching.wait(90) == 0, said_by(watching)
        assert started.wait(90) == 0, said_by(started)
    sweep = someone.events("run_planned")[0]["run"].rpartition("-b")[0]
    for word in ("sweep", sweep, sweep[:-2]):
        for cell in where:
            assert f"this is cell {cell}" in someone.lease("logs", word, "--cell", cell).out
        done = someone.lease("verify", word)
        assert done.code == 0 and f"{sweep}: 4 of 4 cells are home; 4 files" in done.out, done
    unknown = someone.lease("logs", "sweep")
    assert unknown.code == 2 and "c0, c1, c2, c3" in unknown.said

    (one,) = (run for run in {e["run"] for e in someone.events("run_planned")} if where["c0"]["run"] == run)
    assert f"{one}: " in someone.lease("verify", one).out, "a part's own id means that part"

    table = someone.lease("sweep", "table", "sweep")
    assert "loss" in table.out and "val_loss" in table.out
    assert "the numbers of 4 of 4 cells are the last ones that their logs print" in table.out
    rows = {row["cell"]: row for row in json.loads(someone.lease("sweep", "table", "sweep", "--json").out)["cells"]}
    assert all(row["from_log"] for row in rows.values())
    assert rows["c2"]["metrics"]["val_loss"] == 0.2 and rows["c2"]["metrics"]["loss"] == pytest.approx(0.533)
    assert "best by val_loss" in table.out


def _shows(child: subprocess.Popen[str], line: str) -> bool:
    return line in said_by(child)
