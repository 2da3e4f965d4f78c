"""A pasted address of a known platform is not booked as a bare SSH box unless a person says so."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

SOURCES = Path(__file__).resolve().parents[5] / "src"
NEEDS_SSH = pytest.mark.skipif(
    shutil.which("ssh") is None, reason="no ssh here (Debian: apt-get install openssh-client)"
)  # which says what an alias stands for
AUTODL = "ssh -p 31022 root@connect.westb.seetacloud.com"
JOB = "name: tiny\nrun: echo {} > $LEASE_OUT/m.json\nartifacts: {m.json: json}\n"

Lease = Callable[..., subprocess.CompletedProcess[str]]
Booked = Callable[[], dict[str, Any]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Give an empty home, and an ssh that reaches nobody and knows no config of this machine."""
    (tmp_path / "ssh_config").write_text("Host west\n  HostName connect.west.seetacloud.com\n  User root\n")
    (tmp_path / "lease.yaml").write_text(JOB)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LEASE")}
    places = {"LEASEHOLD_HOME": "home", "LEASEHOLD_CONFIG": "config", "HOME": "user"}
    own = {name: str(tmp_path / place) for name, place in places.items()}
    return {
        **kept,
        **own,
        "PYTHONPATH": str(SOURCES),
        "NO_COLOR": "1",
        "LEASEHOLD_SSH": f"ssh -F {tmp_path}/ssh_config",
    }


@pytest.fixture
def lease(tmp_path: Path, environment: dict[str, str]) -> Lease:
    """Run the command without a terminal."""

    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "leasehold", *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=120, check=False, start_new_session=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def typed(tmp_path: Path, environment: dict[str, str]) -> Callable[..., str]:
    """Run the command on a terminal and type one answer to its question."""

    def run(answer: str, *words: str, code: int = 0) -> str:
        child = pexpect.spawn(
            sys.executable, ["-m", "leasehold", *words], cwd=str(tmp_path), env=environment, encoding="utf-8",
            timeout=120, dimensions=(40, 200),
        )  # fmt: skip
        child.expect("platform [^:]*: ")
        asked = child.before
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == code, asked + child.before
        return str(asked + child.before)

    return run


@pytest.fixture
def booked(environment: dict[str, str]) -> Booked:
    """Read the box as it was written down last; empty when it was not."""
    return lambda: (events(environment, "box_added") + events(environment, "box_changed") or [{}])[-1]


def events(environment: dict[str, str], kind: str) -> list[dict[str, Any]]:
    with sqlite3.connect(Path(environment["LEASEHOLD_HOME"]) / "ledger.sqlite") as db:
        return [json.loads(row[0]) for row in db.execute("SELECT data FROM events WHERE kind = ?", (kind,))]


# ---------------------------------------------------------------- lease box add


@pytest.mark.parametrize(
    ("pasted", "platform"),
    [
        (AUTODL, "autodl"),
        ("ssh -p 40022 root@connect.westc.gpuhub.com", "autodl"),
        pytest.param("west", "autodl", marks=NEEDS_SSH),
        ("ssh -p 33426 root@ssh5.vast.ai", "vastai"),
        ("ssh 8y5rumuyb50m78-6441103b@ssh.runpod.io", "runpod"),
        ("ssh paperspace@203.0.113.9", "paperspace"),
        ("ssh -p 20000 root@i-1.gpushare.com", "gpushare"),
    ],
)
def test_without_a_terminal_a_known_address_needs_its_platform(
    lease: Lease, pasted: str, platform: str, booked: Booked
) -> None:
    said = lease("box", "add", "gpu1", pasted, "--no-contact", code=2).stderr
    assert "error[box.platform_unnamed]" in said
    assert f"--platform {platform}" in said and "--platform generic-ssh" in said
    assert booked() == {}


def test_a_named_platform_is_taken_and_decides_the_folder(lease: Lease, booked: Booked) -> None:
    lease("box", "add", "gpu1", AUTODL, "--no-contact", "--platform", "autodl")
    assert (booked()["platform"], booked()["root"]) == ("autodl", "/root/autodl-tmp/leasehold")


def test_a_bare_ssh_box_by_choice_is_accepted_and_recorded(lease: Lease, booked: Booked) -> None:
    said = lease("box", "add", "gpu1", AUTODL, "--no-contact", "--platform", "generic-ssh").stderr
    assert "chosen by you, although the address matches connect.*.seetacloud.com" in said
    assert (booked()["platform"], booked()["platform_by"]) == ("generic-ssh", "person")
    lease("box", "add", "gpu1", AUTODL.replace("31022", "31099"), "--no-contact", "--replace")
    assert booked()["platform"] == "generic-ssh", "the port moved, the choice stays"


@pytest.mark.parametrize("pasted", ["ssh -p 22 root@203.0.113.7", "ssh ubuntu@gpu.example.org", "lab"])
def test_a_host_of_no_known_platform_is_added_as_before(lease: Lease, pasted: str, booked: Booked) -> None:
    lease("box", "add", "gpu1", pasted, "--no-contact")
    assert (booked()["platform"], booked()["platform_by"], booked()["root"]) == ("generic-ssh", "", "")


