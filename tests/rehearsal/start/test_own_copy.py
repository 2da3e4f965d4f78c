"""A run trains its own copy of the code, whatever an install on the box points at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import Front, front

pytestmark = pytest.mark.full

SCRIPT = """
import json, os
import toylib
json.dump({"version": toylib.VERSION}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
print("step 1/1 loss 0.5 version", toylib.VERSION, flush=True)
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Front]:
    """Give a person with a package, its script in a folder, and a Python of their own that runs it."""
    with front(tmp_path) as made:
        made.write("toylib/__init__.py", "VERSION = 1\n")
        made.write("scripts/train.py", SCRIPT)
        made.write("pyproject.toml", '[project]\nname = "toylib"\nversion = "0"\n')
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
        made.environment["PATH"] = f"{tmp_path / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        yield made


def stray_install(person: Front) -> None:
    """Leave what `pip install -e .` of another run leaves: a path in the environment."""
    other = person.folder / "another-run"
    (other / "toylib").mkdir(parents=True)
    (other / "toylib" / "__init__.py").write_text("VERSION = 99\n")
    (packages,) = (person.folder / "env").glob("lib/python*/site-packages")
    (packages / "__editable__.toylib.pth").write_text(f"{other}\n")


def test_an_editable_install_in_setup_is_refused_with_what_to_write(person: Front) -> None:
    person.job(run="python scripts/train.py", setup="pip install -e .")
    done = person.lease("run", "--on", "local")
    assert done.code == 2
    assert "`pip install -e .` is editable: later runs would import this run's code" in done.said
    assert 'PYTHONPATH="$PWD:$PYTHONPATH"' in done.said
    assert not person.box_root.exists() or not list(person.box_root.glob("active/*"))


def test_an_editable_line_of_a_requirements_file_is_refused_on_the_box(person: Front) -> None:
    person.write("requirements.txt", "# needs\n-e .\n")
    person.job(run='PYTHONPATH="$PWD:$PYTHONPATH" python scripts/train.py', setup="pip install -r requirements.txt")
    done = person.lease("run", "--on", "local")
    assert done.code != 0
    (log,) = person.box_root.glob("active/*/cells/main/attempt-0001/log")
    assert "setup refused: `requirements.txt:2 -e .` is an editable install" in log.read_text()


def test_a_package_from_another_runs_folder_is_refused_before_it_trains(person: Front) -> None:
    stray_install(person)
    person.job(run="python scripts/train.py")
    done = person.lease("run", "--on", "local")
    assert done.code != 0, done.said
    assert "toylib would be imported from" in done.said and "another-run" in done.said
    assert "not from this run's own copy of the code" in done.said
    assert not list(person.box_root.glob("active/*/out/main/result.json"))


def test_with_the_path_the_run_imports_its_own_copy_and_the_gate_says_so(person: Front) -> None:
    stray_install(person)
    person.job(run='PYTHONPATH="$PWD:$PYTHONPATH" python scripts/train.py')
    done = person.lease("run", "--on", "local")
    assert done.code == 0, done.said
    (log,) = person.box_root.glob("active/*/cells/main/attempt-0001/log")
    assert "version 1" in log.read_text()
    (journal,) = person.box_root.glob("active/*/journal.jsonl")
    assert "toylib is imported from this run's own copy" in journal.read_text()


def test_the_drafted_job_needs_neither(person: Front) -> None:
    stray_install(person)
    script = SCRIPT.replace('os.environ["LEASE_OUT"], "result.json"', '"runs", "result.json"')
    person.write(
        "scripts/train.py",
        f"import os\nos.makedirs('runs', exist_ok=True)\n{script}\nif __name__ == '__main__':\n    pass\n",
    )
    drafted = person.lease("init")
    assert (
        drafted.code == 0
        and "pip install -e ." not in (person.project / "lease.yaml").read_text().split("artifacts")[1]
    )
    assert 'PYTHONPATH="$PWD:$PYTHONPATH" python scripts/train.py' in (person.project / "lease.yaml").read_text()


def test_a_smoke_that_writes_nothing_names_the_flag_that_delays_it(person: Front) -> None:
    code = (
        "import argparse, json, os\np = argparse.ArgumentParser()\np.add_argument('--steps', type=int, default=9)\n"
        "p.add_argument('--save-every', type=int, default=500)\nargs = p.parse_args()\n"
        "for step in range(1, args.steps + 1):\n    if step % args.save_every == 0:\n"
        "        json.dump({}, open(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w'))\n"
    )
    person.write("train.py", code)
    person.job(run="python train.py --steps 9", smoke="python train.py --steps 3")
    done = person.lease("run", "--on", "local")
    assert done.code != 0
    assert "result.json: promised, and the smoke did not write it" in done.said
    assert "--save-every (train.py:4) is 500 unless it is set, --save-every 2 would save early" in done.said
