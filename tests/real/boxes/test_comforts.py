"""Boxes without comforts: the whole life of a run, receipt included, on every box that somebody rents out."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.bare_box import bare_bed, hide, our_python, program, small_tmp, stands_for
from tests.support.front import front
from tests.support.lives import Life, check_home, check_journal, check_trainers

pytestmark = pytest.mark.containers  # root, namespaces and overlays, a real sshd

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

NOEXEC = 'mount --bind "$HOME_THERE" "$HOME_THERE"; mount -o remount,bind,noexec "$HOME_THERE"'

WANTS: dict[str, Want] = {
    "fish": Want({"shell": "/usr/bin/fish"}, files={".config/fish/config.fish": "echo welcome\n"}),
    "csh": Want({"shell": "/bin/csh"}, files={".cshrc": "echo welcome\nalias sh false\nset noclobber\n"}),
    "tcsh": Want({"shell": "/bin/tcsh"}, files={".tcshrc": "echo welcome\nset histchars\n"}),
    "zsh": Want({"shell": "/usr/bin/zsh"}, files={".zshenv": "echo welcome; setopt nomatch\n"}),
    "dash": Want({"shell": "/usr/bin/dash"}),
    "busybox": Want({"shell": "/bin/sh", "mounts": 'mount --bind /bin/busybox "$(readlink -f /bin/sh)"'}),
    "noise": Want(files={".bashrc": NOISE}),
    "megabytes-of-noise": Want(files={".bashrc": MEGABYTES}),
    "heavy-bashrc": Want(files={".bashrc": HEAVY}),
    "no-tmux-no-rsync": Want({"mounts": hide("tmux", "rsync", "setsid", "systemd-run")}),
    "python-but-no-python3": Want({"mounts": NO_PYTHON}, programs=python_as(python=our_python())),
    "only-a-python-of-3.9": Want({"mounts": hide("python3", "python")}, {"LC_ALL": "C"}),
    "old-python-first": Want(programs=old_python, job={"run": "exec python -I -S train.py"}),
    "no-sftp": Want({"server": ["Subsystem sftp /bin/false"]}),
    "odd-home": Want(home='it\'s a "home" 中文 $x'),
    "full-tmp": Want({"mounts": small_tmp("size=64k", "head -c 65536 /dev/zero >/tmp/x 2>/dev/null || :")}),
    "no-inodes-in-tmp": Want({"mounts": small_tmp("nr_inodes=20", "touch $(seq -f /tmp/%g 20) 2>/dev/null || :")}),
    "tmpdir-nowhere": Want(environment={"TMPDIR": "/nowhere", "TMUX_TMPDIR": "/nowhere"}),
    "noexec-home": Want({"mounts": f"{NOEXEC}; {NO_PYTHON}"}, programs=python_as(python=our_python())),
    "forced-through-a-wrapper": Want({"server": ['ForceCommand echo hello; eval "$SSH_ORIGINAL_COMMAND"']}),
    "umask-077": Want(files={".bashrc": "umask 077\n"}),
    "umask-000": Want(files={".bashrc": "umask 000\n"}),
    "few-open-files": Want(files={".bashrc": "ulimit -n 32\n"}),
    "lang-c": Want(environment={"LC_ALL": "C", "LANG": "C"}, home="训练"),
}


@pytest.mark.parametrize("want", list(WANTS.values()), ids=list(WANTS))
def test_a_run_is_launched_watched_and_brought_home(want: Want, tmp_path: Path) -> None:
    home = tmp_path / want.home
    for part in (want.options.get("shell", "/bin/sh"), *(["/bin/busybox"] if "busybox" in str(want) else [])):
        if not os.path.exists(part):
            pytest.skip(f"no {part} here (tools/system_parts.sh installs it)")
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


def test_an_open_umask_leaves_no_folder_that_others_may_write_to(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").write_text("umask 000\n")
    with bare_bed(tmp_path) as bed:
        life = Life(bed, tmp_path / "life")
        try:
            assert life.run().wait() == 0, life.explain()
        finally:
            life.close()
        below = [Path(place, name) for place, folders, files in os.walk(bed.root) for name in (*folders, *files)]
        open_ones = [
            path for path in [bed.root, *below] if not path.is_symlink() and path.stat().st_mode & stat.S_IWOTH
        ]
        assert open_ones == []


@pytest.mark.parametrize("ahead_s", [5 * 3600, -5 * 3600], ids=["box-behind", "box-ahead"])
def test_a_clock_that_is_wrong_by_hours_changes_nothing_but_what_is_said(tmp_path: Path, ahead_s: int) -> None:
    """The box has this machine's clock, so it is the home whose clock goes wrong: the difference is the same."""
    skewed = tmp_path / "skewed"
    skewed.mkdir()
    (skewed / "sitecustomize.py").write_text(f"import time\nreal = time.time\ntime.time = lambda: real() + {ahead_s}\n")
    with bare_bed(tmp_path) as bed:
        path = f"{skewed}:{os.environ.get('PYTHONPATH', '')}"
        bed.environment = {**bed.environment, "PYTHONPATH": path.rstrip(":")}
        life = Life(bed, tmp_path / "life")
        try:
            assert life.run().wait() == 0, life.explain()
            asked = life.lease("status", "--refresh", "--json")
            assert asked.wait() == 0, life.explain()
            [row] = asked.data["runs"]
            assert (row["state"], row["receipt"]) == ("finished", True)
        finally:
            life.close()
        check_home(life)


