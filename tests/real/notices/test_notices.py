"""Notices from a box behind a real sshd: whatever dies there, each end is told, and no secret is left lying about."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.caretaker.run.lock_owner import caretaker_identity
from leasehold.caretaker.run.run_folder import RunFolder
from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, Front, front
from tests.support.vendors import SECRET, TOKEN, Vendors, vendors

pytestmark = [pytest.mark.full, pytest.mark.real_ssh]

TRAIN = """
import os, sys, time
print("step 1/2 loss 0.5", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
sys.exit("KeyError: 'lr'")
"""


@pytest.fixture
def vendor() -> Iterator[Vendors]:
    with vendors() as found:
        yield found


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far", {"GO": str(tmp_path / "go")}) as box:
        yield box


@pytest.fixture
def me(tmp_path: Path, bed: SshBed, vendor: Vendors) -> Iterator[Front]:
    with front(tmp_path, {**bed.environment, "TG_TOKEN": TOKEN, "DING_KEY": SECRET}) as person:
        person.write("train.py", TRAIN)
        person.job(attempts=1)
        telegram, dingtalk = vendor.channel("telegram"), vendor.channel("dingtalk")
        phone = ("telegram", f"url={telegram['url']}", "chat_id=42", "token=env:TG_TOKEN", "--name", "phone")
        assert person.lease("notify", "add", *phone).code == 0
        assert person.lease("notify", "add", "dingtalk", dingtalk["url"], "secret=env:DING_KEY").code == 0
        yield person


def eventually(true: Callable[[], Any], limit_s: float = 60.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def by(vendor: Vendors, path: str) -> list[Any]:
    return [seen.value for seen in vendor.seen if seen.path.startswith(path)]


def content(path: Path) -> bytes:
    """Read a file; one that was replaced or removed meanwhile has none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def folder_of(bed: SshBed) -> RunFolder:
    (path,) = (bed.root / "active").iterdir()
    return RunFolder(str(path))


def test_each_channel_gets_the_end_once_though_the_caretaker_was_killed(
    me: Front, bed: SshBed, vendor: Vendors, tmp_path: Path
) -> None:
    assert me.lease("run", *bed.on, "--price", "1.98USD/h", "--detach", *NO_SMOKE).code == 0
    folder = folder_of(bed)
    who = caretaker_identity(folder)
    assert who is not None
    os.kill(int(who[0]), signal.SIGKILL)
    (tmp_path / "go").touch()
    assert eventually(lambda: by(vendor, "/bot") and by(vendor, "/robot"))
    text = by(vendor, "/bot")[0]["text"]
    assert "failed (main: attempt 1 exited with code 1; bug: " in text and "Why it failed: bug. Remedy: none" in text
    assert "The box still bills 1.98USD/h." in text and f"Next: lease logs {folder.run}" in text
    assert text.split("\n", 1)[1] == by(vendor, "/robot")[0]["text"]["content"].split("\n", 1)[1]
    assert eventually(lambda: json.loads(content(Path(folder.notices)) or b'{"flight": 1}').get("flight") is None)
    assert (len(by(vendor, "/bot")), len(by(vendor, "/robot"))) == (1, 1)
    left = b"".join(content(path) for path in Path(folder.path).rglob("*") if path.is_file())
    for secret in (TOKEN, SECRET, "dingtalk-secret"):
        assert secret.encode() not in left
    kept = (me.home / "notify.json").read_text()
    assert TOKEN not in kept and SECRET not in kept and "env:TG_TOKEN" in kept


def test_a_test_notice_comes_from_the_box_or_says_there_is_no_way_out(me: Front, bed: SshBed, vendor: Vendors) -> None:
    done = me.lease("notify", "test", "--from", "ssh:box", "--json")
    assert done.code == 0, done.said
    assert json.loads(done.out) == {
        "channels": 2, "sent": 2, "problems": [], "from": "ssh:box", "hint": "",
    }  # fmt: skip
    assert "sent from ssh:box" in by(vendor, "/bot")[0]["text"]
    assert list(bed.root.rglob("*.notify.json")) == [], "nothing of it is kept there"
    me.lease("notify", "remove", "dingtalk")
    assert me.lease("notify", "add", "telegram", "url=http://127.0.0.1:1", "chat_id=1", "token=env:TG_TOKEN").code == 0
    assert me.lease("notify", "remove", "phone").code == 0
    alone = me.lease("notify", "test", "--from", "ssh:box")
    assert alone.code == 1 and "ssh:box may have no outbound network" in alone.said
    assert TOKEN not in alone.said + alone.out


def test_a_missing_variable_of_a_channel_is_named_before_anything_starts(me: Front, bed: SshBed) -> None:
    done = me.lease("run", *bed.on, "--detach", DING_KEY="")
    assert done.code == 2 and "error[notify.secret_missing]" in done.said and "DING_KEY" in done.said
    assert list((bed.root / "active").iterdir()) == []
