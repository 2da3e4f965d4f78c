"""`lease plot` of a run that works: the loss over steps, the validation's beside it, words that a person knows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import front
from tests.support.sweeps import running, until

pytestmark = pytest.mark.full  # a reading comes every 5 seconds

TRAIN = """
import json, os, time
step, go = 0, os.environ["GO"]
while not os.path.exists(go):
    step += 1
    print(f"step {step}/100000 loss {2 / step:.6f}", flush=True)
    if step % 10 == 0:
        print(f"step {step} val_loss {3 / step:.6f}", flush=True)
    time.sleep(0.05)
json.dump({}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""


def test_the_losses_share_a_frame_over_steps_and_no_tick_is_said_twice(tmp_path: Path) -> None:
    with front(tmp_path / "person", {"COLUMNS": "90", "LINES": "60"}) as someone:
        someone.write("train.py", TRAIN)
        someone.job(env={"GO": str(tmp_path / "go")})
        with running(someone, "run") as started:

            def curves() -> dict[str, dict[str, Any]]:
                done = someone.lease("plot", "toy", "--json")
                found = json.loads(done.out)["curves"] if done.code == 0 else []
                return {str(one["name"]): one for one in found}

            def enough() -> bool:
                seen = curves()
                return all(len(seen.get(name, {}).get("points", ())) > 2 for name in ("loss", "val_loss"))

            until(enough, "three readings")
            loss = curves()["loss"]
            steps = loss["steps"]
            assert isinstance(steps, list) and steps == sorted(steps) and steps[0] < steps[-1]
            drawn = someone.lease("plot", "toy").out
            svg = someone.lease("plot", "toy", "--svg", "-").out
            (tmp_path / "go").touch()
            assert started.wait(60) == 0
    assert "val_loss: last" in drawn and "\nstep-rate" not in drawn and "steps per second: last" in drawn, drawn
    foot = next(line for line in drawn.splitlines() if line.strip().startswith("step "))
    words = foot.replace("step ", "").split()
    assert len(words) == len(set(words)) >= 2, foot
    for panel in drawn.split("\n\n"):
        labels = [found[1] for line in panel.splitlines() if (found := re.match(r"\s*(\S+) [┤+]", line))]
        one_reading = len(panel.splitlines()) == 1  # said in the title, without a frame
        assert one_reading or len(labels) == len(set(labels)) == 3, panel
    assert ">step " in svg
