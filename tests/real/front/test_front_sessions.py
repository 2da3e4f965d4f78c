"""New users at a real terminal, from an empty folder to the end of the meter; their screens are golden files."""

from __future__ import annotations

import getpass
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.kit.files.atomic import write_json
from tests.support.beds import SshBed, running, ssh_bed
from tests.support.front import NO_SMOKE, Front, Tmpfs, front
from tests.support.lives import eventually
from tests.support.screens import Session

# Waits until the caretaker has noted its start, speaks once, waits for the test's word, and goes on: the order of
# what is told does not depend on speed.
TRAIN = """import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()
out = os.environ["LEASE_OUT"]
waits = "LEASE_SMOKE" not in os.environ
while waits and "attempt_started" not in open(os.path.join(out, "..", "..", "journal.jsonl")).read():
    time.sleep(0.05)
loss = 1.0
for step in range(1, args.steps + 1):
    loss /= 2
    print(f"step {step}/{args.steps} loss {loss:.4f}", flush=True)
    while waits and not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
with open(os.path.join(out, "metrics.json"), "w") as file:
    json.dump({"loss": loss}, file)
"""
JOB = "name: toy\nrun: python3 -I -S train.py\nartifacts: {metrics.json: {loads: json, keys: [loss]}}\n"
SEEN_ALIVE = "seen alive over a second connection"


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person with an empty folder."""
    with front(tmp_path, {"GO": str(tmp_path / "go")}) as person:
        yield person


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    """Give a box behind a real sshd, whose trainers know where the word will be."""
    with ssh_bed(tmp_path / "far", {"GO": str(tmp_path / "go")}) as box:
        yield box


@pytest.fixture
def far(me: Front, bed: SshBed) -> Front:
    """Give a person with a job and a box to run it on."""
    me.environment.update(bed.environment)
    me.write("train.py", TRAIN)
    me.write("lease.yaml", JOB)
    return me


def go(person: Front) -> None:
    (person.folder / "go").touch()


# ---------------------------------------------------------------- (a) from nothing to the plan of the end


def test_a_new_user_from_an_empty_folder_to_the_plan_of_the_end(me: Front) -> None:
    session = Session(me, "first-day")
    session.type("lease run", code=2)
    session.type("lease init")
    session.type("lease run", code=3)
    session.note("writes train.py, and in lease.yaml: run, smoke and artifacts; misspells one")
    me.write("train.py", TRAIN)
    me.write("lease.yaml", JOB + "smokes: python3 train.py --steps 2\n")
    session.type("lease check smoke", code=2)
    me.write("lease.yaml", JOB + "smoke: python3 train.py --step 2 --fast\n")
    session.note("corrects the word")
    session.type("lease check smoke", code=3)
    me.write("lease.yaml", JOB + "smoke: python3 train.py --steps 2\n")
    session.note("corrects the command")
    session.type("lease check smoke")
    session.type("lease run", (SEEN_ALIVE, lambda: go(me)))
    session.type("lease status")
    session.type("lease run")
    session.type("lease down toy --plan")
    session.check()


def test_a_project_that_is_there_is_read(me: Front) -> None:
    me.write("train.py", TRAIN)
    session = Session(me, "init-a-project")
    session.type("lease init")
    session.type("lease init", code=2)
    session.type("lease check smoke")
    session.check()


# ---------------------------------------------------------------- (b) a box that is not fit


@pytest.mark.namespaces
def test_a_box_that_is_not_fit(me: Front) -> None:
    me.write("train.py", TRAIN)
    me.write("lease.yaml", JOB + "resources: {gpu: {name: A100}, disk: 50GB}\n")
    (me.folder / "small disk").mkdir()
    disk = Tmpfs(me.folder / "small disk", "size=64m,nr_inodes=1000")
    machine = [(r"ok  memory limit .*", "ok  memory limit <n>"), (r"ok  CPU: .*", "ok  CPU: <n>")]
    session = Session(me, "unfit-box", [*machine, (r"ok  /dev/shm .*", "ok  /dev/shm <n>")])
    session.type(f"lease check audit --root '{disk.place}'", disk=disk, code=3)
    session.type(f"lease run --root '{disk.place}'", disk=disk, code=3)
    session.check(sizes=True)


# ---------------------------------------------------------------- (c) another laptop


@pytest.mark.real_ssh
def test_a_run_is_attached_to_from_another_laptop_and_pulled_there(far: Front, bed: SshBed) -> None:
    session = Session(
        far,
        "another-laptop",
        [(rf"{getpass.getuser()} on \S+", "<who>"), (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC", "<time>")],
    )
    session.type("lease run --on ssh:box --detach")
    session.note("at the other laptop, which has an empty home")
    far.environment["LEASEHOLD_HOME"] = str(far.folder / "second home")
    session.type("lease status")
    session.type("lease attach toy", code=2)
    session.type("lease attach nothing --on ssh:box", code=2)
    session.type("lease attach toy --on ssh:box", ("step 1/5", lambda: go(far)))
    session.type("lease pull toy")
    session.type("lease status")
    session.type("lease down toy --plan", code=3)
    session.note("the first laptop was stolen")
    session.type("lease attach toy --take-over", ("type exactly", "yes"), code=3)
    session.type("lease attach toy --take-over", (r"type exactly:  (.*)\r\n", f"take over {_only_run(far, bed)}"))
    session.type("lease down toy --plan", code=3)
    session.note("this laptop is the box as well, and a person knows it")
    session.type("lease down toy --plan --facts-checked 'one machine'")
    session.note("the first laptop is found again")
    far.environment["LEASEHOLD_HOME"] = str(far.home)
    session.type("lease stop toy", code=3)
    session.type("lease down toy --plan", code=3)
    session.check()


def _only_run(person: Front, bed: SshBed) -> str:
    (path,) = (bed.root / "active").iterdir()
    return path.name


# ---------------------------------------------------------------- (d) the meter


class Listener:
    """A loopback server that keeps what is posted to it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], str]] = []
        listener = self

        class Door(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode("utf-8")
                listener.seen.append((self.path, dict(self.headers.items()), body))
                self.send_response(200)
                self.end_headers()

            def do_GET(self) -> None:
                found = self.path == "/data/runs"
                body = b'["toy/train", "old"]' if found else b"a page"
                self.send_response(200 if found else 404)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.port = self.server.server_port
        self.address = f"http://127.0.0.1:{self.port}"


@contextmanager
def listening() -> Iterator[Listener]:
    listener = Listener()
    thread = threading.Thread(target=listener.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.server.shutdown()
        listener.server.server_close()


def test_channels_are_kept_listed_without_their_secret_and_tried(me: Front) -> None:
    with listening() as listener:
        session = Session(me, "notify", [(str(listener.port), "<port>")])
        session.type("lease notify list")
        session.type("lease notify test", code=2)
        session.type(f"lease notify add ntfy {listener.address}/my-secret-topic")
        session.type("lease notify add pigeon https://example.com/x", code=2)
        session.type("lease notify add webhook not-a-url", code=2)
        session.type(f"lease notify add webhook {listener.address}/hook?token=secret")
        listed = session.type("lease notify list")
        session.type("lease notify test")
        (_, ntfy, text), (_, hook, body) = listener.seen
        session.type("lease notify remove 2")
        session.type("lease notify remove 2", code=2)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        session.note("the server is gone")
        session.type("lease notify test", code=1)
    assert "secret" not in listed
    assert (me.home / "notify.json").stat().st_mode & 0o777 == 0o600
    assert (ntfy["Title"], ntfy["Priority"], ntfy["Tags"]) == ("leasehold test", "default", "computer")
    assert text.startswith("A test from lease notify test")
    assert hook["Content-Type"] == "application/json"
    assert json.loads(body)["event"] == "test"
    session.check()


@pytest.mark.real_ssh
def test_a_finished_box_nags_at_home_and_from_the_box_until_given_up(far: Front, bed: SshBed) -> None:
    with listening() as listener:
        session = Session(far, "meter", [(str(listener.port), "<port>"), (r"\b\d+\.\d{2,3} ?USD\b(?!/)", "<cost>")])
        session.type(f"lease notify add webhook {listener.address}/hook")
        session.type(
            "lease run --on ssh:box --price 1.98USD/h --detach --skip-gate smoke --because 'it waits for a file'"
        )
        (wishes,) = (bed.root / "secrets").glob("*.notify.json")
        assert wishes.stat().st_mode & 0o777 == 0o600
        kept = json.loads(wishes.read_text())
        write_json(str(wishes), {**kept, "after_s": [0.01, 0.02], "every_s": 0.1})  # not 15 min, 1 h, 4 h
        go(far)
        assert eventually(lambda: len(listener.seen) >= 3)
        session.note("two hours later; the telephone has buzzed")
        session.type("lease watch toy")
        session.type("lease status")
        session.type("lease pull toy")
        session.type("lease status")
        session.type("lease down toy", code=3)
        checked = "--facts-checked 'one machine'"
        session.type(f"lease down toy {checked}", ("type exactly", "no"), code=3)
        session.type(f"lease down toy {checked}", (r"type exactly:  (.*)\r\n", "stop-by-hand " + _lease_id(far)))
        run = wishes.name.split(".")[0]
        place = str(bed.root / "active" / run)  # what it said last may still be on its way
        assert eventually(lambda: not running("nag", place) and not running("tell", place))
        quiet = len(listener.seen)
        session.type("lease status")
        bed.box.stop()
        session.note("the console shows it stopped")
        session.type("lease down toy --stopped", ("type exactly", "stopped " + _lease_id(far)))
        session.type("lease status")
        assert len(listener.seen) == quiet
    first = json.loads(listener.seen[0][2])
    assert (first["event"], first["state"], first["run"], first["box"]) == ("run_finished", "finished", run, "ssh:box")
    assert "The box still bills 1.98" in first["text"]
    session.check()


def _lease_id(person: Front) -> str:
    done = person.lease("status", "--json")
    return str(json.loads(done.out)["runs"][0]["lease"])


# ---------------------------------------------------------------- (e) a panel on the box


@pytest.mark.real_ssh
def test_a_tunnel_says_what_answers_behind_it(far: Front, bed: SshBed) -> None:
    go(far)
    assert far.lease("run", "--on", "ssh:box", "--detach").code == 0
    with listening() as listener, socket.socket() as silent, socket.socket() as odd:
        silent.bind(("127.0.0.1", 0))
        odd.bind(("127.0.0.1", 0))
        odd.listen()
        threading.Thread(target=_grumble, args=(odd,), daemon=True).start()
        ports = {"panel": listener.port, "silent": silent.getsockname()[1], "odd": odd.getsockname()[1]}
        session = Session(far, "tunnel", [(rf"\b{port}\b", f"<{name}>") for name, port in ports.items()])
        session.type(f"lease tunnel toy {ports['panel']} --once")
        session.type(f"lease tunnel toy {ports['silent']} --once")
        session.type(f"lease tunnel toy {ports['odd']} --once")
        session.type(f"lease tunnel toy {ports['panel']} --local-port {ports['panel']} --once", code=2)
        session.type("lease tunnel toy tensorboard", code=2)
        session.type(f"lease tunnel toy {ports['panel']}", ("Ctrl-C closes the tunnel", "^C"))
    session.check()
    assert eventually(lambda: not tunnels(bed)), "a tunnel stays open"


def tunnels(bed: SshBed) -> list[int]:
    """List the tunnels to this box."""
    return [pid for pid in running("-N", "-oExitOnForwardFailure=yes") if pid in running("-F", str(bed.box.config))]


def _grumble(door: socket.socket) -> None:
    """Answer like a service that does not speak HTTP."""
    while True:
        try:
            caller, _ = door.accept()
        except OSError:
            return
        with caller:
            caller.recv(4096)
            caller.sendall(b"-ERR unknown command\r\n")


def test_here_a_tunnel_needs_no_tunnel(me: Front) -> None:
    me.write("train.py", TRAIN)
    me.write("lease.yaml", JOB)
    go(me)
    assert me.lease("run").code == 0
    with listening() as listener:
        done = me.lease("tunnel", "toy", str(listener.port), "--once", "--json")
    assert json.loads(done.out)["url"] == f"http://127.0.0.1:{listener.port}/"
    assert json.loads(done.out)["panel"] == "tensorboard"


# ---------------------------------------------------------------- (f) which box was it


def test_down_without_a_name_lists_what_is_open(me: Front) -> None:
    done = me.lease("down")
    assert (done.code, done.out) == (0, "") and "no lease is open" in done.said
    go(me)
    me.write("train.py", TRAIN)
    me.write("lease.yaml", JOB)
    ran = me.lease("run", "--price", "1.98USD/h", *NO_SMOKE)
    assert ran.code == 0, ran.said
    done = me.lease("down")
    assert done.code == 2
    head, row = done.out.splitlines()
    assert head.split() == ["LEASE", "BOX", "OPEN", "FOR", "COST", "RUNS"]
    assert row.startswith("local-1") and row.endswith("toy finished")
    assert "lease down local-1 --plan" in done.said
    listed = json.loads(me.lease("down", "--json").out)["leases"]
    assert [item["lease"] for item in listed] == ["local-1"]
