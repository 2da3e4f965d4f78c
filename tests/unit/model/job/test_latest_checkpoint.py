"""`{{latest: …}}` and `resume:` in a job file: what a real sh then sees, with a checkpoint and without one."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from leasehold.errors import UserError
from leasehold.lifecycle.project.resolve import run_id
from leasehold.model.job.job import Job, job_from_dict
from leasehold.model.job.parse_job import parse_job

ODD = '/tmp/a b/it\'s "$x" `y` */epoch=0-step=7.ckpt'
SHELLS = [shell for shell in ("/bin/sh", "/bin/dash", "/bin/bash", "busybox") if shutil.which(shell)]


def job(run: str, resume: Any = None, **more: Any) -> Job:
    given = {"name": "toy", "run": run, "artifacts": {"a.json": "json"}, **more}
    return parse_job({**given, **({"resume": resume} if resume is not None else {})}, "lease.yaml")


def words(command: str, shell: str, **found: str) -> list[str]:
    """Let a shell say each word it would give the trainer."""
    start = [shell, "sh"] if shell == "busybox" else [shell]
    text = f"show() {{ printf '<%s>\\n' \"$@\"; }}; {command}"
    environ = {"PATH": "/usr/bin:/bin", "LEASE_OUT": "/out", "LEASE_LATEST": "", "LEASE_LATEST_2": "", **found}
    done = subprocess.run([*start, "-euc", text], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.removesuffix("\n").split("\n")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("flags", "seen"),
    [
        ("--resume_from_checkpoint {{latest}}", ["<--resume_from_checkpoint>", f"<{ODD}>"]),
        ("--init_from=resume", ["<--init_from=resume>"]),
        ("--resume={{latest}} --strict 'a b'", [f"<--resume={ODD}>", "<--strict>", "<a b>"]),
        ("\"ckpt_path='{{latest}}'\"", [f"<ckpt_path='{ODD}'>"]),
        ("--to {{out}}/x", ["<--to>", "</out/x>"]),
    ],
)
def test_flags_are_there_only_when_a_checkpoint_is(shell: str, flags: str, seen: list[str]) -> None:
    made = job("show train.py {{resume}} --last", {"when": "ckpt-*", "flags": flags})
    assert words(made.run, shell, LEASE_LATEST=ODD) == ["<train.py>", *seen, "<--last>"]
    assert words(made.run, shell) == ["<train.py>", "<--last>"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_path_alone_is_one_word_or_none(shell: str) -> None:
    made = job('show a {{latest: ckpt-*}} b --from={{latest:best.pt}} "x{{latest: ckpt-*}}"')
    assert made.latest == ("ckpt-*", "best.pt")
    both = words(made.run, shell, LEASE_LATEST=ODD, LEASE_LATEST_2="/b")
    assert both == ["<a>", f"<{ODD}>", "<b>", "<--from=/b>", f"<x{ODD}>"]
    assert words(made.run, shell) == ["<a>", "<b>", "<--from=>", "<x>"]


def test_the_pattern_belongs_to_what_a_run_is() -> None:
    flags = "--resume {{latest}}"
    one, other = (job("python t.py {{resume}}", {"when": when, "flags": flags}) for when in ("a-*", "b-*"))
    assert one.run == other.run and run_id(one, "t") != run_id(other, "t")
    assert job_from_dict(one.as_dict()) == one
    assert "latest" not in job("python t.py").as_dict()


@pytest.mark.parametrize(
    ("run", "resume", "said"),
    [
        ("python t.py", {"when": "a", "flags": "--x"}, "resume: has no place in `run`"),
        ("python t.py {{resume}}", None, "{{resume}} has no `resume:` that says what it is"),
        ("python t.py {{latest}}", None, "{{latest}} has no `resume:`"),
        ("python t.py '{{latest: a}}'", None, "is inside quotes"),
        ('python t.py "{{resume}}"', {"when": "a", "flags": "--x"}, "is inside quotes"),
        ("python t.py {{latest: ../a}}", None, "relative to $LEASE_OUT"),
        ("python t.py {{latest: }}", None, "relative to $LEASE_OUT"),
        ("python t.py {{resume}}", {"when": "/a", "flags": "--x"}, "resume.when"),
        ("python t.py {{resume}}", {"when": "a", "flags": "--x; rm -rf y"}, "resume.flags: hold ';'"),
        ("python t.py {{resume}}", {"when": "a", "flags": "--x $(id)"}, "resume.flags: hold '('"),
        ("python t.py {{resume}}", {"when": "a", "flags": "--x 'y"}, "resume.flags"),
        ("python t.py {{resume}}", {"when": "a", "flags": "{{resume}}"}, "is used in its own flags"),
        ("python t.py {{resume}}", {"when": "a"}, "resume.flags: must be a text"),
        ("python t.py {{resume}}", {"when": "a", "flag": "--x"}, "resume.flag: is not a key here"),
        ("python t.py {{resume}}", "--x", "resume: must say when and flags"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(run: str, resume: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        job(run, resume)
    assert said in caught.value.message
    assert caught.value.hint


def test_setup_and_artifacts_have_no_checkpoint() -> None:
    with pytest.raises(UserError, match="not a placeholder"):
        job("python t.py {{resume}}", {"when": "a", "flags": "--x"}, setup="echo {{resume}}")
    with pytest.raises(UserError, match="only filled in"):
        job("python t.py", artifacts={"{{latest: a}}": "json"})


def test_a_parameter_of_that_name_stays_the_parameter() -> None:
    made = job("python t.py {{resume}}", cells={"grid": {"resume": [1, 2]}})
    assert made.run == 'python t.py "${LEASE_PARAM_resume}"' and not made.latest
