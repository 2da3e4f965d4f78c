"""A secret's whole life on a real sshd: launch, stop, resume, durable copy, pull. It shows up nowhere it should not.

While all that happens, a thread reads every process's command line and environment, as fast as it can.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import stat
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import LEASE, Front, front
from tests.support.lives import eventually
from tests.support.who_server import who_server

pytestmark = pytest.mark.real_ssh

SECRET = "plain-words/5f2e+9c41 a77d"
SHAPED = "hf_" + "Zq7Xv2Kd" * 4
TOPIC = "topic-b81f04c2d9"
FORMS = {
    SECRET, SHAPED, TOPIC,
    urllib.parse.quote(SECRET), urllib.parse.quote_plus(SECRET), urllib.parse.quote(SECRET, safe=""),
    base64.b64encode(SECRET.encode()).decode(), base64.b64encode(b"api:" + SECRET.encode()).decode()[8:-4],
    SECRET.encode().hex(),
}  # fmt: skip
# Says its secret in every way a careless script does, then waits for a second life.
TRAIN = """
import base64, json, os, sys, time, urllib.parse
key, out = os.environ["MY_CREDENTIAL"], os.environ["LEASE_OUT"]
print("key is", key, flush=True)
sys.stdout.write("in two " + key[:9]); sys.stdout.flush(); time.sleep(0.2); print(key[9:], flush=True)
print("https://example.org/?k=" + urllib.parse.quote(key) + " " + urllib.parse.quote_plus(key), flush=True)
print("Basic", base64.b64encode(("api:" + key).encode()).decode(), key.encode().hex(), flush=True)
print("hub token", "hf_" + "Zq7Xv2Kd" * 4, "in a config", flush=True)
print(json.dumps({"env": dict(os.environ)}), flush=True)
mark = os.path.join(out, "lives")
lives = int(open(mark).read()) + 1 if os.path.exists(mark) else 1
open(mark, "w").write(str(lives))
print("step %d/2 loss 0.5" % lives, flush=True)
if lives < 2:
    time.sleep(600)
json.dump({"lives": lives}, open(os.path.join(out, "result.json"), "w"))
"""
SHED = """
extends: generic-ssh
id: shed
title: a box with a shelf
sources:
  me: {{url: "docs/platforms.md", verified: 2026-11, confidence: own}}
tiers:
  - name: shelf
    path: {shelf}
    roles: [durable]
    shared: true
    own_mount: false
    survives: {{stop: yes, destroy: yes, balance_zero: yes}}
    source: me
"""


class Sampler:
    """Reads /proc over and over; notes processes that carry a secret and are no trainer."""

    def __init__(self, spared: set[int]) -> None:
        self.rounds = 0
        self.trainer_seen = False
        self.found: list[str] = []
        self._spared = spared
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        wanted = [form.encode() for form in FORMS]
        while not self._over.is_set():
            self.rounds += 1
            for entry in os.listdir("/proc"):
                if entry.isdigit() and int(entry) not in self._spared:
                    with contextlib.suppress(OSError):
                        self._look(Path("/proc", entry), wanted)

    def _look(self, place: Path, wanted: list[bytes]) -> None:
        argv, environ = (place / "cmdline").read_bytes(), (place / "environ").read_bytes()
        if any(form in argv for form in wanted):
            self.found.append(f"argv: {argv!r}"[:400])
        if not any(form in environ for form in wanted):
            return
        if b"LEASE_ATTEMPT_ID=" in environ:
            self.trainer_seen = True  # the trainer, what it started, and the step that prepares it
        elif b"LEASEHOLD_HOME=" not in environ:  # the person's own shell has it, and so has what they type
            self.found.append(f"environment of {argv!r}"[:400])


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far") as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    with front(tmp_path / "near", {**bed.environment, "no_proxy": "*", "LEASEHOLD_LINKS": "none"}) as person:
        shelf = tmp_path / "shelf"
        shelf.mkdir()
        person.write(".leasehold/profiles/shed.yaml", SHED.format(shelf=shelf))
        person.write("train.py", TRAIN)
        person.job(secrets=["MY_CREDENTIAL"], smoke="echo '{}' > $LEASE_OUT/result.json", run="python3 -I -S train.py")
        yield person


def files_with_a_secret(*places: Path) -> list[str]:
    """Look into every file's bytes, and into names."""
    wanted = [form.encode() for form in FORMS]
    found = []
    for place in places:
        for path in place.rglob("*"):
            if path.is_symlink() or not path.is_file():
                continue
            try:
                data = os.fsencode(path.name) + b"\0" + path.read_bytes()
            except FileNotFoundError:  # replaced or removed meanwhile
                continue
            found += [f"{path}: {form!r}" for form in wanted if form in data]
    return found


