"""A training that diverges, from the first NaN to the teardown, through the command line on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front

_NAN_METRICS = """
import json, os, struct
out = os.environ["LEASE_OUT"]
for step in range(22):
    print("step %d/22 loss nan" % (step + 1), flush=True)
with open(out + "/metrics.json", "w") as file:
    json.dump({"best": 0.5, "history": {"loss": [1.0, float("nan"), float("-inf")]}}, file)
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path) as made:
        yield made


def _receipt(person: Front) -> dict:
    (path,) = person.project.glob("lease-results/export/*/receipt.json")
    return dict(json.loads(path.read_text()))


def test_a_file_with_nan_is_named_in_the_receipt_and_on_every_screen(person: Front) -> None:
    person.write("train.py", _NAN_METRICS)
    person.job(artifacts={"metrics.json": "json"})
    done = person.lease("run", "--on", "local")
    assert done.code == 0, done.said
    line = "main/metrics.json: 1 NaN and 1 infinite, in history.loss[] (2)"
    held = "2 NaN or infinite in 1 file"
    assert f"not finite: {line}" in done.said and f"holds {held}" in done.said
    assert "home and verified" not in done.said
    (named,) = _receipt(person)["nonfinite"]
    assert named == {"path": "main/metrics.json", "nan": 1, "inf": 1, "where": [["history.loss[]", 2]], "more": 0}
    assert line in person.lease("verify", "toy").said
    assert "home NaN" in person.lease("status").out and line in person.lease("show", "toy").out
    again = person.lease("pull", "toy")
    assert line in again.said and "home and verified" not in again.said
    plan = person.lease("down", "toy", "--plan")
    assert plan.code == 0 and f"main: home, hash-equal, loads (receipt); holds {held}" in plan.out + plan.said


def test_each_artifact_kind_names_the_key_column_or_tensor_not_finite(person: Front) -> None:
    person.write("train.py", _EVERY_KIND)
    person.job(artifacts={"a.jsonl": "jsonl", "b.csv": "csv", "c.npy": "npy", "d.npz": "npz", "e.safetensors": None})
    done = person.lease("run", "--on", "local")
    assert done.code == 0, done.said
    named = {entry["path"]: entry["where"] for entry in _receipt(person)["nonfinite"]}
    assert named == {
        "main/a.jsonl": [["eval.loss", 2]],
        "main/b.csv": [["loss", 2]],
        "main/c.npy": [["the array", 1]],
        "main/d.npz": [["w", 1]],
        "main/e.safetensors": [["layer.weight", 2]],
    }


def test_results_that_are_finite_are_home_and_verified(person: Front) -> None:
    finite = _NAN_METRICS.replace("loss nan", "loss 0.5").replace('float("nan")', "2.0").replace('float("-inf")', "3.0")
    person.write("train.py", finite)
    person.job(artifacts={"metrics.json": "json"})
    done = person.lease("run", "--on", "local")
    assert done.code == 0 and "home and verified" in done.said and "not finite" not in done.said, done.said
    receipt = _receipt(person)
    assert "nonfinite" not in receipt and receipt["loads"][0]["numbers"] == "finite"


_EVERY_KIND = r"""
import json, os, struct, zipfile
out = os.environ["LEASE_OUT"] + "/"
def write(name, data):
    with open(out + name, "wb") as file:
        file.write(data)
write("a.jsonl", b'{"step": 1, "eval": {"loss": 1.5}}\n{"step": 2, "eval": {"loss": NaN}}\n{"eval": {"loss": NaN}}\n')
write("b.csv", b"lang,step,loss\nen,1,0.5\nnan,2,nan\nde,3,-inf\n")
def npy(kind, data, count):
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }" % (kind, count)).encode()
    head += b" " * (117 - len(head)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data
nan, inf = float("nan"), float("inf")
write("c.npy", npy(">f4", struct.pack(">3f", 1, nan, 2), 3))
with zipfile.ZipFile(out + "d.npz", "w", zipfile.ZIP_DEFLATED) as file:
    file.writestr("w.npy", npy("<f8", struct.pack("<4d", 1, 2, 3, inf), 4))
    file.writestr("steps.npy", npy("<i8", struct.pack("<2q", -1, 2 ** 62), 2))
head = json.dumps({"layer.weight": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
write("e.safetensors", struct.pack("<Q", len(head)) + head + struct.pack("<3f", nan, 1.0, inf))
"""

_DIVERGES = """
import json, os, time
out, cell = os.environ["LEASE_OUT"], os.environ.get("LEASE_PARAM_lr", "big")
with open(out + "/last.json", "w") as file:
    json.dump({"step": 3}, file)
for step in range(1, 4):
    print("step %d loss %.2f" % (step, 1.0 / step), flush=True)
deadline = time.monotonic() + 60
while cell == "big" and time.monotonic() < deadline:
    print("step %d loss nan" % step, flush=True)
    step += 1
    time.sleep(0.05)
with open(out + "/metrics.json", "w") as file:
    json.dump({"loss": 0.1}, file)
"""


