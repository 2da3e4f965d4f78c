"""Code that was not written for us: `lease init` drafts the job, `lease run` trains it, a kill -9 is gone on from.

Nothing is edited between init and the receipt. The projects lie in tests/support/unchanged.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.frameworks import python_with
from tests.support.front import Front, front
from tests.support.sweeps import until

pytestmark = pytest.mark.full

PROJECTS = Path(__file__).resolve().parents[2] / "support" / "unchanged"
# The project, what it needs, the line that shows a step, and what is whole once it can be gone on from.
STYLES = [
    ("plain_flags", "", r"^iter (\d+):", "ckpt.pkl"),
    ("plain_package", "", r"^step (\d+)/", "state.json"),
    ("nano", "torch", r"^iter (\d+):", "ckpt.pt"),
    ("package", "torch", r"^step (\d+)/", "last.pt"),
    ("classic", "torch", r"^Epoch: \[(\d+)\]", "checkpoint.pth.tar"),
    ("hf", "transformers", r"^  *\d+%\|.*?\| ([1-9]\d*)/", "checkpoint-*/trainer_state.json"),
    ("lightning", "lightning", r"^step (\d+) ", "lightning_logs/version_*/checkpoints/*.ckpt"),
    ("hydra", "hydra", r"^step (\d+) ", "checkpoints/*.ckpt"),
    ("accelerate", "accelerate", r"^step (\d+)/", "step_*/random_states_0.pkl"),
]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    with front(tmp_path) as made:
        yield made


def bring(person: Front, name: str, library: str) -> None:
    """Give the person a project, and a `python` that has what it needs."""
    python = Path(python_with(library))
    found = person.folder / "bin"
    found.mkdir()
    for word in ("python", "python3", "accelerate", "torchrun"):
        if (python.parent / word).exists():
            (found / word).symlink_to(python.parent / word)
    person.environment.update(
        PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}", HF_HUB_OFFLINE="1", ACCELERATE_USE_CPU="true"
    )
    person.project.rmdir()
    shutil.copytree(PROJECTS / name, person.project, ignore=shutil.ignore_patterns("__pycache__"))


def attempts(person: Front) -> list[Path]:
    return sorted(person.box_root.glob("active/*/cells/main/attempt-*"))


def steps(log: Path, line: str) -> list[int]:
    text = log.read_text(errors="replace").replace("\r", "\n")
    return [int(found[1]) for found in re.finditer(line, text, re.M)]


def kill_once_it_saved(person: Front, line: str, saved: str) -> int:
    """Wait for a checkpoint and for steps after it, then kill the whole trainer; return the last step seen."""
    (first,) = attempts(person)
    (out,) = person.box_root.glob("active/*/out/main")
    until(lambda: any(path.stat().st_size for path in out.glob(saved)), "a checkpoint is there", 120)
    seen = max(steps(first / "log", line))
    until(lambda: max(steps(first / "log", line)) > seen or attempts(person)[1:], "a later step")
    os.killpg(int(json.loads((first / "started.json").read_text())["pid"]), signal.SIGKILL)
    return max(steps(first / "log", line))


def receipt(person: Front) -> dict[str, Any]:
    (path,) = person.project.glob("lease-results/export/*/receipt.json")
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize(("name", "library", "line", "saved"), STYLES, ids=[style[0] for style in STYLES])
def test_the_drafted_job_trains_and_goes_on_after_a_kill(
    person: Front, name: str, library: str, line: str, saved: str
) -> None:
    bring(person, name, library)
    drafted = person.lease("init")
    assert drafted.code == 0, drafted.said
    begun = person.lease("run", "--on", "local", "--detach")
    assert begun.code == 0, begun.said + begun.out
    until(lambda: bool(attempts(person)) and (attempts(person)[0] / "started.json").exists(), "it started")
    reached = kill_once_it_saved(person, line, saved)
    done = person.lease("watch", "project")
    assert done.code == 0, done.said + done.out
    assert "attempt 2 began at" not in done.said, "it went on, whatever its bar was drawn at"
    assert person.lease("pull", "project").code == 0
    second = attempts(person)[1]
    again = steps(second / "log", line)
    assert 0 < again[0] <= reached + 1 and again[-1] > again[0], (again, reached)
    assert again[0] > min(steps(attempts(person)[0] / "log", line)), again
    assert "leasehold: the newest whole" in (second / "log").read_text()
    assert receipt(person)["files"], receipt(person)
    if name == "hf":
        loads_at_home(person)


def loads_at_home(person: Front) -> None:
    """Load the model and its tokenizer from the pulled folder, as their own library does it."""
    (home,) = person.project.glob("lease-results/export/*/cells/main")
    code = (
        "import sys; from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; "
        "M.from_pretrained(sys.argv[1]); print(len(T.from_pretrained(sys.argv[1])('a b')['input_ids']))"
    )
    environment = {**os.environ, **person.environment}
    asked = [python_with("transformers"), "-c", code, str(home)]
    loaded = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)
    assert loaded.returncode == 0 and int(loaded.stdout) > 0, loaded.stderr
