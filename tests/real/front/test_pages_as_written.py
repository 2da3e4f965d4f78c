"""Every command on every page of docs/ is typed as it stands there, in the page's order, by a person at a terminal.

What cannot run here is listed with its reason; a command that is neither run nor listed fails the test of its page.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pexpect
import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import LEASE, Front, fake_cards, front, program
from tests.support.security_key import Ed25519SecurityKey
from tests.unit.repository.pages import ROOT, lines

pytestmark = pytest.mark.real_ssh

_GENERATED = ("cli.md", "errors.md", "catalogue.md", "job-keys.md", "platforms.md")
# They need a cluster, a bucket, a landlord or a second box: tests/real/{kubernetes,refuge,rent,moves,transfers} do.
_PLAYED_ELSEWHERE = (
    "kubernetes.md",
    "landlords.md",
    "moving.md",
    "object-stores.md",
    "refuge.md",
    "renting.md",
    "results.md",
)
_STARTS = ("lease ", "ssh-keygen ", "scontrol ")
_PATIENCE_S = 180
_ANSWER = "https://hooks.example.org/services/T0/B0/secret"

# What a page names in general -> what it is in the sandbox.
STANDS_FOR: dict[str, dict[str, str]] = {
    "": {"NAME": "myjob", "RUN": "myjob", "mybox": "gpu1"},
    "first-run.md": {
        "lease down NAME": "lease down project --facts-checked 'box and home are this one machine'",
        "NAME": "project",
    },
    "seeing.md": {"4711": "$(cat stranger.pid)", "/root/exp/out": '"$(cat stranger.out)"'},
    "hygiene.md": {"STAMP": "$(cat stamp)"},
}

_OUTSIDE = "it talks to a service outside this machine; tests/real/notices/test_notices.py sends to servers of its own"
_SLURM = "it needs a cluster; tests/real/slurm/test_slurm_site.py runs it against a real Slurm where one is installed"
_PARK = "only some platforms can park; tests/real/autodl/test_autodl_life.py does it on the simulated AutoDL"
NOT_HERE: dict[tuple[str, str], str] = {
    ("boxes.md", "lease run --on ssh:root@connect.westb.seetacloud.com:31022 --platform autodl"): (
        "the audit refuses a box without AutoDL's disks; tests/real/autodl/test_autodl_life.py runs on a simulated one"
    ),
    ("boxes.md", "lease box add gpu1 'ssh ubuntu@203.0.113.9' --platform lambda --durable /lambda/nfs/data"): (
        "it needs a second disk at that path; tests/real/transfers/test_durable_tiers.py mounts one"
    ),
    ("boxes.md", "lease box tell gpu1 --disk 'data disk=200GB'"): (
        "a tier of AutoDL, and gpu1 here is a plain machine; tests/unit/lifecycle/money/test_metering.py tells it"
    ),
    ("notices.md", "lease notify test"): _OUTSIDE,
    ("notices.md", "lease notify test --from gpu1"): _OUTSIDE,
    ("seeing.md", "lease notify test"): _OUTSIDE,
    (
        "slurm.md",
        "lease box add cluster 'ssh me@login.cluster.edu' --platform slurm --root /scratch/me/leasehold",
    ): _SLURM,
    ("slurm.md", "lease run --on cluster"): _SLURM,
    ("sweeps.md", "lease run --on cluster"): _SLURM,
    (
        "sweeps.md",
        "lease run --on gpu1,gpu2,gpu3",
    ): "one sshd is one box; tests/real/sweeps/test_fleet_sweep.py has several",
    (
        "sweeps.md",
        "lease sweep table ablation --format parquet --out ablation.parquet",
    ): "pyarrow is no dependency of ours",
    ("teardown.md", "lease park NAME"): _PARK,
    ("teardown.md", "lease park NAME --standing 14d"): _PARK,
    ("teardown.md", "lease park NAME --revoke"): _PARK,
}

# Commands that are meant to end with another code than 0, and why.
CODES: dict[tuple[str, str], tuple[int, str]] = {
    ("plan.md", "lease plan --on vastai --spot --interrupted-every 3h"): (3, "the job of this test has no checkpoint"),
    ("plan.md", "lease platforms check"): (1, "the page says so: facts are old or unconfirmed"),
    ("doctor.md", "lease doctor train.log"): (1, "the page says so: something was found"),
    ("doctor.md", 'lease doctor train.log --exit-code 137 --state "OUT_OF_MEMORY" --platform autodl'): (1, "found"),
    ("doctor.md", "scontrol show job 42 | lease doctor -"): (1, "found"),
}

# What a person does before a command of a list that is no sequence.
BEFORE: dict[tuple[str, str], list[str]] = {
    ("hygiene.md", "lease box disk gpu1 --undo STAMP"): [
        "ls ../far/box/home/.leasehold/quarantine | tail -n 1 > stamp"
    ],
    ("hygiene.md", "lease box disk gpu1 --empty-quarantine STAMP"): [
        "lease box disk gpu1 --free 20GB",
        "ls ../far/box/home/.leasehold/quarantine | tail -n 1 > stamp",
    ],
    ("hygiene.md", "lease box disk gpu1 --free 20GB --delete"): ["sh cache.sh"],
    ("teardown.md", "lease down NAME --approval ask.json"): ["lease signer add ~/.ssh/id_ed25519.pub --name me"],
}


class Desk(NamedTuple):
    """A person at a terminal, and the box that every address on a page leads to."""

    person: Front
    bed: SshBed

    def type(self, command: str) -> tuple[int, str]:
        """Type a command into a shell; whatever asks to type something exactly is answered with just that."""
        child = pexpect.spawn(
            "/bin/sh",
            ["-c", command],
            cwd=str(self.person.project),
            env={**self.person.environment, "TERM": "dumb", "COLUMNS": "160"},
            dimensions=(40, 160),
            encoding="utf-8",
            codec_errors="replace",
            timeout=_PATIENCE_S,
        )
        said = ""
        asked = [r"type exactly[^:\r\n]*:\s+([^\r\n]+)\r?\n> ", r"(?:url|token|secret)[^\r\n]*\)?: $", pexpect.EOF]
        while (found := child.expect(asked)) != len(asked) - 1:
            said += str(child.before) + str(child.after)
            child.sendline(str(child.match.group(1)).strip() if found == 0 else _ANSWER)
        said += str(child.before)
        child.close()
        return (child.exitstatus if child.exitstatus is not None else -(child.signalstatus or 0)), said


def commands_of(page: Path) -> Iterator[str]:
    """Read the commands out of a page's blocks of code, without prompts and remarks."""
    for line in lines([page]):
        text = line.text.strip().removeprefix("$ ")
        if line.code and text.startswith(_STARTS):
            yield re.split(r"\s{2,}|\s+# ", text)[0].strip()


