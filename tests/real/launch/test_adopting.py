"""Training that was started without us, on a box behind a real sshd: found, watched, brought home, never started."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.run.lock_owner import caretaker_identity
from leasehold.caretaker.run.run_folder import RunFolder
from tests.support.beds import SshBed, ssh_bed
from tests.support.front import ONE_SYSTEM, Front, front

pytestmark = [pytest.mark.full, pytest.mark.real_ssh]

TRAIN = """
import json, os, time
os.makedirs("exp/out", exist_ok=True)
open("exp/out/last.ckpt", "wb").write(b"w" * 9)
print("step 1/2 loss 0.5", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
print("step 2/2 loss 0.1", flush=True)
json.dump({"loss": 0.1}, open("exp/out/result.json", "w"))
"""


class Stranger:
    """Somebody who typed `nohup python train.py &` on the box."""

    def __init__(self, bed: SshBed, me: Front) -> None:
        self.bed, self.me = bed, me
        self.place = bed.box.home / "my exp"
        self.place.mkdir()
        (self.place / "train.py").write_text(TRAIN)
        go = f"cd {shlex.quote(str(self.place))}; nohup python3 train.py > log.txt 2>&1 < /dev/null & echo $!"
        asked = [*bed.box.ssh_command, "box", go]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
        self.wait(lambda: "step 1" in (self.place / "log.txt").read_text())
        assert said.stdout.strip().isdigit()

    def wait(self, true: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 60
        while not true():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def found(self) -> list[dict[str, Any]]:
        done = self.me.lease("adopt", "ssh:box", "--young", "0", "--json")
        assert done.code == 0, done.said
        return [one for one in json.loads(done.out)["candidates"] if one["cwd"] == str(self.place)]

    def adopt(self, *more: str) -> str:
        (one,) = self.found()
        words = ("--pid", str(one["pid"]), "--artifact", "result.json", "--price", "1USD/h", *more)
        done = self.me.lease("adopt", "ssh:box", *words, "--json")
        assert done.code == 0, done.said
        return str(json.loads(done.out)["run"])

    def kinds(self, run: str) -> list[str]:
        lines = (self.bed.root / "active" / run / "journal.jsonl").read_text().splitlines()
        return [json.loads(line)["k"] for line in lines]

    def state(self, run: str) -> str:
        return str(json.loads((self.bed.root / "active" / run / "status.json").read_text())["state"])


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    with ssh_bed(tmp_path / "far") as bed, front(tmp_path, bed.environment) as me:
        yield Stranger(bed, me)


def test_it_is_found_with_its_log_its_folder_and_what_it_writes(stranger: Stranger) -> None:
    (one,) = stranger.found()
    assert "train.py" in one["command"]
    assert one["log"] == str(stranger.place / "log.txt")
    assert one["out"] == str(stranger.place / "exp" / "out"), "weights were written there"
    said = stranger.me.lease("adopt", "ssh:box", "--young", "0")
    assert f"pid {one['pid']}" in said.out and "lease adopt ssh:box --pid " in said.said
    assert stranger.me.events("run_planned") == [], "looking changes nothing"


def test_it_is_watched_and_comes_home_though_the_caretaker_was_killed(
    stranger: Stranger,
) -> None:
    run = stranger.adopt()
    stranger.wait(lambda: "attempt_started" in stranger.kinds(run))
    who = caretaker_identity(RunFolder(str(stranger.bed.root / "active" / run)))
    assert who is not None
    os.kill(int(who[0]), signal.SIGKILL)
    assert "step 1/2" in stranger.me.lease("logs", run).out, "its log is read where it lies"
    (stranger.place / "go").touch()
    stranger.wait(lambda: stranger.state(run) == "finished")
    assert stranger.kinds(run).count("attempt_starting") == 1
    pulled = stranger.me.lease("pull", run)
    assert pulled.code == 0, pulled.said
    (home,) = (stranger.me.project / "lease-results" / "export").rglob("result.json")
    assert json.loads(home.read_text()) == {"loss": 0.1}
    plan = stranger.me.lease("down", run, "--plan", *ONE_SYSTEM)
    assert plan.code == 0 and "gate: passed" in plan.said, plan.said


def test_one_that_dies_without_results_has_failed_and_is_not_restarted(stranger: Stranger) -> None:
    (one,) = stranger.found()
    run = stranger.adopt("--name", "exp")
    assert run.startswith("exp-")
    stranger.wait(lambda: "attempt_started" in stranger.kinds(run))
    os.kill(one["pid"], signal.SIGKILL)
    stranger.wait(lambda: stranger.state(run) == "failed")
    assert stranger.kinds(run).count("attempt_started") == 1
    reason = json.loads((stranger.bed.root / "active" / run / "status.json").read_text())["reason"]
    assert "signal 9" in reason or "result.json" in reason, "how it ended was seen, or its results were missed"
    assert stranger.found() == []


def test_the_plan_gate_warns_by_the_folder_that_it_writes_to(stranger: Stranger) -> None:
    me, (one,) = stranger.me, stranger.found()
    added = me.lease(
        "box", "add", "gpu1", "box", "--platform", "featurize", "--root", "/home/featurize/leasehold", "--no-contact"
    )
    assert added.code == 0, added.said
    root = ("--root", str(stranger.bed.root))
    done = me.lease("adopt", "gpu1", "--pid", str(one["pid"]), "--artifact", "result.json", *root)
    assert done.code == 0, done.said
    assert f"{stranger.place}/exp/out is on no tier that the profile of featurize names" in done.said
    assert me.gates()["plan"] == "unknown"


def test_a_person_may_stop_it(stranger: Stranger) -> None:
    run = stranger.adopt()
    stranger.wait(lambda: "attempt_started" in stranger.kinds(run))
    assert stranger.me.lease("stop", run, "--grace", "5").code == 0
    assert stranger.found() == []
    assert (stranger.place / "exp" / "out" / "last.ckpt").read_bytes() == b"w" * 9


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--pid", "1", "--artifact", "x"), "adopt.unknown"),
        (("--pid", "PID"), "adopt.no_promise"),
        (("--pid", "PID", "--artifact", "x", "--out", "/nowhere/at/all"), "adopt.no_folder"),
    ],
)
def test_what_cannot_be_adopted_is_refused_with_a_reason(stranger: Stranger, words: tuple[str, ...], code: str) -> None:
    (one,) = stranger.found()
    asked = [str(one["pid"]) if word == "PID" else word for word in words]
    done = stranger.me.lease("adopt", "ssh:box", *asked)
    assert done.code != 0 and f"error[{code}]" in done.said, done.said
    assert stranger.found() != []
