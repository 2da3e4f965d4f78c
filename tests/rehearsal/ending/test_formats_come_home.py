"""Files of other libraries come home: what was read of them, what was not, and a job that wants them read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import NO_SMOKE, Front, front

GOLDEN = Path(__file__).parents[2] / "unit/kit/readers/golden"
FILES = ("parquet/plain.parquet", "onnx/inside.onnx", "hdf5/usual.h5", "joblib/zlib.joblib", "zip/two.zip")
_TRAIN = """
import os, pathlib, shutil
for path in pathlib.Path("made").iterdir():
    shutil.copy(path, os.environ["LEASE_OUT"])
print("step 1/1 loss 0.5", flush=True)
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody whose training writes such files."""
    with front(tmp_path / "person") as someone:
        someone.write("train.py", _TRAIN)
        (someone.project / "made").mkdir()
        for name in FILES:
            shutil.copy(GOLDEN / name, someone.project / "made")
        (someone.project / "made" / "program.pt2").write_bytes(b"of no kind that is known")
        yield someone


def write_job(person: Front, unread: str) -> None:
    lines = [f"  {Path(name).name}: {{must_be_read: true}}" for name in FILES]
    head = "name: toy\nrun: python3 train.py\nartifacts:\n"
    person.write("lease.yaml", head + "\n".join([*lines, f"  program.pt2: {unread}\n"]))


def test_what_was_read_and_what_was_not_stands_in_the_receipt(person: Front) -> None:
    write_job(person, "{must_be_read: true}")
    refused = person.lease("run", "--rehearse", *NO_SMOKE)
    assert refused.code != 0 and "artifacts.program.pt2.must_be_read: no reader would read it" in refused.said

    write_job(person, "{}")
    done = person.lease("run", "--rehearse", *NO_SMOKE)
    assert done.code == 0, done.said
    assert "loads: 1 hdf5, 1 joblib, 1 onnx, 1 parquet, 1 zip; hash-equal only: 1 file not read" in done.said
    assert "(no reader: 1 .pt2)" in done.said and "every artifact loads" not in done.said
    (receipt,) = person.project.glob("lease-results/export/toy-*/receipt.json")
    loads = {Path(fact["path"]).name: fact for fact in json.loads(receipt.read_text())["loads"]}
    assert loads["program.pt2"]["not_read"] == "no reader for .pt2"
    assert loads["plain.parquet"]["numbers"] == "not finite"
    assert [name for name, fact in loads.items() if "not_read" in fact] == ["program.pt2"]


def test_a_damaged_file_is_refused_and_put_aside(person: Front) -> None:
    path = person.project / "made" / "plain.parquet"
    data = bytearray(path.read_bytes())
    data[data.index(b"\1\0\0\0x\1\0\0\0y") + 4] ^= 1  # inside of a page that has a checksum
    path.write_bytes(data)
    write_job(person, "{}")
    done = person.lease("run", "--rehearse", *NO_SMOKE)
    assert done.code != 0 and "wrong checksum" in done.said, done.said
    assert not list(person.project.glob("lease-results/export/toy-*/receipt.json"))


def test_inspect_says_what_a_file_holds(person: Front) -> None:
    seen = person.lease("ckpt", "inspect", "made/usual.h5")
    assert seen.code == 3 and "NOT FINITE: 1 NaN and 1 infinite, in a/b" in seen.out
    assert "3 tensors, 40 numbers" in seen.out
    unknown = person.lease("ckpt", "inspect", "made/program.pt2")
    assert unknown.code != 0 and "no reader for .pt2" in unknown.said
