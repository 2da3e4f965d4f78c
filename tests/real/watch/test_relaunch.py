"""Going on after a restart: a real cron daemon, a box whose processes all die, a power cycle of a rented container."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.kit.files import journal
from tests.support import processes
from tests.support.autodl_bed import DATA, AutodlCloud
from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, SOURCES, Front, front, program
from tests.support.lives import STEPS, TRAINER, TRUE_SUM, eventually
from tests.support.parts import find_program
from tests.support.screens import Session

MINIMAL = {"HOME": "/root", "LOGNAME": "root", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}  # what cron gives
CRONTAB = """t=%s
case "$1" in
-l) [ -e "$t" ] || { echo "no crontab for you" >&2; exit 1; }; cat "$t";;
-r) rm "$t";;
-) cat > "$t.new" && mv "$t.new" "$t";;
esac
"""


def train_here(person: Front, side: str, **change: Any) -> None:
    shutil.copy(TRAINER, person.project / "train.py")
    env = {"SIDE": side, "STEPS": str(STEPS), "STEP_S": "0.02"}
    artifacts = {"result.json": {"loads": "json", "keys": ["steps", "sum"]}}
    person.job(run="exec python3 -I -S train.py", env=env, artifacts=artifacts, reboot="resume", **change)


def run_folder(root: Path) -> Path:
    (found,) = [path for path in (root / "active").iterdir() if (path / "plan.json").exists()]
    return found


def kinds(run: Path) -> list[str]:
    return [event["k"] for event in journal.read_from(str(run / "journal.jsonl"), 0)[0]]


# ---------------------------------------------------------------- cron, for real

CRON = """set -eu; PATH=$PATH:/usr/sbin:/sbin
mount -t tmpfs tmpfs /var/spool/cron; mkdir -p /var/spool/cron/crontabs; chmod 1730 /var/spool/cron/crontabs
mount -t tmpfs tmpfs /run
cron -f & first=$!
printf '# mine\\n5 4 * * * true\\n' | crontab -
crontab -l > "$1/before"
"$2" -c "$3" install "$1"
kill $first; wait $first || true
rm -f /run/crond.reboot /run/crond.pid
cron -f & second=$!
n=0; until [ -s "$1/ran" ] || [ $n -ge 600 ]; do sleep 0.1; n=$((n+1)); done
"$2" -c "$3" remove "$1"
kill $second
crontab -l > "$1/after"
"""
CLIENT = """import sys
from leasehold.caretaker.reboot.mechanisms import Hook, install, remove
place = sys.argv[2]
if sys.argv[1] == "install":
    install("cron", Hook("0123456789abcdef", "toy", ("/bin/sh", place + "/entry", "revive", place + "/ran")))
else:
    assert remove("cron", "0123456789abcdef")
