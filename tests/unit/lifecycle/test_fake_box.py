"""The fake box answers what the real caretaker answers about the same files."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from leasehold.caretaker import routes
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files import manifest
from leasehold.kit.wire.messages import RunSeen

from .conftest import ARTIFACTS

PATTERNS = [artifact.pattern for artifact in ARTIFACTS]


class Heard:
    """What an operation sees of a request; keeps the answers."""

    def __init__(self, root: str, **args: Any) -> None:
        self.root, self.args, self.gone = root, args, False
        self.objects: list[dict[str, Any]] = []
        self.bytes = b""

    def reply(self, value: dict[str, Any]) -> None:
        self.objects.append(value)

    def data(self, chunk: bytes) -> None:
        self.bytes += chunk


@pytest.fixture
def real(scene):
    """The same run in the layout of the real caretaker: its out folder is a link to the fake's."""
    root = scene.folder / "real"
    folder = RunFolder(str(root / "active" / "toy-1"))
    (root / "active" / "toy-1" / "out").mkdir(parents=True)
    events = [
        {"n": 1, "t": 1.0, "k": "run_opened", "cells": ["main"]},
        {"n": 2, "t": 2.0, "k": "cell_finished", "cell": "main"},
        {"n": 3, "t": 3.0, "k": "run_finished"},
    ]
    with open(folder.journal, "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    with open(folder.plan, "w") as file:
        json.dump(scene.plan.as_dict(), file)
    with open(folder.holder, "w") as file:
        json.dump(scene.run.holder, file)
    scene.run.out("main").rename(folder.out("main"))
    scene.run.out("main").symlink_to(folder.out("main"))

    def ask(operation: str, **args: Any) -> Heard:
        heard = Heard(str(root), op=operation, run="toy-1", patterns=PATTERNS, **args)
        routes.OPERATIONS[operation](heard)
        return heard

    return ask


def test_fingerprints_are_alike(scene, real):
    scene.write({"scratch.tmp": b"x"})
    *cells, rest = real("fingerprint").objects
    present, other = scene.box.connect().fingerprint("toy-1", PATTERNS)
    assert {answer["cell"]: answer["entries"] for answer in cells} == present
    assert {*rest, "remains"} == set(other)
    assert (rest["alive"], rest["other"]) == (other["alive"], other["other"])
    assert rest["seen"]["state"] == other["seen"]["state"] == "finished"
    assert rest["seen"]["holder"] == other["seen"]["holder"]


def test_looks_have_the_same_parts(scene, real):
    (told,) = real("look").objects
    fake = scene.box.connect().look("toy-1")
    assert set(told) == set(fake)
    assert set(told) <= set(RunSeen.__annotations__)
    assert set(fake["cells"]["main"]) <= set(told["cells"]["main"])
    assert told["cells"]["main"]["state"] == fake["cells"]["main"]["state"]


def test_lists_of_runs_are_alike(scene, real):
    assert [answer["run"] for answer in real("runs").objects] == ["toy-1"]
    assert [answer["run"] for answer in scene.box.connect().runs()] == ["toy-1"]


@pytest.mark.parametrize("name", [".ipynb_checkpoints", "lost+found", " ", "caf\udce9", "toy-1.partial-7"])
def test_what_is_no_run_stops_no_list_of_runs(scene, real, name):
    """Jupyter leaves a folder wherever it looks; that must not keep a box from being torn down."""
    os.makedirs(os.path.join(scene.folder, "real", "active", name))
    assert [answer["run"] for answer in real("runs").objects] == ["toy-1"]


def test_manifests_are_alike(scene, real):
    told = manifest.parse(json.loads(real("manifest", cells=["main"]).bytes), "toy-1")
    fake = manifest.parse(json.loads(scene.box.connect().manifest("toy-1", ["main"], PATTERNS)), "toy-1")
    assert told["cells"] == fake["cells"]
    assert told["plan_sha256"] == fake["plan_sha256"]


@pytest.mark.parametrize("offset", [0, 5, 10**6])
def test_files_are_alike(scene, real, offset):
    asked = {"area": "out", "cell": "main", "path": "weights/best.bin", "offset": offset}
    assert real("get", **asked).bytes == b"".join(scene.box.connect().get("toy-1", **asked))


def test_what_can_be_salvaged_is_alike(scene, real):
    assert real("salvageable", cell="main").objects == scene.box.connect().salvageable("toy-1", "main")


def test_a_refusal_has_the_same_code(scene, real):
    with pytest.raises(Exception) as told:
        real("get", area="out", cell="main", path="../../plan.json")
    with pytest.raises(Exception) as fake:
        list(scene.box.connect().get("toy-1", "out", "main", "../../plan.json"))
    assert told.value.code == fake.value.code == "artifact.unreadable"
