"""The handbook is true: every command of it is run against real runs, here and behind a real sshd."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.beds import Bed, local_bed, ssh_bed
from tests.support.front import NO_SMOKE, Front, front, program

pytestmark = pytest.mark.full

TRAIN = """
import json, os, signal, sys, time
out = os.environ["LEASE_OUT"]
def save(*_):
    json.dump({"step": 1}, open(os.path.join(out, "last.json"), "w"))
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("step 1/2 loss 0.5", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
os.makedirs(os.path.join(out, "odd name"), exist_ok=True)
open(os.path.join(out, "odd name", "it's 中文.txt"), "w").write("kept")
json.dump({"loss": 0.5}, open(os.path.join(out, "result.json"), "w"))
"""
FENCE = re.compile(r"^(`{3,})sh (here|on the box)\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)


class Desk:
    """A person with nothing but the page: they type what stands there."""

    def __init__(self, me: Front, bed: Bed) -> None:
        self.me = me
        self.bed = bed
        self.typed: set[str] = set()

    @property
    def folder(self) -> Path:
        (path,) = (self.bed.root / "active").iterdir()
        return path

    def page(self) -> str:
        return (self.folder / "HANDBOOK.md").read_text("utf-8")

    def section(self, title: str) -> list[tuple[str, str]]:
        """List the blocks of a section: where they are typed, and the commands."""
        (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", self.page(), re.MULTILINE | re.DOTALL)
        return [(where, commands) for _, where, commands in FENCE.findall(text)]

    def type(self, title: str, where: str = "") -> str:
        """Type every command of a section, each block in a shell of its own; each must succeed."""
        said = ""
        for place, commands in self.section(title):
            if where and place != where:
                continue
            self.typed.add(f"{title} {place}")
            asked = ["bash", "-euo", "pipefail", "-c", commands]
            if place == "on the box" and self.login:
                asked = ["bash", "-euo", "pipefail", "-c", f"{self.login} sh -eu -s <<'EOF'\n{commands}\nEOF"]
            done = subprocess.run(
                asked,
                cwd=self.me.project,
                env=self.me.environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, (title, commands, done.stdout, done.stderr)
            said += done.stdout + done.stderr
        return said

    @property
    def login(self) -> str:
        found = re.search(r"^\| log in \| `(.*)` \|$", self.page(), re.MULTILINE)
        return found[1] if found else ""

    def state(self) -> str:
        return str(json.loads((self.folder / "status.json").read_text())["state"])

    def wait(self, true: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 60
        while not true():
            assert time.monotonic() < deadline, (self.state(), self.page())
            time.sleep(0.05)


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.real_ssh)])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    far = {"GO": str(tmp_path / "go")}
    opened = ssh_bed(tmp_path / "far", far) if request.param == "ssh" else local_bed(tmp_path / "far")
    with opened as bed, front(tmp_path / "it's here", {**bed.environment, **far}) as me:
        place = program(me.folder, "lease", f'exec {sys.executable} -m leasehold "$@"\n')
        me.environment["PATH"] = f"{place}:{me.environment['PATH']}"
        me.write("train.py", TRAIN)
        me.job(secrets=["HF_TOKEN"], artifacts={"result.json": "json", "odd name/*": "bytes"})
        me.environment["HF_TOKEN"] = "hf-very-secret-value"
        yield Desk(me, bed)


def test_every_command_of_the_page_works_in_the_state_it_stands_for(desk: Desk, tmp_path: Path) -> None:
    launched = desk.me.lease("run", *desk.bed.on, "--price", "1.98USD/h", *NO_SMOKE, "--detach")
    assert launched.code == 0, launched.said
    desk.wait(lambda: desk.page().count("ps -o pid") == 2)
    assert "\nrunning, as of " in desk.page()
    assert "step 1/2" in (looked := desk.type("Look, without Leasehold")) and "train.py" in looked
    desk.type("Resume", "on the box")  # somebody takes care already: nothing happens
    desk.type("Stop", "on the box")
    desk.wait(lambda: "\nstopped" in desk.page())
    desk.type("Resume", "on the box")
    desk.wait(lambda: "\nrunning" in desk.page() and desk.state() == "running")
    desk.wait(lambda: "lease stop" in str(desk.section("Stop")) and "attempt-0002" in desk.page())
    desk.type("Stop", "here")
    desk.wait(lambda: "\nstopped" in desk.page())
    (tmp_path / "go").touch()
    desk.type("Resume", "here")
    desk.wait(lambda: "\nfinished" in desk.page())
    assert '"state": "finished"' in desk.type("First, when you come back")
    desk.type("Look, without Leasehold")
    desk.type("Bring the results home by hand")
    (brought,) = desk.me.project.glob("*-by-hand")
    assert (brought / "main" / "odd name" / "it's 中文.txt").read_text() == "kept"
    titles = re.findall(r"^## (.*)$", desk.page(), re.MULTILINE)
    commands = {f"{title} {place}" for title in titles for place, _ in desk.section(title)}
    assert commands <= desk.typed
    kinds = [json.loads(line)["k"] for line in (desk.folder / "journal.jsonl").read_text().splitlines()]
    assert kinds.count("resumed") == 2 and kinds[-1] == "run_finished"


def test_the_page_at_home_lies_beside_the_results_and_is_printed(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    done = desk.me.lease("run", *desk.bed.on, "--price", "1.98USD/h", *NO_SMOKE)
    assert done.code == 0, done.said
    desk.wait(lambda: "\nfinished" in desk.page())  # the caretaker writes it after the event that ends the run
    run = desk.folder.name
    at_home = (desk.me.project / "lease-results" / "handbook" / f"{run}.md").read_text("utf-8")
    printed = desk.me.lease("handbook", "toy")
    assert printed.code == 0 and json.loads(desk.me.lease("handbook", "toy", "--json").out)["run"] == run
    for page in (at_home, printed.out):
        dateless = [re.sub(r", as of .* UTC\.", "", text) for text in (page, desk.page())]
        assert dateless[0] == dateless[1]
    for page in (at_home, desk.page()):
        assert "finished, as of" in page and "HF_TOKEN" in page and "hf-very-secret-value" not in page


@pytest.mark.real_ssh
def test_what_the_verbs_of_the_platform_delete_stands_there(tmp_path: Path) -> None:
    with ssh_bed(tmp_path / "far", {"GO": str(tmp_path / "go")}) as bed, front(tmp_path, bed.environment) as me:
        (tmp_path / "go").touch()
        me.write("train.py", TRAIN)
        me.job()
        assert me.lease("box", "add", "gpu1", "ssh box", "--platform", "runpod", "--root", str(bed.root)).code == 0
        done = me.lease("run", "--on", "gpu1", "--skip-gate", "audit", *NO_SMOKE, "--detach")
        assert done.code == 0, done.said
        page = me.lease("handbook", "toy").out
    assert re.search(r"^\| \S*[Tt]erminate.* \| deletes .*cannot be undone", page, re.MULTILINE), page
