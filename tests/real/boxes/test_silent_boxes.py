"""A box that takes connections and says nothing: every command says whom it waits for, gives up, and ends at Ctrl-C."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beds import SshBed, ssh_bed
from tests.support.front import NO_SMOKE, Done, Front, front
from tests.support.processes import snapshot
from tests.support.screens import Session
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.real_ssh

TRAIN = """
import json, os, time
print("step 1/1 loss 0.5", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
json.dump({}, open(os.path.join(os.environ["LEASE_OUT"], "result.json"), "w"))
"""
WAITS = "waiting for the first word of gpu1: silent for "
NO_ANSWER = "no answer within 5 s"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path / "far", {"GO": str(tmp_path / "go")}) as box:
        yield box


@pytest.fixture
def proxy(bed: SshBed) -> Iterator[TcpProxy]:
    with TcpProxy(bed.box.port) as between:
        yield between


@pytest.fixture
def me(tmp_path: Path, bed: SshBed, proxy: TcpProxy) -> Iterator[Front]:
    """Somebody whose run is at work on a box that costs money; what is between may swallow every byte."""
    ssh = shlex.join(bed.box.ssh_command_through(proxy.port))
    with front(tmp_path, {**bed.environment, "LEASEHOLD_SSH": ssh}) as person:
        person.write("train.py", TRAIN)
        person.job()
        added = person.lease("box", "add", "gpu1", "--ssh", "box", "--price", "1USD/h")
        assert added.code == 0, added.said
        begun = person.lease("run", "--on", "gpu1", "--detach", *NO_SMOKE)
        assert begun.code == 0, begun.said
        yield person
        (tmp_path / "go").touch()


def no_traceback(done: Done) -> Done:
    assert "Traceback" not in done.said and "leasehold.defect" not in done.said, done.said
    return done


def test_down_plan_says_whom_it_waits_for_and_refuses(me: Front, proxy: TcpProxy) -> None:
    proxy.stall()
    plan = no_traceback(me.lease("down", "toy", "--plan", "--wait", "5"))
    assert plan.code == 3, plan.said
    assert f"{WAITS}3 s of at most 5 s" in plan.said
    assert NO_ANSWER in plan.said
    told = me.lease("down", "toy", "--plan", "--wait", "5", "--json")
    gate = json.loads(told.out)["gate"]
    assert gate["outcome"] == "refused" and NO_ANSWER in gate["findings"][0]["what"], gate
    assert gate["findings"][0]["outcome"] == "unknown"
    assert WAITS in told.said


def test_what_ends_something_gives_up_and_has_done_nothing(me: Front, proxy: TcpProxy) -> None:
    proxy.stall()
    for words in (["stop", "toy"], ["pull", "toy"], ["attach", "toy"], ["attach", "toy", "--take-over"]):
        done = no_traceback(me.lease(*words, "--wait", "5"))
        assert done.code == 5, (words, done.said)
        assert WAITS in done.said and NO_ANSWER in done.said, (words, done.said)
    for words in (["park", "toy"], ["down", "toy"]):
        done = no_traceback(me.lease(*words, "--wait", "5"))
        assert done.code in (2, 3), (words, done.said)
    status = me.lease("status", "--refresh", "--wait", "5")
    assert status.code == 0 and NO_ANSWER in status.said and "no answer from gpu1" in status.said
    assert "unknown" in status.out


def test_a_waiver_is_asked_after_the_deadline(me: Front, proxy: TcpProxy) -> None:
    proxy.stall()
    said = Session(me, "unused").type("lease waive toy --wait 5", ("type exactly", "no"), code=3)
    assert WAITS in said and NO_ANSWER in said and "NOTHING was salvaged" in said


def test_a_box_that_falls_silent_in_a_conversation_is_given_up(me: Front, bed: SshBed) -> None:
    """Its sshd answers, and our program there hangs: ssh itself sees no reason to give up."""
    held: list[int] = []

    def hang() -> None:
        held.extend(serving(str(bed.root)))
        for pid in held:
            os.kill(pid, signal.SIGSTOP)

    waits, unknown = r"waiting for the answer to `follow` of gpu1: silent for \d+ s of at most 12 s", "state unknown"
    try:
        said = Session(me, "unused").type(
            "lease attach toy --wait 12", ("step 1/1", hang), (waits, lambda: None), (unknown, "^C"), code=130
        )
    finally:
        for pid in held:
            if pid in snapshot():
                os.kill(pid, signal.SIGKILL)
    assert held and "no answer within 12 s" in said and "Traceback" not in said


def serving(root: str) -> list[int]:
    found = []
    for pid in snapshot():
        try:
            words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and any(os.fsencode(root) in word for word in words):
            found.append(pid)
    return found


@pytest.mark.parametrize("words", [["down", "toy", "--plan"], ["stop", "toy"], ["pull", "toy"], ["attach", "toy"]])
def test_ctrl_c_ends_the_waiting_at_once(me: Front, proxy: TcpProxy, words: list[str]) -> None:
    proxy.stall()
    waits = Session(me, "unused").type(f"lease {shlex.join(words)} --wait 600", ("waiting for", "^C"), code=130)
    assert "Traceback" not in waits and "continues on its box" in waits


@pytest.fixture
def dropping() -> Iterator[int]:
    """A port whose connections are never taken: the kernel drops what more comes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        yield port
        for filler in fillers:
            filler.close()


def test_an_address_that_drops_packets_is_given_up_in_time(me: Front, bed: SshBed, dropping: int) -> None:
    lost = shlex.join(bed.box.ssh_command_through(dropping))
    plan = no_traceback(me.lease("down", "toy", "--plan", "--wait", "5", LEASEHOLD_SSH=lost))
    assert plan.code == 3 and WAITS in plan.said and NO_ANSWER in plan.said, plan.said
    stop = no_traceback(me.lease("stop", "toy", "--wait", "5", LEASEHOLD_SSH=lost))
    assert stop.code == 5 and NO_ANSWER in stop.said, stop.said


def test_a_wait_that_is_no_time_is_refused(me: Front) -> None:
    for wrong in ("0", "-3", "inf", "nan"):
        refused = me.lease("down", "toy", "--plan", f"--wait={wrong}")
        assert refused.code == 2 and "--wait" in refused.said, refused.said
