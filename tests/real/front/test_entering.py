"""`lease ssh` and `lease exec`: a person's own command on a box, and in a run's folder and environment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import Front, front
from tests.support.screens import Session

TRAIN = """
import json, os
json.dump({"x": 1}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[tuple[Front, SshBed]]:
    """Somebody whose run has ended on an ssh box."""
    with ssh_bed(tmp_path) as bed, front(tmp_path / "person", bed.environment) as someone:
        someone.write("train.py", TRAIN)
        someone.job(env={"FLAVOUR": "a 'b' $HOME"})
        done = someone.lease("run", "--on", "ssh:box")
        assert done.code == 0, done.said
        yield someone, bed


@pytest.mark.real_ssh
def test_exec_has_the_runs_folder_and_environment_and_passes_codes_on(person: tuple[Front, SshBed]) -> None:
    someone, bed = person
    run = someone.events("run_planned")[0]["run"]
    script = "import os, sys; print(os.getcwd(), os.environ['LEASE_RUN'], os.environ['FLAVOUR'], sys.argv[1:])"
    done = someone.lease("exec", "toy", "--", "python3", "-c", script, "--json", "a b", "'")
    assert done.code == 0, done.said
    work = (bed.root / "active" / run / "work" / "main").resolve()
    assert done.out == f"{work} {run} a 'b' $HOME {['--json', 'a b', chr(39)]!r}\n"
    assert someone.lease("exec", "toy", "--", "sh", "-c", "exit 7").code == 7
    assert someone.lease("exec", "toy", "--", "no-such-program").code == 127
    told = json.loads(someone.lease("exec", "toy", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3").out)
    assert (told["code"], told["stdout"], told["where"]) == (3, "out\n", run) and "err" in told["stderr"]
    wrong = someone.lease("exec", "toy", "--cell", "nope", "--", "true")
    assert wrong.code == 4 and "its cells: main" in wrong.said
    nothing = someone.lease("exec", "toy", "--", "env")
    assert "LEASE_ATTEMPT_ID=" not in nothing.out, "what stops the run must not end a person's own command"


@pytest.mark.real_ssh
def test_ssh_goes_to_the_box_or_to_the_runs_folder(person: tuple[Front, SshBed]) -> None:
    someone, bed = person
    run = someone.events("run_planned")[0]["run"]
    assert someone.lease("ssh", "ssh:box", "--", "echo $HOME; exit 5").out.strip() == str(bed.box.home)
    assert someone.lease("ssh", "ssh:box", "--", "exit 5").code == 5
    done = someone.lease("ssh", "toy", "--", "ls", "journal.jsonl", "&&", "pwd -P")
    assert done.out.split() == ["journal.jsonl", str((bed.root / "active" / run).resolve())], done
    unknown = someone.lease("ssh", "nowhere")
    assert unknown.code == 2 and "neither a run nor a box" in unknown.said


@pytest.mark.real_ssh
def test_a_shell_has_a_terminal(person: tuple[Front, SshBed]) -> None:
    someone, _ = person
    said = Session(someone, "unused").type("lease exec toy -- sh -c 'test -t 0 && echo a terminal in $LEASE_CELL'")
    assert "a terminal in main" in said


def test_on_this_machine_too(tmp_path: Path) -> None:
    with front(tmp_path) as someone:
        someone.write("train.py", TRAIN)
        someone.job()
        assert someone.lease("run").code == 0
        run = someone.runs_on_box()[0]
        assert someone.lease("exec", "toy", "--", "sh", "-c", "echo $LEASE_RUN").out.strip() == run
        assert someone.lease("ssh", "toy", "--", "pwd -P").out.strip().endswith(f"active/{run}")