"""


@pytest.mark.namespaces
@pytest.mark.skipif(os.geteuid() != 0 or not find_program("cron"), reason="needs root and a cron daemon")
def test_cron_runs_our_line_after_a_restart_and_the_table_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "entry").write_text('echo went on > "$2"\n')
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CRON, "sh", str(tmp_path)]
    done = subprocess.run(
        [*words, sys.executable, CLIENT], env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").read_text() == "went on\n"
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes() != b""


# ---------------------------------------------------------------- a box whose processes all die


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    """Give a box behind a real sshd with a crontab and something that goes by the name of its daemon."""
    place = program(tmp_path / "tools", "crontab", CRONTAB % shlex.quote(str(tmp_path / "table")))
    shutil.copy("/bin/sleep", tmp_path / "cron")
    daemon = subprocess.Popen([str(tmp_path / "cron"), "600"])
    try:
        with ssh_bed(tmp_path / "far", {"PATH": f"{place}:{os.environ['PATH']}"}) as box:
            yield box
    finally:
        daemon.kill()
        daemon.wait()


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    """Give a person whose job wants to go on after a restart."""
    with front(tmp_path / "me", bed.environment) as person:
        (tmp_path / "side").mkdir()
        train_here(person, str(tmp_path / "side"))
        yield person


def kill_everything(bed: SshBed) -> None:
    """Do to the box what a power cut does, as far as its processes go."""
    bed.box.stop()
    for pid in bed.leftovers():
        with_no_mercy(pid)
    processes.end(bed.leftovers)
    bed.box.start()


def with_no_mercy(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def as_cron(table: Path) -> None:
    """Run the @reboot lines as cron does."""
    for line in table.read_text().splitlines():
        command = line[len("@reboot ") :].replace("\\%", "%")
        subprocess.run(["/bin/sh", "-c", command], env=MINIMAL, cwd="/", timeout=60, check=True)


@pytest.mark.real_ssh
def test_a_run_goes_on_by_itself_and_its_hook_is_gone_at_the_end(me: Front, bed: SshBed, tmp_path: Path) -> None:
    table, side = tmp_path / "table", tmp_path / "side"
    table.write_text("# mine\n")
    Session(me, "reboot").type("lease box reboot ssh:box --allow", ("type exactly", "allow reboot hooks on ssh:box"))
    (side / "hold").write_text("")
    done = me.lease("run", *bed.on, "--detach")
    assert done.code == 0 and "goes on by itself (cron)" in done.said, done.said
    run = run_folder(bed.root)
    assert eventually(lambda: (side / "holding").exists())
    listed = json.loads(me.lease("box", "reboot", "ssh:box", "--json").out)
    assert [hook["run"] for hook in listed["hooks"]] == [run.name]
    kill_everything(bed)
    (side / "hold").unlink()
    as_cron(table)
    assert eventually(lambda: kinds(run)[-1:] == ["run_finished"]), (run / "caretaker.err").read_text()
    assert kinds(run).count("attempt_started") == 2 and kinds(run).count("caretaker_started") == 1
    assert eventually(lambda: table.read_text() == "# mine\n"), "its line is gone, the person's stays"
    done = me.lease("run", *bed.on)
    assert json.loads((Path(done.out.strip()) / "cells/main/result.json").read_text())["sum"] == TRUE_SUM


@pytest.mark.real_ssh
def test_without_a_persons_yes_nothing_is_installed(me: Front, bed: SshBed, tmp_path: Path) -> None:
    done = me.lease("run", *bed.on)
    assert done.code == 0 and "waits for your yes" in done.said
    assert not (tmp_path / "table").exists()


@pytest.mark.real_ssh
def test_a_hook_of_a_run_that_has_ended_only_removes_itself(me: Front, bed: SshBed, tmp_path: Path) -> None:
    Session(me, "reboot").type("lease box reboot ssh:box --allow", ("type exactly", "allow reboot hooks on ssh:box"))
    (tmp_path / "side" / "hold").write_text("")
    assert me.lease("run", *bed.on, "--detach").code == 0
    line = (tmp_path / "table").read_text()
    run = run_folder(bed.root)
    files = (run / "relaunch.json", bed.root / "secrets" / f"{run.name}.relaunch.json")
    kept = [path.read_bytes() for path in files]
    (tmp_path / "side" / "hold").unlink()
    assert me.lease("run", *bed.on).code == 0
    assert eventually(lambda: not any(path.exists() for path in (tmp_path / "table", *files)))
    (tmp_path / "table").write_text(line)  # as if the caretaker had died right before it took its line away
    for path, content in zip(files, kept, strict=True):
        path.write_bytes(content)
    before = kinds(run)
    as_cron(tmp_path / "table")
    assert not (tmp_path / "table").exists() and kinds(run) == before


@pytest.mark.real_ssh
def test_taking_the_yes_back_takes_the_hooks_away(me: Front, bed: SshBed, tmp_path: Path) -> None:
    Session(me, "reboot").type("lease box reboot ssh:box --allow", ("type exactly", "allow reboot hooks on ssh:box"))
    (tmp_path / "side" / "hold").write_text("")
    assert me.lease("run", *bed.on, "--detach").code == 0
    assert (tmp_path / "table").exists()
    done = me.lease("box", "reboot", "ssh:box", "--forbid")
    assert done.code == 0 and "1 hooks were removed" in done.said
    assert not (tmp_path / "table").exists()
    (tmp_path / "side" / "hold").unlink()


# ---------------------------------------------------------------- a rented container


def test_a_power_cycle_of_a_rented_box_resumes_by_the_start_file(autodl: AutodlCloud, tmp_path: Path) -> None:
    box = autodl.rent()
    side = DATA + "/side"
    box.behind(side).mkdir()
    with front(tmp_path / "me", autodl.environment) as person:
        train_here(person, side)
        person.write(".leasehold/profiles/autodl.yaml", 'relaunch: ["onstart:/root/onstart.sh"]\n')
        assert person.lease("box", "add", "gpu1", box.ssh_line, "--platform", "autodl").code == 0
        Session(person, "reboot").type("lease box reboot gpu1 --allow", ("type exactly", "allow reboot hooks on gpu1"))
        box.behind(side + "/hold").write_text("")
        done = person.lease("run", "--on", "gpu1", "--detach", *NO_SMOKE)
        assert done.code == 0, done.said
        run = run_folder(box.behind(DATA + "/leasehold"))
        assert eventually(lambda: box.behind(side + "/holding").exists())
        box.power_off()
        box.behind(side + "/hold").unlink()
        assert box.behind("/root/onstart.sh").exists()
        box.power_on()
        assert box.run("env -i HOME=/root PATH=/usr/bin:/bin /bin/bash /root/onstart.sh").returncode == 0
        assert eventually(lambda: kinds(run)[-1:] == ["run_finished"]), kinds(run)
        assert eventually(lambda: not box.behind("/root/onstart.sh").exists())
