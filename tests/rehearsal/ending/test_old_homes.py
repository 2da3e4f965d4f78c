"""A home, a ledger, a box folder and a receipt of version 0.1 serve every command of this one."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front
from tests.support.lives import eventually

pytestmark = pytest.mark.full

HOMES = Path(__file__).resolve().parents[2] / "support" / "homes"
PLACE = Path("/tmp/leasehold-0.1")  # the paths in the old home's ledger and plans

TRAIN = """
import os, time
while not os.path.exists(GO):
    time.sleep(0.02)
with open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w") as file:
    file.write("1")
"""


@pytest.fixture
def old() -> Iterator[Front]:
    """Unpack the old home where it lay."""
    try:
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir(mode=0o700)
    except OSError as error:
        pytest.skip(f"no free {PLACE} here ({error})")
    try:
        with tarfile.open(HOMES / "leasehold-0.1.tgz") as packed:
            packed.extractall(PLACE.parent, filter="data")
        with front(PLACE, home="leasehold") as person:
            yield person
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)


def states(old: Front) -> dict[str, tuple[str, bool]]:
    rows = json.loads(old.lease("status", "--json").out)["runs"]
    return {row["run"].partition("-")[0]: (row["state"], bool(row["receipt"])) for row in rows}


def test_runs_of_version_0_1_are_verified_pulled_resumed_and_ended(old: Front) -> None:
    assert states(old) == {"home": ("finished", True), "owed": ("running", False), "halted": ("stopped", False)}
    assert old.lease("verify", "home").code == 0
    assert "attempt 1 exited" in old.lease("watch", "owed").said

    pulled = old.lease("pull", "owed")
    assert pulled.code == 0, pulled.said
    assert states(old)["owed"] == ("finished", True)

    assert old.lease("pull", "home").code == 0, "unpacking set the times of its files back to whole seconds"
    refused = old.lease("down", "local", "--rehearsal")
    assert refused.code == 3 and "halted-192e38ca56/main" in refused.said and "no waiver" in refused.said

    resumed = old.lease("resume", "halted")
    assert resumed.code == 0, resumed.said
    log = old.lease("logs", "halted").out
    assert "step 40/40" in log
    second = (next((old.home / "boxes/rehearsal/active").glob("halted-*")) / "cells/main/attempt-0002/log").read_text()
    assert int(second.split("starting at step ")[1].split()[0]) > 10, "it went on from what version 0.1 left"

    assert old.lease("pull", "halted").code == 0
    ended = old.lease("down", "local", "--rehearsal")
    assert ended.code == 0, ended.said
    assert not os.path.exists(old.home / "boxes/rehearsal/active")
    assert set(states(old).values()) == {("finished", True)}


def test_a_run_that_ended_unwatched_is_finished_once_it_was_pulled(tmp_path: Path) -> None:
    """The ledger's last word was `running`, and stayed so after the box was gone."""
    with front(tmp_path) as me:
        go = tmp_path / "go"
        me.write("train.py", TRAIN.replace("GO", repr(str(go))))
        me.job()
        begun = me.lease("run", "--rehearse", "--detach", "--skip-gate", "smoke", "--because", "it is about the end")
        assert begun.code == 0, begun.said
        go.touch()
        (run,) = (me.home / "boxes/rehearsal/active").glob("toy-*")
        assert eventually(lambda: json.loads((run / "status.json").read_text())["state"] == "finished")
        assert me.lease("pull", "toy").code == 0
        assert states(me)["toy"] == ("finished", True)
