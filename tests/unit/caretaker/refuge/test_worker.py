"""The worker's turns: which states it takes when, to which refuges, and what it says of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leasehold.caretaker.refuge import worker as rooms
from leasehold.caretaker.refuge.orders import RefugeFiles
from leasehold.caretaker.refuge.worker import Worker
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.objects.object_place import open_bucket
from leasehold.kit.refuge.epochs import Claim, claim, read_claim
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.reading import newest_whole
from tests.support import object_stores
from tests.support.fault_store import FaultStore

RUN = "toy-0123"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(rooms, "_AGAIN_S", 0.01)


class Life:
    """A box's folder and its worker, whose clock the test moves."""

    def __init__(self, tmp_path, refuge=("durable",), alive=False, **checkpoint):
        self.folder = RunFolder(str(tmp_path / "root/active" / RUN))
        self.tier, self.files = tmp_path / "tier", RefugeFiles(self.folder)
        os.makedirs(self.files.path)
        self.tier.mkdir()
        self.now, self.cells = 0.0, {"main": alive}
        known = {"path": "ckpt/step-*.json", "refuge": list(refuge), **checkpoint}
        environment = {"durable": str(self.tier), "durable_is_folder": True}
        plan = {"cells": ["main"], "job": {"checkpoint": known}, "environment": environment}
        Path(self.folder.plan).write_text(json.dumps(plan))
        self.order()
        self.worker = self.again()

    def again(self):
        return Worker(self.folder, self.files, lambda: self.now)

    def order(self, **more):
        cells = {name: {"attempt": 1, "alive": alive, "hurry": not alive} for name, alive in self.cells.items()}
        write_json(self.files.order, {"cells": cells, "box": "gpu1", **more})

    def save(self, step, cell="main", text="state"):
        place = Path(self.folder.out(cell)) / "ckpt"
        place.mkdir(parents=True, exist_ok=True)
        (place / ("step-%d.json.tmp" % step)).write_text(json.dumps({"step": step, "text": text}))
        os.replace(str(place / ("step-%d.json.tmp" % step)), str(place / ("step-%d.json" % step)))

    def turn(self, seconds=1.0):
        self.now += seconds
        return self.worker.turn()

    def said(self, kind=""):
        events = (read_json(self.files.said) or {}).get("events") or []
        return [event for event in events if not kind or event["kind"] == kind]

    def newest(self, cell="main", place=None):
        found = newest_whole(place or FolderPlace(str(self.tier)), RUN, cell)
        return found.state.step if found else None


def secrets_of(life, environ):
    os.makedirs(os.path.dirname(life.folder.secrets), exist_ok=True)
    Path(life.folder.secrets).write_text(json.dumps(environ))


def test_each_refuge_gets_the_newest_in_the_order_of_the_job(tmp_path):
    with FaultStore(obeys=True) as store:
        address = "s3://%s/runs" % object_stores.BUCKET
        life = Life(tmp_path, refuge=("durable", address, "home"))
        secrets_of(life, store.environ)
        life.save(1)
        life.save(2)
        life.turn()
        assert [(event["kind"], event["place"], event["tier"], event["step"]) for event in life.said()] == [
            ("refuge_copied", str(life.tier), "durable", 2), ("refuge_copied", address, "store", 2)
        ]  # fmt: skip
        assert life.newest() == life.newest(place=open_bucket(address, store.environ)) == 2
        secret = store.environ["AWS_SECRET_ACCESS_KEY"]
        written = [path for path in Path(life.folder.path).rglob("*") if path.is_file()]
        assert not [path for path in written if secret in path.read_text("utf-8", "replace")]


def test_a_refuge_that_fails_does_not_hold_up_the_others(tmp_path):
    life = Life(tmp_path, refuge=("s3://%s/runs" % object_stores.BUCKET, "durable"))
    life.save(1)
    life.turn()
    assert [event["kind"] for event in life.said()] == ["refuge_failed", "refuge_copied"]
    assert life.said()[0]["class"] == "refused" and "AWS_ACCESS_KEY_ID" in life.said()[0]["why"]
    assert life.newest() == 1


def test_the_same_failure_is_said_once_until_it_worked_again(tmp_path):
    life = Life(tmp_path)
    for step in range(1, 4):
        life.save(step)
        life.turn(10_000)
    away = tmp_path / "away"
    life.tier.rename(away)
    for step in range(4, 8):
        life.save(step)
        life.turn(10_000)
    away.rename(life.tier)
    life.save(9)
    life.turn(10_000)
    kinds = [event["kind"] for event in life.said() if event["kind"] != "refuge_pruned"]
    assert kinds == ["refuge_copied"] * 3 + ["refuge_failed", "refuge_copied"]