def test_a_secret_is_nowhere_but_in_its_own_file_while_the_run_lives(me: Front, bed: SshBed, tmp_path: Path) -> None:
    with who_server() as channel, Sampler({os.getpid()}) as sampler:
        words = [*LEASE, "notify", "add", "webhook", "-"]
        subprocess.run(words, env=me.environment, input=f"{channel.url}/{TOPIC}\n", text=True, check=True, timeout=60)
        added = me.lease("box", "add", "shed1", "--ssh", "box", "--platform", "shed")
        assert added.code == 0, added.said
        first = me.lease("run", "--on", "shed1", "--detach", MY_CREDENTIAL=SECRET)
        assert first.code == 0, first.said
        run = first.out.strip()
        log = bed.root / "active" / run / "cells/main/attempt-0001/log"
        assert eventually(lambda: log.exists() and "step 1/2" in log.read_text())
        private = [path for path in (bed.root / "secrets").iterdir() if path.is_file()]
        assert private and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in private)
        assert eventually(lambda: not files_with_a_secret(bed.root / "active")), "the log was not cleaned"
        assert eventually(lambda: sampler.rounds > 20 and sampler.trainer_seen), "the sampler saw nothing"
        shown = me.lease("logs", run)
        stopped = me.lease("stop", run, "--grace", "2")
        assert stopped.code == 0, stopped.said
        second = me.lease("run", "--on", "shed1", MY_CREDENTIAL=SECRET)
        assert second.code == 0, second.said
        doctor = me.lease("doctor", run)
        status = me.lease("status", "--refresh", "--json")
        refused = me.lease("run", "--on", "shed1", "--job", "missing.yaml", MY_CREDENTIAL=SECRET)
    assert sorted(set(sampler.found)) == []
    assert json.loads((Path(second.out.strip()) / "cells/main/result.json").read_text()) == {"lives": 2}
    assert list((tmp_path / "shelf").rglob("result.json")), "the durable copy is what this is about"
    assert "<MY_CREDENTIAL>" in shown.out
    told = [first, shown, stopped, second, doctor, status, refused]
    assert not [form for form in FORMS for one in told if form in one.out + one.said]
    notify = {path for path in me.home.rglob("*notify*") if path.is_file()}
    kept = set((bed.root / "secrets").rglob("*notify*"))
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in notify | kept)
    allowed = tuple(str(path) for path in notify | kept)

    def elsewhere() -> list[str]:
        return [one for one in files_with_a_secret(tmp_path) if not one.startswith(allowed)]

    assert eventually(lambda: not elsewhere()), elsewhere()  # the caretaker forgets them as it leaves


def test_a_command_with_a_token_in_it_is_refused_before_it_is_stored(me: Front) -> None:
    me.job(run=f"python3 train.py --token {SHAPED}")
    done = me.lease("run", "--on", "local")
    assert done.code == 2 and "secrets:" in done.said and SHAPED not in done.said
    assert not files_with_a_secret(me.home) if me.home.exists() else True
