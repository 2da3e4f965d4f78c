"""Results whose names are one on some file systems: said at the smoke, and all of them come home, apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.lifecycle.home.result_names import folded
from tests.support.front import Front, front
from tests.support.lives import eventually

_FILES = {
    "d/A.json": 1, "d/a.json": 2,  # case
    "E/x.json": 3, "e/y.json": 4,  # case of a folder
    "f/caf\u00e9.json": 5, "f/cafe\u0301.json": 6,  # one letter, or a letter and its accent
    "g/x.json.": 7, "g/x.json": 8,  # dots and blanks at the end count for nothing on some
    "h/n.json": 9, "H": 10,  # a folder and a file
    "i/aux.json": 11, "i/straße.json": 12, "i/STRASSE.json": 13,
}  # fmt: skip
_TRAIN = f"""
import json, os, time
out = os.environ["LEASE_OUT"]
print("step 1/2 loss 0.5", flush=True)
for path, number in {_FILES!r}.items():
    where = os.path.join(out, path)
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with open(where, "w", encoding="utf-8") as file:
        json.dump({{"loss": number}}, file)
"""
NO_RECEIPT = 6  # the exit code of a pull whose run goes on


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Somebody whose job writes files that differ by what some file systems do not see."""
    with front(tmp_path) as someone:
        someone.write("train.py", _TRAIN)
        someone.job(artifacts={"**": "json"}, smoke="python3 -I -S train.py")
        yield someone


def contents(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): json.loads(path.read_text())["loss"]
        for path in folder.rglob("*")
        if path.is_file()
    }


def names_that_are_one(paths: list[str]) -> list[str]:
    """List the folders and files that some file system could not tell from another."""
    seen: dict[str, str] = {}
    twins = []
    for path in paths:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            spelled = "/".join(parts[:count])
            key = "/".join(folded(part) for part in parts[:count])
            if seen.setdefault(key, spelled) != spelled:
                twins.append(spelled)
    return twins


def test_every_twin_comes_home_under_a_name_of_its_own(person: Front) -> None:
    done = person.lease("run", "--on", "local")
    assert done.code == 0, done.said
    (export,) = person.project.glob("lease-results/export/toy-*")
    found = contents(export / "cells" / "main")
    assert sorted(found.values()) == sorted(_FILES.values())
    assert names_that_are_one(list(found)) == []
    assert names_that_are_one(list(_FILES)), "this test looks at names that are one"

    receipt = json.loads((export / "receipt.json").read_text())
    for path, number in _FILES.items():
        key = f"main/{path}"
        assert json.loads((export / "cells" / receipt["home_names"].get(key, key)).read_text())["loss"] == number
    assert "home_names" in receipt and "main/d/A.json" not in receipt["home_names"]
    (renamed,) = [line for line in done.said.splitlines() if "main/d/a.json" in line and "->" not in line]
    assert receipt["home_names"]["main/d/a.json"] in renamed

    assert person.lease("verify", "toy").code == 0
    again = person.lease("pull", "toy")
    assert again.code == 0 and "already home and verified" in again.said, again.said
    plan = json.loads(person.lease("down", "toy", "--plan", "--json").out)
    assert plan["gate"]["outcome"] == "passed", plan["gate"]


def test_damage_to_a_renamed_copy_at_home_is_seen(person: Front) -> None:
    assert person.lease("run", "--on", "local").code == 0
    (export,) = person.project.glob("lease-results/export/toy-*")
    receipt = json.loads((export / "receipt.json").read_text())
    (export / "cells" / receipt["home_names"]["main/d/a.json"]).write_text('{"loss": 3}')
    assert person.lease("verify", "toy").code != 0
    plan = json.loads(person.lease("down", "toy", "--plan", "--json").out)
    assert plan["gate"]["outcome"] == "refused"
    mended = person.lease("pull", "toy")
    assert mended.code == 0, mended.said
    assert json.loads((export / "cells" / receipt["home_names"]["main/d/a.json"]).read_text()) == {"loss": 2}
    plan = json.loads(person.lease("down", "toy", "--plan", "--json").out)
    assert plan["gate"]["outcome"] == "passed", plan["gate"]


def test_the_smoke_names_them(person: Front) -> None:
    done = person.lease("check", "smoke")
    assert done.code == 0, done.said
    told = done.out + done.said
    assert "d/a.json" in told and "d/A.json" in told and "caf" in told, told
    assert "same name" in told


def test_twins_of_a_live_run_are_evacuated_apart(person: Front, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.02)\n"
    person.write("train.py", _TRAIN + wait)
    person.job(artifacts={"**": "json"})
    assert person.lease("run", "--on", "local", "--detach").code == 0

    def evacuated() -> dict[str, int]:
        done = person.lease("pull", "toy")
        assert "Traceback" not in done.said
        folders = list(person.project.glob("lease-results/evacuated/toy-*/cells/main"))
        return contents(folders[0]) if done.code == NO_RECEIPT and folders else {}

    try:
        assert eventually(lambda: sorted(evacuated().values()) == sorted(_FILES.values()))
        first = evacuated()
        assert names_that_are_one(list(first)) == []
        assert evacuated() == first, "a second look names them as the first one did"
    finally:
        go.touch()