def pages() -> list[Path]:
    """List the pages with commands."""
    left_out = (*_GENERATED, *_PLAYED_ELSEWHERE)
    hand_written = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in left_out]
    return [page for page in hand_written if any(True for _ in commands_of(page))]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Give somebody with `lease` on their PATH, whose every ssh address leads to one real sshd."""
    cards = fake_cards(tmp_path / "cards", "NVIDIA T4, 15360")
    with ssh_bed(tmp_path / "far", cards) as bed, front(tmp_path) as person:
        box = bed.box
        options = [
            "HostName=127.0.0.1",
            f"Port={box.port}",
            f"User={box.user}",
            f"IdentityFile={box.folder / 'client_key'}",
        ]
        options += ["IdentitiesOnly=yes", "IdentityAgent=none"]
        ssh = ["ssh", "-F", "/dev/null", *(word for option in options for word in ("-o", option))]
        place = program(person.folder, "lease", f'exec {shlex.join(LEASE)} "$@"\n')
        person.environment.update(
            LEASEHOLD_SSH=shlex.join(ssh),
            PATH=f"{place}:{person.environment['PATH']}",
            HOME=str(person.folder / "me"),
            TG_TOKEN="1:a",
            MAIL_PASSWORD="p",
            HOOK_TOKEN="t",
        )
        (person.folder / "me" / ".ssh").mkdir(parents=True, mode=0o700)
        yield Desk(person, bed)


TRAIN = """
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
args = parser.parse_args()
out = os.environ["LEASE_OUT"]
state = os.path.join(out, "state.json")
step = json.load(open(state))["step"] if os.path.exists(state) else 0
while step < args.steps:
    step += 1
    print("step %d/%d loss %.3f" % (step, args.steps, 1 / step), flush=True)
    json.dump({"step": step}, open(state + ".tmp", "w"))
    os.replace(state + ".tmp", state)
    time.sleep(float(os.environ.get('STEP_S', '0.02')))
