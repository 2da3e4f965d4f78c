"""A person whose LEASEHOLD_HOME lies in the project: their identical command means the same run."""

from __future__ import annotations

from pathlib import Path

from tests.support.front import front

_TRAIN = "import os\nprint('step', flush=True)\nopen(os.environ['LEASE_OUT'] + '/result.json', 'w').write('{}')\n"


def test_the_same_command_finds_the_same_run_and_the_home_stays_here(tmp_path: Path) -> None:
    with front(tmp_path, home="project/.state") as me:
        me.write("train.py", _TRAIN)
        me.job()
        first = me.lease("run")
        assert first.code == 0, first.said
        second = me.lease("run")
        assert second.code == 0, second.said
        assert "already home and verified" in second.said
        assert "the leasehold home lies in this project (.state/)" in me.lease("check", "audit").said
        (run,) = me.runs_on_box()
        assert not (me.box_root / "active" / run / "work" / "main" / ".state").exists()
