"""A box whose disk is not there knows nothing of a run that this home saw at work on it: nothing begins at zero."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, Done, Front, front
from tests.support.lives import eventually
from tests.support.screens import Session

pytestmark = pytest.mark.real_ssh

_TRAIN = """
import json, os, time
out, go = os.environ["LEASE_OUT"], os.path.expanduser("~/go")
open(os.path.expanduser("~/starts"), "a").write("start\\n")
print("step 1/2 loss 0.5", flush=True)
while not os.path.exists(go):
    time.sleep(0.02)
json.dump({}, open(os.path.join(out, "result.json"), "w"))
"""


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path) as bed:
        yield bed


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    with front(tmp_path / "me", bed.environment) as person:
        person.write("train.py", _TRAIN)
        person.job()
        yield person


def run(me: Front, *words: str) -> Done:
    return me.lease("run", "--on", "ssh:box", *words, *NO_SMOKE)


def begun(me: Front, bed: SshBed) -> str:
    """Start the run and stop it: it is begun, and nothing of it is home."""
    done = run(me, "--detach", "--json")
    assert done.code == 0, done.said
    name = str(json.loads(done.out)["run"])
    stopped = me.lease("stop", name)
    assert stopped.code == 0, stopped.said
    assert eventually(lambda: not bed.leftovers())
    return name


def test_a_run_is_not_trained_from_zero_while_its_disk_is_away(me: Front, bed: SshBed) -> None:
    name = begun(me, bed)
    away = bed.root.with_name("unmounted")
    bed.root.rename(away)
    (bed.box.home / "go").touch()
    refused = run(me)
    assert refused.code == 3, refused.said
    assert f"{name} was at work on ssh:box" in refused.said and "it would begin at zero" in refused.said
    assert "another folder: box-id then" in refused.said and "lease run --again" in refused.said
    assert not (bed.root / "active" / name / "plan.json").exists()

    for child in sorted(bed.root.rglob("*"), reverse=True):
        child.rmdir() if child.is_dir() and not child.is_symlink() else child.unlink()
    bed.root.rmdir()
    away.rename(bed.root)
    done = run(me)
    assert done.code == 0, done.said
    assert "starting it again" in done.said


def test_a_new_lease_of_a_stopped_box_does_not_train_from_zero(me: Front, bed: SshBed) -> None:
    name = begun(me, bed)
    (event,) = me.events("lease_opened")
    lease = str(event["box"]).replace(":", "-") + "-1"
    bed.box.stop()
    Session(me, "unused").type(f"lease down {name} --stopped", ("type exactly", f"stopped {lease}"))
    away = bed.root.with_name("unmounted")
    bed.root.rename(away)
    bed.box.start()
    refused = run(me)
    assert refused.code == 3, refused.said
    assert f"{name} was at work on ssh:box" in refused.said and "another folder: box-id then" in refused.said
    assert not (bed.root / "active" / name / "plan.json").exists()
    (bed.box.home / "go").touch()
    again = run(me, "--again")
    assert again.code == 0 and "home and verified" in again.said, again.said


def test_a_run_whose_folder_is_gone_from_the_same_disk_is_named_too(me: Front, bed: SshBed) -> None:
    name = begun(me, bed)
    (bed.root / "active" / name).rename(bed.box.home / "taken")
    (bed.box.home / "go").touch()
    refused = run(me)
    assert refused.code == 3, refused.said
    assert "the folder is the same one" in refused.said and "only the run is gone from it" in refused.said
    again = run(me, "--again")
    assert again.code == 0, again.said
    assert "home and verified" in again.said
    assert f"{name}-1" in again.said


def test_a_run_that_is_home_is_not_trained_again_unasked(me: Front, bed: SshBed) -> None:
    (bed.box.home / "go").touch()
    assert run(me).code == 0
    starts = bed.box.home / "starts"
    before = starts.read_text()
    bed.root.rename(bed.root.with_name("unmounted"))
    refused = run(me)
    assert refused.code == 3, refused.said
    assert "its results are home already" in refused.said
    assert starts.read_text() == before


def test_a_box_shows_its_runs_to_a_home_that_lost_its_ledger(me: Front, bed: SshBed, tmp_path: Path) -> None:
    name = begun(me, bed)
    with front(tmp_path / "new", bed.environment) as new:
        added = new.lease("box", "add", "gpu1", "ssh box")
        assert added.code == 0, added.said
        shown = new.lease("box", "show", "gpu1")
        assert shown.code == 0, shown.said
        assert "none open in this home, though runs lie there" in shown.out
        assert f"{name} (stopped) in ~/.leasehold: not known to this home; lease attach {name} --on gpu1" in shown.out
        attached = new.lease("attach", name, "--on", "gpu1")
        assert f"{name} on gpu1 is now known here" in attached.said, attached.said
        value = json.loads(new.lease("box", "show", "gpu1", "--json").out)
        assert [(run["run"], bool(run["lease"]), run["attach"]) for run in value["found"]["runs"]] == [(name, True, "")]


def test_a_silent_box_is_shown_with_what_is_not_known(me: Front, bed: SshBed) -> None:
    assert me.lease("box", "add", "gpu1", "ssh box").code == 0
    assert "none found there" in me.lease("box", "show", "gpu1").out
    bed.box.stop()
    shown = me.lease("box", "show", "gpu1")
    assert shown.code == 0, shown.said
    assert "what lies there is unknown" in shown.out and "none found there" not in shown.out
