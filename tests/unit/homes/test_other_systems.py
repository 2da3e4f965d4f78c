"""A home on macOS or Windows, simulated (see tests/support/pretend.py): what works, and what refuses in plain words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
JOB = "name: toy\nrun: python3 train.py\nsmoke: python3 -c pass\nartifacts: [m.json]\n"
BOTH = pytest.mark.parametrize("system", ["darwin", "win32"])


class Person:
    """Somebody with an empty home on another system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASE")}
        self.environment = {
            **kept, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "LEASEHOLD_HOME": str(folder / "home"), "NO_COLOR": "1",
        }  # fmt: skip

    def types(self, system: str, *words: str, program: str = "") -> tuple[int, str, str]:
        """Run a command there; return its exit code, data and words."""
        asked = ["-c", program] if program else ["-m", "tests.support.pretend", system, *words]
        done = subprocess.run(
            [sys.executable, *asked], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@BOTH
def test_every_module_of_a_home_can_be_imported(person: Person, system: str) -> None:
    code, out, said = person.types(system, "--import-everything")
    assert code == 0, said
    assert {
        "leasehold.shells.cli.screens.live_screen",
        "leasehold.lifecycle.results.bring_home",
        "leasehold.transport.wire",
    } <= {*out.split()}


@BOTH
@pytest.mark.parametrize(
    "words", [["--help"], ["status"], ["box", "list"], ["notify", "list"], ["completion", "bash"], ["init", "--stdout"]]
)
def test_what_needs_no_box_works(person: Person, system: str, words: list[str]) -> None:
    code, _, said = person.types(system, *words)
    assert code == 0, said
    assert "Traceback" not in said


@BOTH
def test_init_writes_a_file_that_the_system_can_read_back(person: Person, system: str) -> None:
    (person.folder / "train.py").write_text("import argparse\nargparse.ArgumentParser().add_argument('--steps')\n")
    assert person.types(system, "init")[0] == 0
    code, _, said = person.types(system, "init")
    assert code == 2 and "init.exists" in said


def test_a_mac_says_why_it_cannot_be_the_box_before_anything_is_done(person: Person) -> None:
    (person.folder / "lease.yaml").write_text(JOB)
    code, _, said = person.types("darwin", "run")
    assert code == 4
    assert "error[box.not_here]" in said and "sys.platform is darwin" in said and "--on ssh:HOST" in said
    assert "smoke" not in said
    assert person.types("darwin", "status")[2].startswith("no runs yet")


@pytest.mark.parametrize("words", [["run"], ["run", "--on", "ssh:gpu1"], ["box", "add", "gpu1", "--ssh", "gpu1"]])
def test_windows_refuses_what_speaks_to_a_box_and_names_the_way_out(person: Person, words: list[str]) -> None:
    (person.folder / "lease.yaml").write_text(JOB)
    code, _, said = person.types("win32", *words)
    assert code == 8
    assert "error[home.windows]" in said and "WSL 2" in said
    assert person.types("win32", "status")[2].startswith("no runs yet")


def test_windows_refuses_a_smoke_for_want_of_sh(person: Person) -> None:
    (person.folder / "lease.yaml").write_text(JOB)
    code, _, said = person.types("win32", "check", "smoke")
    assert code == 8 and "error[home.no_sh]" in said


@pytest.mark.parametrize(("system", "walls"), [("darwin", "['rlimits']"), ("win32", "[]")])
def test_confinement_falls_back_and_says_what_it_reached(person: Person, system: str, walls: str) -> None:
    program = (
        f"from tests.support.pretend import become\nbecome({system!r})\n"
        "from leasehold.lifecycle.confine import walls\n"
        "reached = walls.leave_network(reopens_files=False) + walls.forbid_new_privileges()\n"
        "print(reached + walls.limit_resources(60, 1 << 34, 64))\n"
    )
    code, out, said = person.types(system, program=program)
    assert (code, out.strip()) == (0, walls), said


@BOTH
def test_whoever_sits_there_has_a_name(person: Person, system: str) -> None:
    person.environment.pop("USER", None)
    person.environment["USERNAME"] = "mira"
    program = (
        f"from tests.support.pretend import become\nbecome({system!r})\n"
        "from leasehold.lifecycle.home.home import person\nprint(person())\n"
    )
    code, out, said = person.types(system, program=program)
    assert code == 0 and out.strip(), said


def test_a_typed_approval_on_windows_points_to_a_signed_one(person: Person) -> None:
    program = (
        "from tests.support.pretend import become\nbecome('win32')\n"
        "import builtins\nreal = builtins.open\n"
        "def no_tty(path, *more, **options):\n"
        "    if path == '/dev/tty':\n        raise FileNotFoundError(path)\n"
        "    return real(path, *more, **options)\n"
        "builtins.open = no_tty\n"
        "from leasehold.errors import Refusal\nfrom leasehold.lifecycle.approval.phrase import terminal_ask\n"
        "try:\n    terminal_ask('?')\nexcept Refusal as refusal:\n    print(refusal.message, '|', refusal.hint)\n"
    )
    code, out, said = person.types("win32", program=program)
    assert code == 0, said
    assert "typed approvals need a POSIX terminal" in out and "--request FILE" in out
