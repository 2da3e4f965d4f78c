"""Boxes without comforts: the whole life of a run, receipt included, on every box that somebody rents out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.bare_box import bare_bed, hide, our_python, program, small_tmp, stands_for
from tests.support.lives import Life, check_home, check_journal, check_trainers

pytestmark = [pytest.mark.real_ssh, pytest.mark.namespaces]

USUAL = "/usr/local/bin:/usr/bin:/bin"
NO_PYTHON = hide("python3", "python", "pypy3")


@dataclass(frozen=True)
class Want:
    """What a box lacks or does: how it is made, what lies in its home, what the job must then say."""

    options: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    home: str = "home"
    job: dict[str, Any] = field(default_factory=dict)
    programs: Callable[[Path], Path] | None = None  # written into a folder that comes first on the PATH
    run: tuple[str, ...] = ()  # further words of `lease run`
    root: str = ""  # our folder, where it is not the usual one


def python_as(**names: str) -> Callable[[Path], Path]:
    return lambda folder: stands_for(folder, **names)


def old_python(folder: Path) -> Path:
    program(folder, "python3", "echo 'Python 2.7.18: SyntaxError: invalid syntax' >&2; exit 1\n")
    return stands_for(folder, python=our_python())


NOISE = "printf 'Welcome!\\n'; printf 'to stderr\\n' >&2; printf 'no newline: '"
MEGABYTES = "head -c 5000000 /dev/zero | tr '\\0' 'x'; head -c 3000000 /dev/urandom; head -c 3000000 /dev/urandom >&2"
HEAVY = """
echo starting up; sleep 0.7
alias python3=false python=false sh=false exec=false mkdir=false
export PYTHONHOME=/nowhere PYTHONPATH=/nowhere PYTHONSTARTUP=/nowhere CDPATH=/
set -e
set -o noclobber
cd /
"""

WANTS: dict[str, Want] = {
    "fish": Want({"shell": "/usr/bin/fish"}, files={".config/fish/config.fish": "echo welcome\n"}),
    "csh": Want({"shell": "/bin/csh"}, files={".cshrc": "echo welcome\nalias sh false\nset noclobber\n"}),
    "tcsh": Want({"shell": "/bin/tcsh"}, files={".tcshrc": "echo welcome\nset histchars\n"}),
    "zsh": Want({"shell": "/usr/bin/zsh"}, files={".zshenv": "echo welcome; setopt nomatch\n"}),
    "dash": Want({"shell": "/usr/bin/dash"}),
    "busybox": Want({"shell": "/bin/sh", "mounts": 'mount --bind "$(command -v busybox)" "$(readlink -f /bin/sh)"'}),
    "noise": Want(files={".bashrc": NOISE}),
    "megabytes-of-noise": Want(files={".bashrc": MEGABYTES}),
    "heavy-bashrc": Want(files={".bashrc": HEAVY}),
    "no-tmux-no-rsync": Want({"mounts": hide("tmux", "rsync", "setsid", "systemd-run")}),
    "python-but-no-python3": Want({"mounts": NO_PYTHON}, programs=python_as(python=our_python())),
    "only-a-python-of-3.9": Want({"mounts": hide("python3", "python")}, {"LC_ALL": "C"}),
    "old-python-first": Want(programs=old_python, job={"run": "exec python -I -S train.py"}),
    "no-sftp": Want({"server": ["Subsystem sftp /bin/false"]}),
    "odd-home": Want(home="it's a \"home\" 中文 $x"),
    "full-tmp": Want({"mounts": small_tmp("size=64k", "head -c 65536 /dev/zero >/tmp/x 2>/dev/null || :")}),
    "no-inodes-in-tmp": Want({"mounts": small_tmp("nr_inodes=20", "for n in $(seq 20); do touch /tmp/$n 2>/dev/null || :; done")}),
    "tmpdir-nowhere": Want(environment={"TMPDIR": "/nowhere", "TMUX_TMPDIR": "/nowhere"}),
    "noexec-home": Want({"mounts": 'mount --bind "$HOME_THERE" "$HOME_THERE"; mount -o remount,bind,noexec "$HOME_THERE"; ' + NO_PYTHON},
                        programs=python_as(python=our_python())),  # fmt: skip
    "umask-077": Want(files={".bashrc": "umask 077\n"}),
    "umask-000": Want(files={".bashrc": "umask 000\n"}),
    "few-open-files": Want(files={".bashrc": "ulimit -n 32\n"}),
    "lang-c": Want(environment={"LC_ALL": "C", "LANG": "C"}, home="训练"),
}


@pytest.mark.parametrize("want", list(WANTS.values()), ids=list(WANTS))
def test_a_run_is_launched_watched_and_brought_home(want: Want, tmp_path: Path) -> None:
    home = tmp_path / want.home
    for name, text in want.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    environment = dict(want.environment)
    if want.programs:
        environment["PATH"] = f"{want.programs(tmp_path / 'bin')}:{USUAL}"
    with bare_bed(tmp_path, environment, home=home, **want.options) as bed:
        life = Life(bed, tmp_path / "life", want.job)
        try:
            assert life.run(*want.run).wait() == 0, life.explain()
            assert life.lease("status", "--refresh", "--json").wait() == 0, life.explain()
        finally:
            life.close()
        check_home(life)
        check_trainers(life)
        check_journal(life)
