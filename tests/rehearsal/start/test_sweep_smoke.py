"""The smoke of a sweep is given what its first cell is given."""

from __future__ import annotations

from pathlib import Path

from tests.support.front import front

TRAIN = """
import json, os, sys
assert sys.argv[1:] == [os.environ["LEASE_PARAM_lr"]] and sys.argv[1], sys.argv
assert json.loads(os.environ["LEASE_PARAMS"])["lr"] == float(sys.argv[1])
print("smoke" if os.environ.get("LEASE_SMOKE") else "run", os.environ["LEASE_CELL"], sys.argv[1], flush=True)
open(os.path.join(os.environ["LEASE_OUT"], "model.txt"), "w").write("x")
"""


def test_a_placeholder_of_a_parameter_is_filled_in_the_smoke(tmp_path: Path) -> None:
    with front(tmp_path) as someone:
        someone.write("train.py", TRAIN)
        command = "python3 -I -S train.py {{lr}}"
        job = {"run": command, "smoke": command, "artifacts": ["model.txt"]}
        someone.job(**job, cells={"list": [{"name": "a", "lr": 0.5}, {"name": "b", "lr": 0.25}]})
        done = someone.lease("run")
        assert done.code == 0, done.said
        assert "(cell a: lr=0.5)" in done.said and "smoke: passed" in done.said
        someone.job(**job, cells={"list": [{"name": "c", "lr": 2.0}, {"name": "a", "lr": 0.5}]})
        assert "(cell c: lr=2.0)" in someone.lease("check", "smoke").said