json.dump({"loss": 1 / step}, open(os.path.join(out, "metrics.json"), "w"))
"""


def a_project(desk: Desk) -> None:
    """Write a job that trains for a second."""
    desk.person.write("train.py", TRAIN)
    smoke = "python3 train.py --steps 2"
    desk.person.job(name="myjob", run="python3 train.py", smoke=smoke, artifacts=["metrics.json"])


def a_box(desk: Desk) -> None:
    """Have gpu1 in the book."""
    a_project(desk)
    _must(desk, "lease box add gpu1 'ssh -p 31022 root@box.example.org'")


def a_run(desk: Desk) -> None:
    """Have myjob finished on gpu1."""
    a_box(desk)
    _must(desk, "lease run --on gpu1 --detach")
    _must(desk, "lease watch myjob")


def _must(desk: Desk, command: str) -> str:
    code, said = desk.type(command)
    assert code == 0, f"`{command}` exited with {code}:\n{said}"
    return said


def own_code(desk: Desk) -> None:
    """Have a script and no job file."""
    desk.person.write("train.py", TRAIN)


def a_slow_run(desk: Desk) -> None:
    """Have a run that was measured a few times."""
    a_box(desk)
    desk.person.job(name="myjob", run="python3 train.py", env={"STEP_S": "1.5"}, artifacts=["metrics.json"])
    _must(desk, "lease run --on gpu1 --skip-gate smoke --because 'the page is about something else'")


def a_log(desk: Desk) -> None:
    """Have the log of a run that ran out of memory, and a Slurm that says the same."""
    a_run(desk)
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    desk.person.write("train.log", f"Traceback (most recent call last):\n{line}\n")
    program(desk.person.folder, "scontrol", "echo '   JobState=OUT_OF_MEMORY Reason=OutOfMemory Dependency=(null)'\n")


def a_stranger(desk: Desk) -> None:
    """Have a training on the box that was started by hand, and a channel's address in a file."""
    a_run(desk)
    place = desk.bed.box.home / "exp"
    (place / "out").mkdir(parents=True)
    script = "import time\nopen('out/best.pt', 'wb').write(b'w')\nopen('out/a.json', 'w').write('{}')\n"
    (place / "train.py").write_text(script + "print('step 1/9 loss 0.5', flush=True)\ntime.sleep(600)\n")
    started = desk.bed.box.run(f"cd {shlex.quote(str(place))}; nohup python3 train.py > log 2>&1 < /dev/null & echo $!")
    desk.person.write("stranger.pid", started.stdout.decode())
    desk.person.write("stranger.out", str(place / "out"))
    desk.person.write("address.txt", _ANSWER + "\n")


def a_full_disk(desk: Desk) -> None:
    """Have a cache on the box that may go, made hours ago."""
    a_box(desk)
    place = shlex.quote(str(desk.bed.box.home / ".cache" / "pip"))
    old = f"find {place} -exec touch -d '3 hours ago' {{}} +"
    desk.person.write("cache.sh", f"mkdir -p {place}/http; head -c 4194304 /dev/urandom > {place}/http/a; {old}\n")
    _must(desk, "sh cache.sh")


def a_sweep(desk: Desk) -> None:
    """Have boxes and the sweep of the page, with a trainer that takes its parameters."""
    a_box(desk)
    lines = ["import argparse, json, os", "parser = argparse.ArgumentParser()"]
    lines += [f"parser.add_argument('--{name}')" for name in ("lr", "model", "seed")]
    lines += ["args = parser.parse_args()", "out = os.environ['LEASE_OUT']"]
    lines += ["json.dump({'val_loss': float(args.lr)}, open(os.path.join(out, 'metrics.json'), 'w'))"]
    desk.person.write("train.py", "\n".join(lines) + "\n")
    desk.person.write("lease.yaml", _block("sweeps.md", "name: ablation").replace(", best.pt", ""))


def keys(desk: Desk) -> None:
    """Have a run at home, an ssh key and a security key."""
    a_project(desk)
    _must(desk, "lease run")
    _must(desk, "ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519")
    (desk.person.folder / "me" / ".ssh" / "id_ed25519_sk.pub").write_text(Ed25519SecurityKey().line + "\n")


def _block(page: str, first: str) -> str:
    """Read a block of a page that begins with this line."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.search(rf"^    {re.escape(first)}\n(?:    .*\n)+", text, re.MULTILINE)
    assert found, f"{page} shows no block that begins with {first!r}"
    return textwrap.dedent(found[0])


SETTINGS: dict[str, Callable[[Desk], None]] = {
    "boxes.md": a_project,
    "doctor.md": a_log,
    "first-run.md": own_code,
    "gates.md": a_project,
    "hygiene.md": a_full_disk,
    "notices.md": a_project,
    "plan.md": a_project,
    "readings.md": a_slow_run,
    "seeing.md": a_stranger,
    "slurm.md": a_project,
    "sweeps.md": a_sweep,
    "teardown.md": keys,
    "unchanged-code.md": own_code,
}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_commands_of_a_page_work_as_written(page: Path, desk: Desk) -> None:
    SETTINGS[page.name](desk)  # a new page says here what it speaks of
    wrong = []
    for command in commands_of(page):
        if (page.name, command) in NOT_HERE:
            continue
        wanted, _ = CODES.get((page.name, command), (0, ""))
        for first in BEFORE.get((page.name, command), []):
            _must(desk, first)
        typed = command
        own = STANDS_FOR.get(page.name, {})
        for general, here in [*own.items(), *(one for one in STANDS_FOR[""].items() if one[0] not in own)]:
            typed = re.sub(rf"(?<![\w/]){re.escape(general)}(?!\w)", lambda _, here=here: here, typed)
        code, said = desk.type(typed)
        if code != wanted or "Traceback (most recent call last)" in said:
            wrong.append(f"$ {typed}\n{said}[exit {code}]")
    assert wrong == [], "\n\n".join(wrong)


def test_what_is_listed_as_not_for_here_still_stands_on_its_page() -> None:
    shown = {(page.name, command) for page in pages() for command in commands_of(page)}
    assert [key for key in (*NOT_HERE, *CODES, *BEFORE) if key not in shown] == []
    assert all(NOT_HERE.values()) and len(shown) > 60
