"""A stopped run and a folder that has changed since: nothing starts at zero unsaid, and `lease resume` goes on."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front
from tests.support.lives import eventually

pytestmark = pytest.mark.full  # each test is several launches

# Saves a checkpoint at every step; says which version of itself it is; ends when the gate is there.
TRAIN = """
import json, os, time
out, state = os.environ["LEASE_OUT"], os.path.join(os.environ["LEASE_OUT"], "state.json")
step = json.load(open(state))["step"] if os.path.exists(state) else 0
print("version one, step %d/1000 loss 0.5" % step, flush=True)
while not os.path.exists(GATE):
    step += 1
    print("step %d/1000 loss 0.5" % step, flush=True)
    with open(state + ".tmp", "w") as file:
        json.dump({"step": step}, file)
    os.replace(state + ".tmp", state)
    time.sleep(0.02)
json.dump({"from": step}, open(os.path.join(out, "result.json"), "w"))
"""


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person with a job that was stopped after a few steps."""
    with front(tmp_path) as person:
        person.write("train.py", TRAIN.replace("GATE", repr(str(tmp_path / "gate"))))
        person.write("NOTES.md", "first thoughts")
        person.job(checkpoint={"path": "state.json"})
        begun = person.lease("run", "--detach")
        assert begun.code == 0, begun.said
        assert eventually(lambda: step_of(person, 0) > 3), begun.said
        stopped = person.lease("stop", "toy")
        assert stopped.code == 0, stopped.said
        yield person
        (tmp_path / "gate").touch()


def step_of(person: Front, run: int) -> int:
    """Read how far a run on the box is, by its checkpoint."""
    runs = person.runs_on_box()
    try:
        place = person.box_root / "active" / runs[run] / "out" / "main" / "state.json"
        return int(json.loads(place.read_text())["step"])
    except (OSError, ValueError, IndexError):
        return -1


def log_of(person: Front, run: str, attempt: int) -> str:
    return (person.box_root / "active" / run / "cells" / "main" / f"attempt-{attempt:04d}" / "log").read_text()


def finish(person: Front) -> None:
    (person.folder / "gate").touch()


def change_code(person: Front) -> None:
    text = (person.project / "train.py").read_text()
    person.write("train.py", text.replace("version one", "version two"))


def test_changed_code_does_not_start_at_zero_beside_a_stopped_run_unsaid(me: Front) -> None:
    (run,) = me.runs_on_box()
    change_code(me)
    me.write("extra.py", "x = 1\n")
    again = me.lease("run", "--detach")
    assert again.code == 3, again.said
    assert me.runs_on_box() == [run], "nothing new was started"
    assert "error[run.changed]" in again.said
    assert "train.py" in again.said and "extra.py" in again.said and "NOTES.md" not in again.said
    assert f"lease resume {run}" in again.said and "lease run --again" in again.said
    seen = json.loads(me.lease("run", "--detach", "--json").out)
    assert seen["error"]["code"] == "run.changed", seen

    anew = me.lease("run", "--detach", "--again")
    assert anew.code == 0, anew.said
    (new,) = set(me.runs_on_box()) - {run}
    assert eventually(lambda: "version two, step 0/1000" in log_of(me, new, 1))
    assert me.lease("run", "--detach").code == 0, "the identical command now means the new run"
    assert len(me.runs_on_box()) == 2


def test_resume_goes_on_with_the_stored_code_whatever_the_folder_holds(me: Front) -> None:
    (run,) = me.runs_on_box()
    reached = step_of(me, 0)
    change_code(me)
    me.job(run="python3 -I -S other.py")
    finish(me)
    done = me.lease("resume", run)
    assert done.code == 0, done.said
    assert me.runs_on_box() == [run]
    assert f"version one, step {reached}/1000" in log_of(me, run, 2)
    assert (me.project / "lease-results" / "export" / run / "receipt.json").exists()


def test_resume_needs_nothing_of_the_project(me: Front) -> None:
    (run,) = me.runs_on_box()
    for name in ("train.py", "lease.yaml", "NOTES.md"):
        (me.project / name).unlink()
    finish(me)
    done = me.lease("resume", "toy")
    assert done.code == 0, done.said
    assert "version one" in log_of(me, run, 2)


