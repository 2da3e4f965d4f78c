"""The smoke at home finds what it would find on a box."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from leasehold.lifecycle.project.code_tree import read_tree
from leasehold.lifecycle.smoke.smoke import smoke
from leasehold.model.job.job import Artifact, Job

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
