"""`lease box disk` as a person types it: a real home folder, a real run, a real terminal for the yes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.process.locks import is_held
from tests.support.front import Front, Tmpfs, front
from tests.support.lives import eventually
from tests.support.screens import Session

MIB = 1 << 20
TRAIN = "import json, os\njson.dump({'loss': 1}, open(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w'))\n"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose home folder holds a pip cache, a model, a series of checkpoints and a data set."""
    home = tmp_path / "me"
    with front(tmp_path, {"HOME": str(home)}) as person:
        aged(home / ".cache" / "pip" / "http" / "a", 4)
        aged(home / ".cache" / "huggingface" / "hub" / "models--gpt2" / "blobs" / "x", 6)
        for step in (1, 2, 3):
            aged(home / "exp" / f"step_{step}.pt", 2, 9000 - step)
        aged(home / "exp" / "best.pt", 2)
        for folder, _, _ in os.walk(home, topdown=False):
            os.utime(folder, (time.time() - 9000, time.time() - 9000))
        person.write("train.py", TRAIN)
        person.job()
        yield person


def aged(path: Path, mib: int, age_s: float = 9000.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(mib * MIB))
    moment = time.time() - age_s
    os.utime(path, (moment, moment))


def survey(me: Front, *words: str, **more: Any) -> dict[str, Any]:
    done = me.lease("disk", "local", "--json", *words, **more)
    assert done.code == 0, done.said
    return dict(json.loads(done.out))


def targets(seen: dict[str, Any]) -> list[str]:
    return [os.path.basename(unit["path"]) for unit in seen["units"] if unit["target"]]


def ran(me: Front) -> str:
    """Run the job; return the run once its caretaker has left, for until then it is not to be removed."""
    assert me.lease("run").code == 0
    (run,) = me.runs_on_box()
    lock = str(me.box_root / "active" / run / "caretaker.lock")
    assert eventually(lambda: not is_held(lock)), "the caretaker stays"
    return run


def test_the_cheapest_to_get_back_goes_first_and_best_and_last_never(me: Front) -> None:
    seen = survey(me)
    assert seen["complete"]
    found = targets(seen)
    assert (found[:2], sorted(found[2:])) == (["pip", "models--gpt2"], ["step_1.pt", "step_2.pt"])
    why = {os.path.basename(unit["path"]): unit["why"] for unit in seen["units"]}
    assert "best" in why["best.pt"] and "newest" in why["step_3.pt"]


def test_so_much_is_picked_as_is_asked_for_and_the_rest_is_said(me: Front) -> None:
    assert [os.path.basename(path) for path in survey(me, "--free", "3MB", "--plan")["picked"]] == ["pip"]
    done = me.lease("disk", "local", "--free", "1TB", "--plan")
    assert "are still missing: ask for a disk larger by that" in done.out


def test_put_aside_brought_back_put_aside_and_deleted(me: Front, tmp_path: Path) -> None:
    pip, session = tmp_path / "me" / ".cache" / "pip", Session(me, "disk")
    shown = session.type("lease box disk local --free 3MB", ("type exactly", "quarantine 1 on local"))
    assert "this freed nothing yet" in shown and not pip.exists()
    stamp = re.findall(r"--undo (\S+)", shown)[-1]
    session.type(f"lease box disk local --undo {stamp}")
    assert (pip / "http" / "a").stat().st_size == 4 * MIB
    shown = session.type("lease box disk local --free 3MB", ("type exactly", "quarantine 1 on local"))
    stamp = re.findall(r"--undo (\S+)", shown)[-1]
    session.type(f"lease box disk local --empty-quarantine {stamp}", ("type exactly", f"delete {stamp} on local"))
    assert not pip.exists() and survey(me)["quarantines"] == []
    kinds = [event["kind"] for event in me.events() if event["kind"].startswith("disk_")]
    assert kinds == ["disk_quarantined", "disk_restored", "disk_quarantined", "disk_emptied"]


def test_another_word_than_the_phrase_does_nothing(me: Front, tmp_path: Path) -> None:
    Session(me, "disk").type("lease box disk local --free 3MB --delete", ("type exactly", "yes"), code=3)
    assert (tmp_path / "me" / ".cache" / "pip").exists()


def test_without_a_terminal_nothing_goes(me: Front, tmp_path: Path) -> None:
    done = me.lease("disk", "local", "--free", "3MB", "--delete", prefix=["setsid", "-w"])
    assert done.code == 3 and "approval.no_terminal" in done.said
    assert (tmp_path / "me" / ".cache" / "pip").exists()


def test_a_run_goes_only_once_it_is_home_and_never_after_it_changed(me: Front, tmp_path: Path) -> None:
    run = ran(me)
    assert run in targets(survey(me))
    (me.box_root / "active" / run / "out" / "main" / "result.json").write_text('{"loss": 2}')
    seen = survey(me)
    assert run not in targets(seen)
    (why,) = [unit["why"] for unit in seen["units"] if unit["path"].endswith(run)]
    assert "changed on the box since it was sealed" in why


def test_a_run_removed_after_its_receipt_does_not_block_the_teardown(me: Front) -> None:
    run = ran(me)
    plan = json.loads(me.lease("down", run, "--plan", "--json").out)
    session = Session(me, "disk")
    session.type("lease box disk local --free 1TB --delete", ("type exactly", "delete 5 on local"))
    assert me.runs_on_box() == []
    after = json.loads(me.lease("down", run, "--plan", "--json").out)
    assert after["gate"]["outcome"] == plan["gate"]["outcome"] == "passed"
    shutil.rmtree(me.project / "lease-results")
    assert json.loads(me.lease("down", run, "--plan", "--json").out)["gate"]["outcome"] == "refused"


def test_a_run_that_this_home_does_not_know_stays(me: Front, tmp_path: Path) -> None:
    assert me.lease("run").code == 0
    (run,) = me.runs_on_box()
    os.rename(me.box_root / "active" / run, me.box_root / "active" / "stranger-1")
    seen = survey(me)
    assert not {run, "stranger-1"} & set(targets(seen))


FULL = """import os, sys, time
from leasehold.caretaker.disk import quarantine
from leasehold.caretaker.disk.walk import Bounds, Walk
from leasehold.caretaker.wire.connection import Refused
place = sys.argv[1]
os.makedirs(place + "/cache/pip")
open(place + "/cache/pip/a", "wb").write(bytes(100_000))
for number in range(1000):
    try:
        open("%s/cache/pip/%d" % (place, number), "wb").close()
    except OSError:
        break
walk = Walk("/no/root", {place + "/cache/pip": "cache.pip"}, Bounds(time.monotonic() + 60, 1, 1), lambda value: None)
walk.run(place + "/cache/pip")
class Asked:
    root = place
    args = {"targets": [unit.as_dict() for unit in walk.tally.units()]}
    def reply(self, value): print(value)
try:
    quarantine.take(Asked())
except Refused as refused:
    print(refused.code, refused)
assert os.path.exists(place + "/cache/pip/a")
Asked.args["delete"] = True
quarantine.take(Asked())
assert not os.path.exists(place + "/cache/pip")
"""


@pytest.mark.namespaces
def test_a_disk_without_an_inode_for_the_list_still_allows_deletion(me: Front, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    words = Tmpfs(tmp_path / "disk", "size=1m,nr_inodes=20").words()
    done = subprocess.run(
        [*words, sys.executable, "-c", FULL, str(tmp_path / "disk")],
        env=me.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "disk.no_quarantine" in done.stdout and "--delete removes without quarantine" in done.stdout
