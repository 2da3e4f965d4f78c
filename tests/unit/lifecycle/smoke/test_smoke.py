"""The smoke at home finds what it would find on a box."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from leasehold.lifecycle.project.code_tree import read_tree
from leasehold.lifecycle.smoke.smoke import smoke
from leasehold.lifecycle.smoke.smoke_lines import SmokeLines
from leasehold.model.job.job import Artifact, Job
from leasehold.model.run.note import Note

_TRAIN = "import os\nprint('loss 0.5')\nopen(os.environ['LEASE_OUT'] + '/m.json', 'w').write('{}')\n"


@pytest.mark.parametrize("has", ["python3", "python"])
@pytest.mark.parametrize("says", ["python3", "python"])
def test_a_job_may_say_either_name_of_python_whichever_this_machine_has(
    has: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / has).symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(_TRAIN)
    job = Job("toy", f"{says} train.py", (Artifact("m.json", "json"),), smoke=f"{says} train.py")
    before = sorted(os.listdir(tmp_path))
    verdict = smoke(job, read_tree(project), lambda note: None)
    assert verdict.passed, verdict
    assert sorted(os.listdir(tmp_path)) == before


def test_a_silent_smoke_shows_a_clock() -> None:
    now, seen = [0.0], list[Note]()
    lines = SmokeLines(seen.append, 600.0, lambda: now[0])
    lines.hear(b"step 1\n")
    for second in range(1, 26):
        now[0] = float(second)
        lines.tick()
    assert [note.text for note in seen] == ["step 1", "smoke: 10 s of at most 10 min", "smoke: 20 s of at most 10 min"]
