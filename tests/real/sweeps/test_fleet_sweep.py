"""A sweep over real ssh boxes: shared out, helped out, and moved when a box dies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.box_book import pasted
from tests.support.front import LEASE, ONE_SYSTEM, Front, fake_cards, front
from tests.support.screens import Session
from tests.support.sshd import SshBox
from tests.support.sweeps import TRAIN, add_boxes, results, running, said_by, standing, until, write_sweep

pytestmark = pytest.mark.real_ssh


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Give somebody with a project whose cells can be held at a gate."""
    with front(tmp_path / "person") as someone:
        yield someone


def _results(person: Front) -> dict[str, dict[str, Any]]:
    return {cell: found[-1] for cell, found in results(person).items()}


def test_cells_are_shared_out_and_each_is_run_once_and_comes_home(
    person: Front, new_ssh_box: Callable[..., SshBox]
) -> None:
    write_sweep(person, [{"name": f"c{n}", "n": n} for n in range(5)])
    on = add_boxes(person, {"a": new_ssh_box("a"), "b": new_ssh_box("b")})
    done = person.lease("run", "--on", on)
    assert done.code == 0, done.said
    assert sorted(_results(person)) == ["c0", "c1", "c2", "c3", "c4"]
    assert {cell["box"] for cell in standing(person).values()} == {"a", "b"}
    again = person.lease("run", "--on", on)
    assert again.code == 0, again.said
    assert "already home" in again.said, again.said


def test_edited_code_is_another_sweep_and_again_is_one_more(person: Front, new_ssh_box: Callable[..., SshBox]) -> None:
    write_sweep(person, [{"name": f"c{n}", "n": n} for n in range(2)])
    on = add_boxes(person, {"a": new_ssh_box("a"), "b": new_ssh_box("b")})
    assert person.lease("run", "--on", on).code == 0
    again = person.lease("run", "--on", on, "--again", "--json")
    assert again.code == 0, again.said
    person.write("train.py", TRAIN + "# edited\n")
    edited = person.lease("run", "--on", on, "--json")
    assert edited.code == 0, edited.said
    exports = (person.project / "lease-results" / "export").glob("sweep-*/cells/*/metrics.json")
    assert len(list(exports)) == 6
    assert json.loads(again.out)["sweep"].endswith("-1")
    assert not json.loads(edited.out)["sweep"].endswith("-1")