@pytest.mark.parametrize(("answer", "platform"), [("autodl-pro", "autodl-pro"), ("generic-ssh", "generic-ssh")])
def test_on_a_terminal_a_person_is_asked(
    lease: Lease, typed: Callable[..., str], answer: str, platform: str, booked: Booked
) -> None:
    said = typed(answer, "box", "add", "gpu1", AUTODL, "--no-contact")
    assert "AutoDL, ordinary instance (autodl)" in said and "the address matches connect.*.seetacloud.com" in said
    assert (booked()["platform"], booked()["platform_by"]) == (platform, "person")


def test_return_takes_the_only_proposal(lease: Lease, typed: Callable[..., str], booked: Booked) -> None:
    typed("", "box", "add", "gpu1", "ssh -p 33426 root@ssh5.vast.ai", "--no-contact")
    assert booked()["platform"] == "vastai"


def test_an_unknown_answer_writes_nothing(lease: Lease, typed: Callable[..., str], booked: Booked) -> None:
    assert "no profile 'autodll'" in typed("autodll", "box", "add", "gpu1", AUTODL, "--no-contact", code=2)
    assert booked() == {}


def test_a_box_that_moves_to_another_platform_is_asked_about_again(lease: Lease, booked: Booked) -> None:
    lease("box", "add", "gpu1", "ssh root@203.0.113.7", "--no-contact")
    said = lease("box", "add", "gpu1", AUTODL, "--no-contact", "--replace", code=2).stderr
    assert "box.platform_unnamed" in said and booked()["address"] == "ssh:root@203.0.113.7"
    lease("box", "add", "gpu1", AUTODL, "--no-contact", "--replace", "--platform", "autodl")
    assert booked()["root"] == "/root/autodl-tmp/leasehold", "the folder follows the platform"


# ---------------------------------------------------------------- ssh: addresses


def test_a_run_on_a_known_address_needs_its_platform_too(lease: Lease, environment: dict[str, str]) -> None:
    said = lease("run", "--on", "ssh:root@connect.westb.seetacloud.com:31022", code=2).stderr
    assert "error[box.platform_unnamed]" in said and "--platform autodl" in said
    assert not events(environment, "lease_opened"), "nothing was opened there"


def test_a_plan_does_not_guess_the_platform_of_an_address(lease: Lease) -> None:
    said = lease("plan", "--on", "ssh:root@connect.westb.seetacloud.com:31022", code=2).stderr
    assert "error[box.platform_unnamed]" in said and "lease plan --on autodl" in said
    assert "ssh:lab" in lease("plan", "--on", "ssh:lab").stdout


def test_platform_belongs_to_an_ssh_address(lease: Lease) -> None:
    said = lease("run", "--on", "gpu1", "--platform", "autodl", code=2).stderr
    assert "lease box add gpu1 --replace --platform autodl" in said
    assert "no profile 'autodll'" in lease("run", "--on", "ssh:lab", "--platform", "autodll", code=2).stderr


def test_a_candidate_of_a_known_address_is_passed_over_until_it_is_named(lease: Lease, tmp_path: Path) -> None:
    (tmp_path / "lease.yaml").write_text(JOB + "candidates: ['ssh:root@connect.westb.seetacloud.com:31022']\n")
    said = lease("run", code=3).stderr
    assert "looks like a box of autodl or autodl-pro, and no platform was named" in said


# ---------------------------------------------------------------- platforms that cannot run yet


@pytest.mark.parametrize("platform", ["colab", "kaggle"])
def test_no_run_is_recommended_where_none_can_start(lease: Lease, platform: str) -> None:
    said = lease("box", "add", "nb", "ssh me@203.0.113.7", "--no-contact", "--platform", platform).stderr
    assert "lease run" not in said and "cannot start work there" in said and "lease plan --on nb" in said
    named = lease("run", "--on", platform, code=2).stderr
    assert "lease box add" not in named and f"lease plan --on {platform}" in named


def test_a_cluster_is_named_by_its_context_and_is_no_ssh_box(lease: Lease) -> None:
    said = lease("run", "--on", "kubernetes", code=2).stderr
    assert "--on k8s:CONTEXT" in said and "lease box add" not in said
    refused = lease("box", "add", "nb", "ssh me@203.0.113.7", "--no-contact", "--platform", "kubernetes", code=2).stderr
    assert "a box behind ssh cannot be on it" in refused


def test_a_candidate_platform_that_cannot_run_is_not_to_be_added(lease: Lease, tmp_path: Path) -> None:
    (tmp_path / "lease.yaml").write_text(JOB + "candidates: [kaggle]\n")
    said = lease("run", code=3).stderr
    assert "cannot start work there" in said and "lease box add" not in said


def test_the_list_of_platforms_says_where_runs_can_start(lease: Lease) -> None:
    rows = {line.split()[0]: line for line in lease("platforms").stdout.splitlines()}
    assert "plans only" in rows["kaggle"] and "plans only" not in rows["autodl"]
    assert "plans only: it has no kaggle engine yet" in lease("platforms", "show", "kaggle").stdout
