"""A job that uses leasehold.checkpoint runs where nothing is installed, and its checkpoints come home checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "checkpoint"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path) as person:
        shutil.copytree(EXAMPLE, person.project, dirs_exist_ok=True)
        yield person


def test_the_example_runs_on_a_bare_box_and_its_checkpoints_come_home(me: Front) -> None:
    # -S hides site-packages, and the job's own PYTHONPATH replaces this test's: only what the box was sent is left.
    me.write("where.py", "import leasehold\nprint(leasehold.__file__)\nimport train\ntrain.main()\n")
    run = "STEPS=60 python3 -S where.py"
    text = (EXAMPLE / "lease.yaml").read_text().replace("run: python3 train.py", "run: " + run, 1)
    me.write("lease.yaml", text + "env: {PYTHONPATH: lib}\n")
    done = me.lease("run")
    assert done.code == 0, done.said
    assert "1 checkpoint" in done.said
    assert "caretaker" in me.lease("logs", "checkpoint-example").out.splitlines()[0]  # where the parcel lies
    home = Path(done.out.strip()) / "cells" / "main" / "ckpt"
    assert (home / "step-0000000060.safetensors").exists()
    seen = me.lease("ckpt", "inspect", str(home), "--json")
    assert seen.code == 0, seen.said
    facts = json.loads(seen.out)
    assert facts["kind"] == "checkpoint"
    assert {"state", "sampler", "step", "rng.python"} <= set(facts["keys"])
    assert "digest: every byte is as it was written" in facts["notes"]


ASKED = """
import json, os, signal, time
from leasehold.checkpoint import Checkpointer
request = os.environ["LEASE_SAVE_REQUEST"]
state = {"count": 0}
with Checkpointer("ckpt") as ckpt:
    begin = ckpt.restore(state=state).step
    if not begin:
        open(request, "w").close()  # as the caretaker does before it stops a trainer
        for step in range(1000):
            state["count"] += 1
            ckpt.step(step)
            if os.path.exists(request + ".done"):
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.02)
answered = int(open(request + ".done").read())
seen = {"begin": begin, "answered": answered, "count": state["count"], "gap_s": float(os.environ["LEASE_GAP_S"])}
json.dump(seen, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""


def test_a_save_request_is_answered_and_a_kill_halves_the_assumed_gap(me: Front) -> None:
    me.write("train.py", ASKED)
    me.job(run="python3 train.py")
    done = me.lease("run")
    assert done.code == 0, done.said
    seen = json.loads((Path(done.out.strip()) / "cells" / "main" / "result.json").read_text())
    assert seen["begin"] == seen["answered"] == seen["count"] > 0
    assert 0.49 * 86400 < seen["gap_s"] < 0.51 * 86400
