"""Shell completion: every shell reads its script, and bash, zsh and fish really complete."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.front import LEASE, Front, front, program

JOB = "name: toy\nrun: 'true'\nartifacts: ['*.json']\n"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose PATH has `lease`, and who has one run."""
    with front(tmp_path) as person:
        command = " ".join(f"'{word}'" for word in LEASE)
        place = program(tmp_path, "lease", f'exec {command} "$@"\n')
        person.environment["PATH"] = f"{place}:{os.environ['PATH']}"
        person.write("lease.yaml", JOB)
        yield person


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here (Debian: apt-get install {shell})")


def shell(me: Front, *words: str) -> str:
    done = subprocess.run(
        words, cwd=me.project, env=me.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_can_read_its_script(me: Front, name: str) -> None:
    needs(name)
    done = me.lease("completion", name)
    assert (done.code, done.said) == (0, "")
    me.write("script", done.out)
    shell(me, name, "-n", "script")


def completed(me: Front, line: str) -> list[str]:
    """Let bash complete the last word of a line; a line that ends in a space asks for the next word."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
source <(lease completion bash)
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMPREPLY=()
_lease
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p lease
"""
    *found, registered = shell(me, "bash", "--norc", "-c", script).splitlines()
    assert registered == "complete -o filenames -F _lease lease"
    return found


@pytest.mark.parametrize(
    "line, expected",
    [
        ("lease sta", ["status"]),
        ("lease no", ["notify"]),
        ("lease --ver", ["--version"]),
        ("lease run --ski", ["--skip-gate"]),
        ("lease check au", ["audit"]),
        ("lease check smoke --k", ["--kill-check"]),
        ("lease notify a", ["add"]),
        ("lease box ad", ["add"]),
        ("lease box gp", ["gpu"]),
        ("lease box gpu --sam", ["--samples"]),
        ("lease gpu --sam", ["--samples"]),
        ("lease run cad", ["cadence"]),
        ("lease run cadence --int", ["--interrupted-every"]),
        ("lease run lease.yaml --ski", ["--skip-gate"]),
        ("lease down --pl", ["--plan"]),
        ("lease run lease.y", ["lease.yaml"]),
    ],
)
def test_bash_completes(me: Front, line: str, expected: list[str]) -> None:
    needs("bash")
    assert completed(me, line) == expected


def test_bash_completes_the_runs_of_this_home(me: Front) -> None:
    needs("bash")
    assert completed(me, "lease logs to") == [""]  # none yet, and no file of that name
    assert me.lease("run", "--detach", "--skip-gate", "launch", "--because", "it ends at once").code == 0
    assert completed(me, "lease logs to") == ["toy"]
    assert completed(me, "lease down to") == ["toy"]


def test_every_verb_is_offered_by_every_shell(me: Front) -> None:
    verbs = {word for word in completed(me, "lease ") if not word.startswith("-")}
    assert {"run", "init", "check", "attach", "tunnel", "notify", "status", "pull", "down", "box"} <= verbs
    for name in ("zsh", "fish"):
        script = me.lease("completion", name).out
        assert all(verb in script for verb in verbs)


def test_fish_completes(me: Front) -> None:
    needs("fish")
    me.environment["HOME"] = str(me.folder)
    lines = ("lease sta", "lease check --k", "lease box gp", "lease box gpu --sam", "lease gpu --sam", "lease run cade")
    asked = "; ".join(["lease completion fish | source", *(f"complete -C '{line}'" for line in lines)])
    words = [line.split("\t")[0] for line in shell(me, "fish", "--no-config", "-c", asked).splitlines()]
    assert words == ["status", "--kill-check", "gpu", "--samples", "--samples", "cadence"]


def test_zsh_completes(me: Front) -> None:
    needs("zsh")
    load = "autoload -U compinit && compinit -D -u; source <(lease completion zsh)"
    script = f"{load}; print $_comps[lease]; functions _lease >/dev/null"
    assert "_lease" in shell(me, "zsh", "-f", "-c", script)
