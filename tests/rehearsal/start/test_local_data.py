"""Data that git ignores: named before it is missed, uploaded once by `data:`, read-only, shared, pruned."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, Tmpfs, front
from tests.support.parts import missing_git

SIZE = 1_300_000
TRAIN = """
import hashlib, json, os, sys
found = {}
for top in (".", os.environ.get("LEASE_INPUTS", "nowhere")):
    for where, folders, files in os.walk(top, followlinks=True):
        for name in files:
            if name.endswith(".bin"):
                path = os.path.join(where, name)
                found[os.path.relpath(path, top)] = hashlib.sha256(open(path, "rb").read()).hexdigest()
json.dump(found, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
print("read", len(found), "files", flush=True)
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody whose repository ignores the folder with its data."""
    with front(tmp_path / "person") as someone:
        if reason := missing_git():
            pytest.skip(reason)
        subprocess.run(["git", "init", "-q", str(someone.project)], check=True)
        someone.write(".gitignore", "data/\nlease-results/\n")
        someone.write("train.py", TRAIN)
        (someone.project / "data" / "deep").mkdir(parents=True)
        (someone.project / "data" / "train.bin").write_bytes(os.urandom(SIZE))
        someone.job()
        yield someone


def inputs(someone: Front) -> Path:
    return someone.box_root / "inputs"


def result(someone: Front, run: str) -> dict[str, str]:
    path = someone.project / "lease-results" / "export" / run / "cells" / "main" / "result.json"
    value: dict[str, str] = json.loads(path.read_text())
    return value


def newest(someone: Front) -> str:
    return str(someone.events("run_planned")[-1]["run"])


def test_ignored_data_is_named_until_it_travels_or_is_meant_to_stay(person: Front) -> None:
    (person.project / "data" / "val.bin").write_bytes(b"x" * 9)
    (person.project / ".gitignore").write_text("data/*.bin\nlease-results/\n*.log\n__pycache__/\n")
    (person.project / "huge.log").write_bytes(bytes(2_000_000))
    said = "data/train.bin, 1.3 MB, is ignored by git and will not travel; `data: [data/train.bin]`"
    for words in (("plan",), ("init", "--to", "other.yaml"), ("run",)):
        done = person.lease(*words)
        assert said in done.said + done.out, (words, done.said, done.out)
        assert "huge.log" not in done.said + done.out and "val.bin" not in done.said + done.out
    person.job(data=["data/train.bin"])
    for words in (("plan",), ("run",)):
        done = person.lease(*words)
        assert done.code == 0 and "will not travel" not in done.said + done.out, done
    assert "data is uploaded once to each box: data/train.bin, 1 file, 1.3 MB" in person.lease("plan").out
    person.job()
    person.write(".leaseignore", "data/train.bin\n")
    assert "will not travel" not in person.lease("run").said


def test_a_small_file_the_code_names_is_named_too_and_a_folder_by_name(person: Front) -> None:
    (person.project / "data" / "train.bin").unlink()
    (person.project / "data" / "vocab.bin").write_bytes(b"x" * 9)
    (person.project / "data" / "other.bin").write_bytes(b"x" * 9)
    assert "will not travel" not in person.lease("plan").out
    person.write("load.py", "open('data/vocab.bin')\n")
    assert "data/, 2 files, 18 B, are ignored by git and will not travel; `data: [data]`" in person.lease("plan").out


def test_it_travels_once_and_lies_read_only_where_the_code_looks_for_it(
    person: Front,
) -> None:
    (person.project / "data" / "deep" / "empty.bin").write_bytes(b"")
    (person.folder / "elsewhere").mkdir()
    (person.folder / "elsewhere" / "a b 中.bin").write_bytes(b"far")
    person.job(data=["data", {"from": "../elsewhere", "to": "sets/far"}], smoke="python3 -I -S train.py")
    done = person.lease("run")
    assert done.code == 0, done.said
    assert "data data: 1.3 MB in 2 files go to local" in done.said
    assert "data data: 2 files, 1.3 MB, on local; every hash was checked there" in done.said
    assert "will not travel" not in done.said
    first = newest(person)
    found = result(person, first)
    assert set(found) == {"data/train.bin", "data/deep/empty.bin", "sets/far/a b 中.bin"}
    work = person.box_root / "active" / first / "work" / "main"
    assert (work / "data").is_symlink() and (work / "train.py").exists()
    blobs = [path for path in (inputs(person) / "blobs").rglob("*") if path.is_file()]
    assert len(blobs) == 3 and all(path.stat().st_mode & 0o777 == 0o444 for path in blobs)
    assert all(path.stat().st_nlink == 2 for path in blobs), "a run's folder holds them without a second copy"
    assert (work / "data").resolve().stat().st_mode & 0o222 == 0
    assert not list((person.box_root / "blobs").rglob("*train.bin*")), "it is no code"

    again = person.lease("run", "--again")
    assert again.code == 0, again.said
    assert again.said.count("it was there already and unchanged, so nothing travels") == 2
    assert result(person, newest(person)) == found


def test_changed_data_is_another_run_and_unchanged_data_the_same_run(person: Front) -> None:
    person.job(data=[{"from": "data", "to": "data"}])
    assert person.lease("run").code == 0
    first = newest(person)
    os.utime(person.project / "data" / "train.bin")
    (person.project / "data").rename(person.folder / "moved")
    person.job(data=[{"from": "../moved", "to": "data"}])
    done = person.lease("run")
    assert done.code == 0 and newest(person) == first and len(person.runs_on_box()) == 1, done.said
    (person.folder / "moved" / "train.bin").write_bytes(b"changed")
    done = person.lease("run")
    assert done.code == 0 and newest(person) != first, done.said


def test_data_spoiled_on_the_box_is_detected_and_sent_again(person: Front) -> None:
    person.job(data=["data"])
    assert person.lease("run").code == 0
    wanted = result(person, newest(person))
    (view,) = (path for path in (inputs(person) / "trees").iterdir() if path.is_dir())
    (view / "train.bin").chmod(0o644)
    with open(view / "train.bin", "r+b") as file:  # the same length, other bytes
        file.write(b"spoiled")
    done = person.lease("run", "--again")
    assert done.code == 0, done.said
    assert "data data: 1.3 MB in 1 file go to local" in done.said
    assert result(person, newest(person)) == wanted
    touched = next(path for path in (inputs(person) / "blobs").rglob("*") if path.is_file())
    os.utime(touched)  # only looked at: it is hashed again, and nothing travels
    done = person.lease("run", "--again")
    assert done.code == 0 and "nothing travels" in done.said, done.said


@pytest.mark.parametrize("options, lacks", [("size=40m", "bytes free"), ("size=200m,nr_inodes=640", "inodes left")])
def test_no_room_is_refused_before_a_byte_travels(person: Front, options: str, lacks: str) -> None:
    for number in range(300):
        (person.project / "data" / f"{number}.bin").write_bytes(b"%d" % number)
    place = person.folder / "small"
    place.mkdir()
    person.job(data=["data"])
    skip = ("--skip-gate", "audit", "--because", "the test is about the room for data")
    done = person.lease("run", "--root", str(place / "root"), *skip, disk=Tmpfs(place, options))
    if done.code == 97:
        pytest.skip("no mount here (namespaces)")
    assert done.code == 3 and "error[data.no_room]" in done.said and lacks in done.said, done.said
    assert "lease box prune" in done.said and "go to local" not in done.said


BAD = {
    "missing": (["nowhere"], "data.missing"),
    "empty": (["data/deep"], "data.empty"),
    "outside": (["../x"], "needs `to`"),
    "overlap": (["data", "data/train.bin"], "overlap"),
    "code": ([{"from": "data", "to": "train.py"}], "data.collides"),
    "link": (["linked"], "data.link"),
    "escape": ([{"from": "data", "to": "../up"}], "data.0.to"),
}


@pytest.mark.parametrize("data, said", list(BAD.values()), ids=list(BAD))
def test_what_cannot_be_is_refused_by_name(person: Front, data: list[object], said: str) -> None:
    person.write(".gitignore", "data/\nlinked/\n")
    (person.project / "linked").mkdir()
    (person.project / "linked" / "out").symlink_to(person.project / "data")
    person.job(data=data)
    done = person.lease("run")
    assert done.code == 2 and said in done.said, done.said
    assert not person.runs_on_box()


def test_prune_removes_the_data_of_finished_runs_alone(person: Front) -> None:
    person.job(data=["data"])
    assert person.lease("run").code == 0
    (person.project / "data" / "train.bin").write_bytes(b"of the second run")
    person.job(data=["data"], run="python3 -I -S train.py; exit 3", attempts=1)
    assert person.lease("run").code == 6
    young = person.lease("box", "prune", "local", "--json")
    assert json.loads(young.out)["data_files"] == 0, "what came within the hour stays"
    for path in (inputs(person) / "trees").glob("*.list"):
        os.utime(path, (time.time() - 7200,) * 2)
    would = person.lease("box", "prune", "local", "--dry-run")
    assert "1 files of uploaded data, 1.3 MB would be freed" in would.out
    assert len(list((inputs(person) / "trees").glob("*.list"))) == 2
    done = person.lease("box", "prune", "local")
    assert "1 files of uploaded data, 1.3 MB freed" in done.out
    (kept,) = (path for path in (inputs(person) / "blobs").rglob("*") if path.is_file())
    assert kept.read_bytes() == b"of the second run"
    assert len(list((inputs(person) / "trees").iterdir())) == 2, "one list and its folder"
