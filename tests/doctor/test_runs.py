"""A real run that fails on this machine, brought to the doctor: its log, its exit code, its paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leasehold.shells.cli.main import main

JOB = "name: toy\nrun: python train.py\nartifacts: [out.json]\n"
SKIPS = [word for gate in ("smoke", "audit", "env", "launch") for word in ("--skip-gate", gate)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("LEASEHOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "lease.yaml").write_text(JOB)
    monkeypatch.chdir(folder)
    return folder


def run_and_ask(project: Path, script: str, capsys) -> tuple[int, dict]:
    (project / "train.py").write_text(script)
    assert main(["run", *SKIPS, "--because", "a test"]) == 6
    capsys.readouterr()
    code = main(["doctor", "toy", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_failed_run_is_diagnosed_from_its_own_log(project, capsys):
    script = "print('epoch 1 loss 0.5', flush=True)\nraise OSError(28, 'No space left on device')\n"
    code, seen = run_and_ask(project, script, capsys)
    first = seen["findings"][0]
    assert (code, first["id"], first["retry"]) == (1, "U6", False)
    log = Path(first["evidence"][0]["source"])
    assert log.read_text().splitlines()[first["evidence"][0]["line"] - 1].startswith("OSError: [Errno 28]")
    assert any(str(log.parent) in command for command in first["commands"])


def test_a_silent_death_is_told_from_its_exit_code(project, capsys):
    script = "import os\nprint('epoch 1', flush=True)\nos._exit(139)\n"
    code, seen = run_and_ask(project, script, capsys)
    first = seen["findings"][0]
    assert (code, first["id"], first["confidence"]) == (1, "U45", "likely")
    assert first["evidence"][0] == {"source": "exit code", "text": "139", "count": 1}