# ---------------------------------------------------------------- what cannot work says so, with the fix

MENU = """#!/bin/sh
printf 'Welcome to RelayCloud\\n 1) open a terminal\\n 2) delete everything\\nchoose: '
while read -r choice; do echo "$choice" >> "$HOME/chosen"; echo "unknown: $choice"; done
"""
READ_ONLY = 'mount --bind "$HOME_THERE" "$HOME_THERE"; mount -o remount,bind,ro "$HOME_THERE"'
FULL = 'mount -t tmpfs -o size=64k tmpfs "$HOME_THERE"; head -c 65536 /dev/zero >"$HOME_THERE/x" 2>/dev/null || :'
NO_INODES = 'mount -t tmpfs -o nr_inodes=1 tmpfs "$HOME_THERE"'


@dataclass(frozen=True)
class Closed:
    """A box that no run can live on, and what must be said of it."""

    code: str
    says: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


CLOSED = {
    "menu": Closed(
        "box.shell_only", ("Welcome to RelayCloud", "direct TCP address"), {"shell": "$HOME/menu"}, {"menu": MENU}
    ),
    "exec-zsh": Closed("box.shell_only", ("exec zsh", "case $- in *i*)"), files={".bashrc": "exec zsh\n"}),
    "exits": Closed("box.shell_only", ("nothing (exit 3)",), files={".bashrc": "exit 3\n"}),
    "sftp-only": Closed(
        "box.shell_only",
        ("sftp connections only", "may only copy files"),
        {"server": ["ForceCommand internal-sftp", "Subsystem sftp internal-sftp"]},
    ),
    "forced": Closed("box.shell_only", ("parked", "ForceCommand"), {"server": ["ForceCommand echo parked"]}),
    "nologin": Closed("box.shell_only", ("login shell",), {"shell": "/usr/sbin/nologin"}),
    "no-python": Closed("box.no_python", ("install python3",), {"mounts": NO_PYTHON}),
    "read-only-home": Closed("box.no_root", ("Read-only file system", "--root /"), {"mounts": READ_ONLY}),
    "full-home": Closed("box.no_root", ("No space left on device", "--root /"), {"mounts": FULL}),
    "no-inodes-at-home": Closed("box.no_root", ("No space left on device", "--root /"), {"mounts": NO_INODES}),
}


@pytest.mark.parametrize("closed", list(CLOSED.values()), ids=list(CLOSED))
def test_an_unfit_box_is_refused_with_what_was_seen_and_what_to_do(closed: Closed, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name, text in closed.files.items():
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    options = {**closed.options, "shell": closed.options.get("shell", "/bin/bash").replace("$HOME", str(home))}
    with bare_bed(tmp_path, home=home, **options) as bed, front(tmp_path / "me", bed.environment) as me:
        me.job(run="true", artifacts={"result.json": "json"})
        done = me.lease("run", *bed.on, "--json")
    error = json.loads(done.out)["error"]
    assert (done.code, error["code"]) == (4, closed.code), done
    for words in closed.says:
        assert words in error["message"] + error["seen"] + error["hint"]
    assert not (home / "chosen").exists(), "something was typed at the menu"


def test_a_read_only_home_is_lived_with_under_another_root(tmp_path: Path) -> None:
    with bare_bed(tmp_path, mounts=READ_ONLY) as bed:
        bed.root = tmp_path / "data" / "leasehold"
        life = Life(bed, tmp_path / "life")
        try:
            assert life.run("--root", str(bed.root)).wait() == 0, life.explain()
        finally:
            life.close()
        check_home(life)


@pytest.mark.parametrize("state", ["running", "finished"])
def test_a_status_needs_no_stat_program(tmp_path: Path, state: str) -> None:
    """Without it a run's age is unknown: one that should be beating is then unknown, one that ended has ended."""
    with bare_bed(tmp_path, mounts=hide("stat", "date")) as bed:
        life = Life(bed, tmp_path / "life")
        try:
            lease = life.run_to_mid_life()
            if state == "finished":
                life.release()
                assert lease.wait() == 0, life.explain()
            asked = life.lease("status", "--refresh", "--json")
            assert asked.wait() == 0, life.explain()
            [row] = asked.data["runs"]
            assert row["state"] == {"running": "unknown", "finished": "finished"}[state]
            life.release()
            assert lease.wait() == 0, life.explain()
        finally:
            life.close()
