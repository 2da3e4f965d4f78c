"""A job written for a project that trains with numpy passes Leasehold's own smoke gate, unedited."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.start import draft, write_new
from leasehold.lifecycle.project.code_tree import read_tree
from leasehold.lifecycle.project.job_yaml import read_job
from leasehold.lifecycle.smoke.smoke import smoke

pytest.importorskip("numpy")

TRAINER = """
import argparse
import json
import os
from pathlib import Path

import numpy as np


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out_dir", default="out")
    parser.add_argument("--max_steps", type=int, default=10000)
    args = parser.parse_args()
    out = Path(args.out_dir)
    state = out / "state.npz"
    step = int(np.load(state)["step"]) if state.exists() else 0
    while step < args.max_steps:
        step += 1
        print(f"step {step}/{args.max_steps} loss {1 / step:.3f}", flush=True)
        np.savez(out / "tmp.npz", step=step)
        os.replace(out / "tmp.npz", state)
    with open(out / "metrics.json", "w") as file:
        json.dump({"steps": step}, file)


if __name__ == "__main__":
    main()
"""


def test_the_written_job_passes_its_own_smoke(project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    folder = project({"train.py": TRAINER})
    write_new(folder / "lease.yaml", draft(folder, look_at(folder)))
    job = read_job(folder / "lease.yaml")
    assert {artifact.pattern: artifact.loads for artifact in job.artifacts} == {
        "state.npz": "npz",
        "metrics.json": "json",
    }
    assert job.checkpoint.path == "state.npz"
    verdict = smoke(job, read_tree(folder), lambda note: None)
    assert verdict.passed, [finding.what for finding in verdict.against()]
