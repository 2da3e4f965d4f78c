"""A box whose hardware fails: a move to another one goes on where this one stopped, and that is what we print."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.front import Front

pytestmark = pytest.mark.full  # each of these is several processes

TRAIN = """
import json, os, sys
out = os.environ["LEASE_OUT"]
at = os.path.join(out, "at")
last = int(open(at).read()) if os.path.exists(at) else 0
for n in range(last + 1, 7):
    print(f"step {n}/6", flush=True)
    open(at, "w").write(str(n))
    if n == 3 and not last:
        print("RuntimeError: CUDA error: uncorrectable ECC error encountered")
        sys.exit(1)
json.dump({"from": last}, open(os.path.join(out, "result.json"), "w"))
"""
MOVES = "continues it on another one, from its newest whole state"


@pytest.fixture
def me(me: Front) -> Front:
    """Give a person whose training broke on the first box, and who has a second one."""
    me.write("train.py", TRAIN)
    return me


def broken(me: Front, root: Path) -> tuple[str, str]:
    """Run on a box that breaks; return the run and what the screen said."""
    done = me.lease("run", "--root", str(root))
    assert done.code == 6, done.said
    (run,) = [path.name for path in (root / "active").iterdir()]
    return run, done.said


def test_leaving_a_box_is_advised_with_the_command(me: Front, tmp_path: Path) -> None:
    run, said = broken(me, tmp_path / "one")
    assert f"leave this box: lease move {run} --to BOX {MOVES}" in said


def test_the_doctor_advises_the_move(me: Front, tmp_path: Path) -> None:
    run, _ = broken(me, tmp_path / "one")
    (finding, *_) = json.loads(me.lease("doctor", run, "--json").out)["findings"]
    assert finding["class"] == "hardware"
    assert MOVES in finding["action"]


def test_what_a_broken_run_wrote_moves_though_its_job_names_no_checkpoint(me: Front, tmp_path: Path) -> None:
    run, _ = broken(me, tmp_path / "one")
    moved = me.lease("move", run, "--to", "local", "--root", str(tmp_path / "two"))
    assert moved.code == 0, moved.said
    assert "  | step 4/6" in moved.said and "  | step 1/6" not in moved.said
    assert "everything in $LEASE_OUT" in moved.said


def test_candidates_are_moved_to_without_being_asked(me: Front, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert me.lease("box", "add", name, "local", "--root", str(tmp_path / name)).code == 0
    me.job(candidates=["one", "two"])
    done = me.lease("run")
    assert done.code == 0, done.said
    assert "one broke; two is a candidate too" in done.said
    assert "  | step 4/6" in done.said


def test_another_box_starts_at_step_0(me: Front, tmp_path: Path) -> None:
    broken(me, tmp_path / "one")
    done = me.lease("run", "--root", str(tmp_path / "two"), "--again")
    assert done.code == 6 and "  | step 1/6" in done.said, done.said


def test_the_handbooks_copy_makes_another_box_go_on(me: Front, tmp_path: Path) -> None:
    run, _ = broken(me, tmp_path / "one")
    page = me.lease("handbook", run).out
    (block,) = re.findall(r"^```sh here, with OTHER filled in\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)
    copy, _, start = block.rpartition("\n")
    assert start == "lease run --on OTHER --again"
    here = copy.replace("ssh OTHER", "sh -c").replace("~/.leasehold", str(tmp_path / "two"))
    subprocess.run(["bash", "-euo", "pipefail", "-c", here], cwd=me.project, env=me.environment, check=True)
    done = me.lease("run", "--root", str(tmp_path / "two"), "--again")
    assert done.code == 0, (here, done.said)
    assert "  | step 4/6" in done.said and "  | step 1/6" not in done.said