def test_a_default_tier_that_was_never_there_is_no_alarm(tmp_path):
    life = Life(tmp_path)
    plan = json.loads(Path(life.folder.plan).read_text())
    del plan["job"]["checkpoint"]["refuge"]
    plan["environment"]["durable"] = str(tmp_path / "absent")
    Path(life.folder.plan).write_text(json.dumps(plan))
    life.folder._planned = None
    life.worker = life.again()
    life.save(1)
    life.turn()
    assert [event["kind"] for event in life.said()] == ["refuge_skipped"]


def test_between_two_copies_lies_the_interval_unless_it_is_hurried(tmp_path):
    life = Life(tmp_path, alive=True, every_s=3600.0)
    life.save(1)
    life.turn()
    life.save(2)
    life.turn()
    assert life.newest() == 1
    life.cells["main"] = False  # its trainer has ended
    life.order()
    life.turn()
    assert life.newest() == 2


def test_every_cell_of_a_sweep_is_minded(tmp_path):
    life = Life(tmp_path)
    life.cells = {"a": False, "b": False}
    life.order()
    life.save(1, "a")
    life.save(2, "b")
    life.turn()
    assert (life.newest("a"), life.newest("b")) == (1, 2)


def test_the_last_turn_copies_what_is_new_and_leaves(tmp_path):
    life = Life(tmp_path, alive=True, every_s=3600.0)
    life.save(1)
    assert life.turn()
    life.save(2)
    life.order(final=True)
    assert not life.turn() and life.newest() == 2


def test_a_state_that_is_rewritten_in_place_is_an_alarm_in_the_end(tmp_path, monkeypatch):
    life = Life(tmp_path, alive=True)
    life.save(1)
    path = Path(life.folder.out("main")) / "ckpt/step-1.json"
    count = [0]

    def rewrite(seconds):
        count[0] += 1
        path.write_text(json.dumps({"step": 1, "count": count[0]}))

    monkeypatch.setattr(rooms.time, "sleep", rewrite)
    for _ in range(5):
        life.turn()
    assert [(event["kind"], event["class"]) for event in life.said()] == [("refuge_failed", "torn")]
    monkeypatch.setattr(rooms.time, "sleep", lambda seconds: None)
    life.turn(10_000)
    assert life.newest() == 1


def test_a_run_that_another_box_claimed_is_not_taken_from_it(tmp_path):
    life = Life(tmp_path)
    assert claim(FolderPlace(str(life.tier)), RUN, Claim(1, "theirs", box="gpu9"))
    life.save(1)
    assert not life.turn()
    [fenced] = life.said()
    assert (fenced["kind"], fenced["box"], life.newest()) == ("refuge_fenced", "gpu9", None)


def test_a_claim_that_home_made_for_this_box_is_used(tmp_path):
    life = Life(tmp_path)
    place = FolderPlace(str(life.tier))
    for epoch, nonce in ((1, "theirs"), (2, "ours")):
        assert claim(place, RUN, Claim(epoch, nonce))
    write_json(life.folder.refuge_epoch, {"epoch": 2, "nonce": "ours", "box": "gpu1"})
    life.save(1)
    assert life.turn()
    assert life.said()[0]["epoch"] == 2


def test_a_claim_is_the_same_after_a_kill_in_mid_claim(tmp_path, monkeypatch):
    life = Life(tmp_path)
    life.save(1)
    real = FolderPlace.put_new

    def put_and_die(self, key, data):
        real(self, key, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FolderPlace, "put_new", put_and_die)
        with pytest.raises(KeyboardInterrupt):
            life.turn()
    life.worker = life.again()
    assert life.turn() and life.newest() == 1
    assert read_claim(FolderPlace(str(life.tier)), RUN, 1).nonce == read_json(life.folder.refuge_epoch)["nonce"]


def test_a_refuge_that_hung_is_left_alone(tmp_path):
    life = Life(tmp_path)
    life.save(1)
    life.order(skip=[str(life.tier)])
    life.turn()
    assert life.said() == [] and life.newest() is None


def test_the_best_by_the_checkpointers_own_index_stays(tmp_path):
    life = Life(tmp_path, best_metric="loss", keep=1)
    losses = {1: 0.5, 2: 0.1, 3: 0.9}
    for step in losses:
        life.save(step)
        listed = {str(one): {"metrics": {"loss": loss}} for one, loss in losses.items()}
        index = Path(life.folder.out("main")) / "ckpt/index.json"
        index.write_text(json.dumps({"checkpoints": listed}))
        life.turn(10_000)
    manifests = sorted((life.tier / "leasehold/refuge" / RUN / "cells/main/states").glob("*.json"))
    assert [int(one.name[:12]) for one in manifests] == [2, 3]