def test_a_multi_gpu_box_runs_a_cell_on_each_card(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    cards = fake_cards(tmp_path / "cards", "NVIDIA T4, 15360", "NVIDIA T4, 15360")
    gate = tmp_path / "gate"
    write_sweep(
        person, [{"name": f"c{n}", "n": n, "gate": str(gate)} for n in range(3)], resources={"gpu": {"count": 1}}
    )
    add_boxes(person, {"a": new_ssh_box("a", environment=cards)})
    assert person.lease("run", "--on", "a", "--detach", "--skip-gate", "env", "--because", "no torch").code == 0
    until(lambda: [c["word"] for c in standing(person).values()].count("running") == 2, "two cells side by side")
    gate.touch()
    done = person.lease("run", "--on", "a")
    assert done.code == 0, done.said
    assert {one["card"] for one in _results(person).values()} == {"0", "1"}


@pytest.mark.full
def test_a_box_that_has_nothing_left_takes_waiting_cells_from_the_last(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    # By its cost the first cell fills one box; by the clock it is done at once, and the other box is held up.
    cells = [{"name": "quick", "n": 0, "cost": 9}] + [
        {"name": f"slow{n}", "n": n, "cost": 3, **({"gate": str(gate)} if n == 0 else {})} for n in range(3)
    ]
    write_sweep(person, cells, cost="cost")
    on = add_boxes(person, {"a": new_ssh_box("a"), "b": new_ssh_box("b")})
    done = person.lease("run", "--on", on, "--detach")
    assert done.code == 0, done.said
    started = subprocess.Popen(
        [*LEASE, "run", "--on", on], cwd=person.project, env=person.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(
            lambda: len(_results(person)) >= 1 and sum(c["box"] == "a" for c in standing(person).values()) > 1, "moved"
        )
        gate.touch()
        said = started.communicate(timeout=60)[1]
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 0, said
    assert sorted(_results(person)) == ["quick", "slow0", "slow1", "slow2"]


@pytest.mark.full
def test_the_cells_of_a_box_that_dies_are_moved_and_nothing_is_lost(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    write_sweep(person, [{"name": f"c{n}", "n": n, "gate": str(gate)} for n in range(4)])
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    on = add_boxes(person, boxes)
    started = subprocess.Popen(
        [*LEASE, "run", "--on", on, "--move-after", "1s"], cwd=person.project, env=person.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(lambda: sum(cell["word"] == "running" for cell in standing(person).values()) == 2, "both at work")
        boxes["a"].__exit__(None, None, None)
        until(lambda: all(cell["box"] == "b" for cell in standing(person).values()), "moved")
        gate.touch()
        said = started.communicate(timeout=60)[1]
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 0, said
    assert sorted(_results(person)) == ["c0", "c1", "c2", "c3"]
    assert all(str(boxes["b"].home) == one["home"] for one in _results(person).values())
    os.sync()


@pytest.mark.parametrize("stopped", [False, True])
def test_the_cells_of_a_box_whose_disk_is_away_wait_for_it_and_are_named(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path, stopped: bool
) -> None:
    gate = tmp_path / "gate"
    write_sweep(person, [{"name": f"c{n}", "n": n, "gate": str(gate)} for n in range(2)])
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    on = add_boxes(person, boxes)
    assert person.lease("run", "--on", on, "--detach").code == 0
    (cell,) = [name for name, one in standing(person).items() if one["box"] == "a"]
    (run,) = [path.name for path in (boxes["a"].home / ".leasehold" / "active").iterdir()]
    assert person.lease("stop", run).code == 0
    gate.touch()
    if stopped:
        boxes["a"].stop()
        Session(person, "unused").type("lease down a --stopped", ("type exactly", "stopped a-1"))
        boxes["a"].start()
    root = boxes["a"].home / ".leasehold"
    away = root.rename(root.with_name("unmounted"))
    done = person.lease("run", "--on", on)
    assert done.code != 0 and f"a: knows nothing of {run}, which was at work there with {cell}:" in done.said
    assert cell not in _results(person)
    shutil.rmtree(root)
    away.rename(root)
    again = person.lease("run", "--on", on)
    assert again.code == 0 and "knows nothing" not in again.said, again.said
    assert sorted(_results(person)) == ["c0", "c1"]


def test_looking_again_opens_no_further_connection(new_ssh_box: Callable[..., SshBox], tmp_path: Path) -> None:
    cells = [{"name": f"c{n}", "n": n, "gate": str(tmp_path / "gate")} for n in range(3)]
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}

    with tempfile.TemporaryDirectory(prefix="lh-") as links, front(tmp_path / "me", {"LEASEHOLD_LINKS": links}) as me:
        write_sweep(me, cells)
        on = add_boxes(me, boxes)
        assert me.lease("run", "--on", on, "--detach").code == 0
        until(lambda: [one["word"] for one in standing(me).values()].count("running") == 2, "both boxes at work")
        before = [box.handshakes() for box in boxes.values()]
        words = sorted(one["word"] for one in standing(me).values())
        assert [box.handshakes() for box in boxes.values()] == before
        assert words == ["running", "running", "waiting"]
        (tmp_path / "gate").touch()
        assert me.lease("run", "--on", on).code == 0


_HELD = """
import json, os, time
print("cell", flush=True)
deadline = time.time() + 600
while os.path.exists(os.path.join(os.environ["HOME"], "hold")) and time.time() < deadline:
    time.sleep(0.05)
json.dump({"loss": 1}, open(os.path.join(os.environ["LEASE_OUT"], "metrics.json"), "w"))
"""


def test_the_plan_of_a_box_whose_cells_all_moved_away_says_where_they_are(
    person: Front, new_ssh_box: Callable[..., SshBox]
) -> None:
    boxes = {"a": new_ssh_box("a"), "b": new_ssh_box("b")}
    (boxes["a"].home / "hold").touch()
    write_sweep(person, [{"name": f"c{n}", "n": n} for n in range(4)])
    person.write("train.py", _HELD)
    on = add_boxes(person, boxes)
    assert person.lease("run", "--on", on, "--detach").code == 0
    boxes["a"].stop()
    assert person.lease("run", "--on", on, "--move-after", "1s").code == 0
    silent = person.lease("down", "a", "--plan")
    assert "2 cells (c0, c2) moved to b, which answers for them now (home there)" in silent.said, silent.said
    boxes["a"].start()
    assert person.lease("run", "--on", on).code == 0
    plan = person.lease("down", "a", "--plan", *ONE_SYSTEM)
    assert plan.code == 0, plan.said
    assert "moved to b, which answers for them now (home there); nothing of them is left here" in plan.said
    assert "no cells are left with a: other boxes have them" in person.lease("sweep", "status", "sweep").out
    assert person.lease("status", "--refresh").code == 0
    (run,) = {path.name for path in (boxes["a"].home / ".leasehold" / "active").glob("sweep-*")}
    assert f"Next: lease down {run}" in person.lease("status").said


def test_several_boxes_for_a_job_without_cells_are_refused(person: Front) -> None:
    person.job()
    done = person.lease("run", "--on", "a,b")
    assert done.code == 2
    assert "cells" in done.said


_SHARE = """
extends: generic-ssh
id: our-lab
title: the lab's servers
sources:
  wiki: {url: "https://wiki.example.org/gpu", verified: 2026-11, confidence: own}
tiers:
  - name: share
    path: %s
    roles: [durable]
    shared: true
    own_mount: false
    survives: {stop: yes, destroy: yes, balance_zero: yes}
    source: wiki
"""


def test_a_sweep_that_is_home_fails_until_it_is_on_the_durable_tier(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    share, mine = tmp_path / "share", tmp_path / "config"
    (mine / "leasehold" / "profiles").mkdir(parents=True)
    (mine / "leasehold" / "profiles" / "our-lab.yaml").write_text(_SHARE % share)
    share.mkdir()
    (share / "leasehold").write_text("a file stands where the copies go")
    person.environment["XDG_CONFIG_HOME"] = str(mine)
    write_sweep(person, [{"name": f"c{n}", "n": n} for n in range(2)])
    for name in ("a", "b"):
        added = person.lease("box", "add", name, pasted(new_ssh_box(name)), "--platform", "our-lab")
        assert added.code == 0, added.said
    done = person.lease("run", "--on", "a,b")
    assert done.code == 2, done.said
    assert "error[durable.not_copied]" in done.said
    assert sorted(_results(person)) == ["c0", "c1"]
    (share / "leasehold").unlink()
    again = person.lease("run", "--on", "a,b")
    assert again.code == 0, again.said
    assert len(list(share.glob("leasehold/export/*/cells/c*/metrics.json"))) == 2, again.said


def test_finished_cells_come_home_early_and_nothing_travels_twice(
    person: Front, new_ssh_box: Callable[..., SshBox], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    write_sweep(person, [{"name": "quick", "n": 0}, {"name": "slow", "n": 1, "gate": str(gate)}])
    on = add_boxes(person, {"a": new_ssh_box("a")})
    with running(person, "run", "--on", on, "--bring-after", "0s") as home:
        until(lambda: sorted(results(person)) == ["quick"], "the finished cell is home")
        until(lambda: person.events("receipt_written"), "and that is written down")
        until(lambda: standing(person)["slow"]["word"] == "running", "the other goes on")
        pulled = person.lease("pull", "sweep")
        assert pulled.code == 6, pulled.said
        assert "already home" in pulled.said and "no receipt" in pulled.said
        gate.touch()
        assert home.wait(60) == 0, said_by(home)
    assert sorted(results(person)) == ["quick", "slow"]
    fetched = person.events("receipt_written")
    assert [sorted(event["receipt"]["cells"]) for event in fetched] == [["quick"], ["quick", "slow"]]
    assert not list((person.project / "lease-results").glob("quarantine/*superseded*"))


def test_one_failed_cell_does_not_keep_its_boxs_others_from_coming_home(
    person: Front, new_ssh_box: Callable[..., SshBox]
) -> None:
    write_sweep(person, [{"name": "good", "n": 0}, {"name": "bad", "m": 1}], attempts=1)
    on = add_boxes(person, {"a": new_ssh_box("a")})
    done = person.lease("run", "--on", on)
    assert done.code == 6, done.said
    assert sorted(results(person)) == ["good"]
    assert {cell: one["word"] for cell, one in standing(person).items()} == {"good": "home", "bad": "failed"}
