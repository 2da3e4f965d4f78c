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


def test_every_kind_of_artifact_says_which_key_column_or_tensor_is_not_finite(person: Front) -> None:
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
    person.write("train.py", _NAN_METRICS.replace('float("nan")', "2.0").replace('float("-inf")', "3.0"))
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