def test_notes_images_and_other_jobs_make_no_other_run(me: Front) -> None:
    (run,) = me.runs_on_box()
    me.write("NOTES.md", "second thoughts")
    me.write("figures/loss.png", "not really")
    me.write("other.yaml", "name: other\nrun: python3 other.py\nartifacts: [x.json]\n")
    again = me.lease("run", "--detach")
    assert again.code == 0, again.said
    assert me.runs_on_box() == [run]
    assert "NOTES.md" in again.said, "what changed and does not count is named"
    assert eventually(lambda: os.path.exists(me.box_root / "active" / run / "cells" / "main" / "attempt-0002" / "log"))


def test_a_config_beside_the_code_still_makes_another_run(me: Front) -> None:
    me.write("config.yaml", "name: resnet\nrun: 3\n")
    again = me.lease("run", "--detach")
    assert again.code == 3 and "config.yaml" in again.said, again.said


def test_leaseignore_says_it_both_ways(me: Front) -> None:
    (run,) = me.runs_on_box()
    me.write("big.py", "x = 1\n")
    me.write("NOTES.md", "second thoughts")
    me.write(".leaseignore", "big.py\n!NOTES.md\n")
    refused = me.lease("run", "--detach")
    assert refused.code == 3, refused.said
    assert "NOTES.md" in refused.said and "big.py" not in refused.said
    me.write(".leaseignore", "big.py\n")
    again = me.lease("run", "--detach")
    assert again.code == 0, again.said
    assert me.runs_on_box() == [run]


def test_a_changed_job_is_named_as_what_changed(me: Front) -> None:
    (run,) = me.runs_on_box()
    me.job(checkpoint={"path": "state.json"}, env={"LR": "0.1"})
    again = me.lease("run", "--detach")
    assert again.code == 3 and "lease.yaml: env" in again.said, again.said
    assert me.runs_on_box() == [run]


def test_a_run_that_left_nothing_does_not_stand_in_the_way(tmp_path: Path) -> None:
    with front(tmp_path) as person:
        person.write("train.py", "raise SystemExit('no such module')\n")
        person.job(attempts=1)
        assert person.lease("run").code == 6
        person.write(
            "train.py", "import os\nopen(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w').write('1')\n"
        )
        done = person.lease("run")
        assert done.code == 0, done.said
        assert "train.py" in done.said and "lease resume" not in done.said


def test_resume_of_what_runs_or_has_finished_says_so(me: Front) -> None:
    (run,) = me.runs_on_box()
    assert me.lease("resume", run, "--detach").code == 0
    attached = me.lease("resume", run, "--detach")
    assert attached.code == 0, attached.said
    assert "already there, attached" in attached.said
    finish(me)
    assert me.lease("watch", run).code == 0
    over = me.lease("resume", run)
    assert over.code == 2 and "error[run.finished]" in over.said and f"lease pull {run}" in over.said, over.said


def test_the_code_and_what_git_said_of_it_lie_beside_the_results(me: Front) -> None:
    (run,) = me.runs_on_box()
    finish(me)
    change_code(me)
    assert me.lease("resume", run).code == 0
    export = me.project / "lease-results" / "export" / run
    facts = json.loads((export / "run.json").read_text())
    assert facts["git"] is None, "this project is no repository"
    with tarfile.open(export / facts["code"]) as kept:
        text = kept.extractfile("train.py").read().decode()
    assert "version one" in text, "as it was when the run began"


def test_commit_branch_and_changed_files_are_kept_with_a_run(tmp_path: Path) -> None:
    with front(tmp_path) as person:
        person.write(
            "train.py", "import os\nopen(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w').write('1')\n"
        )
        person.job()
        commit = _repository(person)
        person.write("train.py", (person.project / "train.py").read_text() + "# edited\n")
        assert person.lease("run").code == 0
        (path,) = person.project.glob("lease-results/export/*/run.json")
        assert json.loads(path.read_text())["git"] == {"commit": commit, "branch": "trunk", "dirty": True}


def _repository(person: Front) -> str:
    """Make the project a repository with one commit; return that."""

    def git(*words: str) -> str:
        asked = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", *words]
        return subprocess.run(asked, cwd=person.project, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "trunk")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    return git("rev-parse", "HEAD")
