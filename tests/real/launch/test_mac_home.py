"""A whole run from a home that calls itself macOS and sees no /proc, on a real ssh box that is Linux."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import ONE_SYSTEM, Front, front
from tests.support.parts import find_program

pytestmark = [pytest.mark.real_ssh, pytest.mark.namespaces]
ROOT = Path(__file__).resolve().parents[3]
TRAIN = (
    "import json, os\nprint('step 1/1 loss 0.5', flush=True)\n"
    "json.dump({'loss': 0.5}, open(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w'))\n"
)
# An empty folder stands where /proc was; the box's sshd runs outside and keeps its own.
HIDE_PROC = 'mount -t tmpfs tmpfs /proc || exit 97; exec "$@"'


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far") as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    with front(tmp_path, bed.environment) as person:
        person.write("train.py", TRAIN)
        person.job(smoke="python3 -I -S train.py")
        yield person


def mac(person: Front, *words: str) -> tuple[int, str, str]:
    """Type a command on the mac."""
    mapped = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
    unshare = [find_program("unshare") or "unshare", *mapped, "--mount", "--", "/bin/sh", "-c", HIDE_PROC, "sh"]
    done = subprocess.run(
        [*unshare, sys.executable, "-m", "tests.support.pretend", "darwin", *words],
        cwd=person.project, env={**person.environment, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_mac_runs_watches_pulls_and_verifies_on_an_ssh_box(me: Front, bed: SshBed) -> None:
    code, out, said = mac(me, "run", "--on", "ssh:box")
    assert code == 0, said
    receipt = json.loads((Path(out.strip()) / "receipt.json").read_text())
    assert receipt["confinement"], receipt
    for words in (
        ["status"],
        ["watch", "toy"],
        ["logs", "toy"],
        ["pull", "toy"],
        ["verify", "toy"],
        ["run", "--on", "ssh:box"],
    ):
        code, out, said = mac(me, *words)
        assert code == 0, (words, said)
    code, out, said = mac(me, "status", "--refresh")
    assert code == 0 and "finished" in out, said
    code, out, said = mac(me, "down", "toy", "--plan", *ONE_SYSTEM)
    assert code == 0, said


def test_a_mac_cannot_be_the_box(me: Front) -> None:
    code, _, said = mac(me, "run", "--on", "local")
    assert code == 4 and "box.not_here" in said and "/proc/self/stat is not there" in said