def _journal(person: Front) -> list[dict]:
    (path,) = person.box_root.glob("active/*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def _alarms(person: Front) -> list[tuple[str, str]]:
    kinds = ("alarm_raised", "alarm_cleared")
    return [(event["k"], event["name"]) for event in _journal(person) if event["k"] in kinds and event.get("cell")]


def test_a_loss_that_is_not_finite_is_one_alarm_on_screen_and_in_journal(person: Front) -> None:
    person.write("train.py", _NAN_METRICS)
    person.job(artifacts={"metrics.json": "json"})
    done = person.lease("run", "--on", "local")
    assert done.code == 0, done.said
    assert done.said.count("ALARM: the loss is not finite") == 1, done.said
    assert "seen: loss nan at step 22, 22 in a row; no finite one before" in done.said
    assert "cell main ended under an alarm: the loss is not finite" in done.said
    assert _alarms(person) == [("alarm_raised", "loss_not_finite")]


def test_a_loss_that_recovers_ends_its_alarm(person: Front) -> None:
    person.write(
        "train.py", _NAN_METRICS + 'for step in range(23, 30):\n    print("step %d loss 0.5" % step, flush=True)\n'
    )
    person.write("wait.py", _WAITS_FOR_ALARM)
    person.job(run="python3 -I -S wait.py", artifacts={"metrics.json": "json"})
    done = person.lease("run", "--on", "local", BOX=str(person.box_root))
    assert done.code == 0, done.said
    assert _alarms(person) == [("alarm_raised", "loss_not_finite"), ("alarm_cleared", "loss_not_finite")]
    assert "over: loss not finite" in done.said and "ended under an alarm" not in done.said


def test_on_nan_stop_ends_that_cell_and_the_rest_of_the_sweep_goes_on(person: Front) -> None:
    person.write("train.py", _DIVERGES)
    person.job(on_nan="stop", cells=[{"lr": "big"}, {"lr": "small"}], artifacts={"metrics.json": "json"}, attempts=3)
    done = person.lease("run", "--on", "local")
    assert done.code != 0 and "STOPPED: cell lr-big, attempt 1: its loss is not finite (on_nan: stop)" in done.said
    events = [event for event in _journal(person) if event.get("cell") == "lr-big"]
    classed = [(event["class"], event["verdict"]) for event in events if event["k"] == "failure_classed"]
    assert classed == [("bug", "diverged")]  # once: it is not tried again
    assert [event["remedy"] for event in events if event["k"] == "remedy_chosen"] == ["stop"]
    (kept,) = person.box_root.glob("active/*/out/lr-big/last.json")
    assert json.loads(kept.read_text()) == {"step": 3}
    assert _receipt(person)["cells"] == ["lr-small"]
    doctor = person.lease("doctor", "toy")
    assert "on_nan: stop" in doctor.out + doctor.said and "P8" in doctor.out + doctor.said


def test_a_cell_may_say_otherwise_than_its_job(person: Front) -> None:
    person.write("train.py", _DIVERGES)
    cells = [{"lr": "big", "on_nan": "stop"}, {"lr": "small"}]
    person.job(cells=cells, artifacts={"metrics.json": "json"})
    done = person.lease("run", "--on", "local")
    assert done.code != 0 and "STOPPED: cell lr-big" in done.said, done.said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"on_nan": "halt"}, "on_nan: 'halt' is none of tell, stop"),
        ({"cells": [{"lr": 1, "on_nan": "again"}]}, "cells.list.0.on_nan: 'again' is none of tell, stop"),
        ({"cells": {"grid": {"on_nan": ["tell", "stop"]}}}, "cells.grid.on_nan: on_nan has a meaning of its own here"),
    ],
)
def test_a_wrong_on_nan_is_refused_by_its_key(person: Front, change: dict, said: str) -> None:
    person.write("train.py", "")
    person.job(**change)
    done = person.lease("run", "--on", "local")
    assert done.code == 2 and said in done.said, done.said


_FALLS_BACK = """
import json, os, sys, time
out, attempt = os.environ["LEASE_OUT"], int(os.environ["LEASE_ATTEMPT"])
for step in range(1, 41 if attempt == 1 else 31):
    print("step %d/60 loss %.3f" % (step, 2.0 / step), flush=True)
if attempt == 1:
    os.kill(os.getpid(), 9)
with open(out + "/metrics.json", "w") as file:
    json.dump({"loss": 0.1}, file)
"""


def test_a_step_that_falls_back_after_a_resume_says_both_numbers(person: Front) -> None:
    person.write("train.py", _FALLS_BACK)
    person.job(artifacts={"metrics.json": "json"})
    done = person.lease("run", "--on", "local")
    assert done.code == 0, done.said
    raised = [event for event in _journal(person) if event["k"] == "alarm_raised" and event["name"] == "step_back"]
    assert [event["what"] for event in raised] == ["attempt 2 began at step 1, 40 had been reached"]


# Prints NaN until the alarm stands in the journal, then goes on as train.py ends.
_WAITS_FOR_ALARM = """
import glob, os, time
text = open("train.py").read()
begin, end = text.split("for step in range(23")
exec(begin)
deadline = time.monotonic() + 60
(journal,) = glob.glob(os.path.dirname(os.path.dirname(os.environ["LEASE_OUT"])) + "/journal.jsonl")
while "alarm_raised" not in open(journal).read() and time.monotonic() < deadline:
    time.sleep(0.02)
exec("for step in range(23" + end)
"""
