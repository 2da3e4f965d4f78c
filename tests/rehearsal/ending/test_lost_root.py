"""The disk with our folder is gone from a box that answers: giving up and closing need no `--root` that nobody has."""

from __future__ import annotations

from pathlib import Path

from tests.support.front import NO_SMOKE, Front
from tests.support.screens import Session


def test_waive_and_down_go_on_without_the_folder(me: Front, tmp_path: Path) -> None:
    root = tmp_path / "disk"
    me.job(run="exit 3", attempts=1)
    failed = me.lease("run", "--root", str(root), *NO_SMOKE)
    assert failed.code == 6, failed.said
    root.rename(tmp_path / "gone")
    root.write_text("nothing can be made here")
    run = me.events("run_planned")[0]["run"]
    said = Session(me, "unused").type("lease waive toy", ("type exactly", f"give up main of {run}"))
    assert "our folder there cannot be used" in said and "NOTHING was salvaged" in said
    plan = me.lease("down", "toy", "--plan")
    assert plan.code == 3, plan.said
    assert "what is on it is unknown" in plan.said and "--root" not in plan.said
