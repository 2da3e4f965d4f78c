"""A run that broke gives what it has, whatever broke: said artifact by artifact, and never as a receipt."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.reading import newest_whole
from tests.support.beds import SshBed, running, ssh_bed
from tests.support.front import LEASE, NO_SMOKE, Done, Front, Tmpfs, front
from tests.support.lives import eventually
from tests.support.parts import find_program
from tests.support.sweeps import running as going_on
from tests.support.sweeps import said_by
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.real_ssh

MIB = 1 << 20
TRAIN = """import json, os, pickle, time
from pathlib import Path
out = Path(os.environ["LEASE_OUT"])
size = int(os.environ.get("STATE_BYTES", "2000"))
step = 0
def replace(name, data):
    (out / (name + ".tmp")).write_bytes(data)
    os.replace(out / (name + ".tmp"), out / name)
while not Path("go").exists():
    step += 1
    print("step %d/100000 loss 0.5" % step, flush=True)
    replace("best.json", json.dumps({"step": step, "all": [step] * 3000}).encode())
    (out / "metrics.json").write_text(json.dumps({"step": step, "all": [step] * 100}))
    if step % 5 == 1:
        replace("last.pkl", pickle.dumps({"step": step, "noise": os.urandom(size)}))
    if Path("fail").exists():
        raise RuntimeError("the loss is not what it was")
    time.sleep(0.02)
(out / "result.json").write_text('{"loss": 1}')
"""
JOB: dict[str, Any] = {
    "name": "toy",
    "run": "python3 train.py",
    "artifacts": {"best.json": "json", "metrics.json": "json", "last.pkl": "bytes", "result.json": "json"},
    "checkpoint": {"path": "last.pkl"},
    "smoke": None,
    "attempts": 1,
}


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SshBed]:
    with ssh_bed(tmp_path) as made:
        yield made


@pytest.fixture
def person(tmp_path: Path, bed: SshBed) -> Iterator[Front]:
    with front(tmp_path, bed.environment) as made:
        made.write("train.py", TRAIN)
        made.job(**JOB)
        yield made


def launch(person: Front, bed: SshBed) -> tuple[str, Path]:
    """Begin the run; return it and its folder once a state is there."""
    done = person.lease("run", "--on", "ssh:box", "--detach")
    assert done.code == 0, done.said
    run = done.out.strip()
    folder = bed.root / "active" / run
    assert eventually((folder / "out" / "main" / "last.pkl").exists)
    return run, folder


def pulled(person: Front, *words: str, code: int = 6) -> dict[str, Any]:
    done = person.lease("pull", *words, "--json")
    assert done.code == code, (done.out, done.said)
    value: dict[str, Any] = json.loads(done.out)
    assert value["receipt"] is None
    return value


def standings(evacuated: dict[str, Any]) -> dict[str, str]:
    return {one["pattern"]: one["standing"] for one in evacuated["artifacts"]}


ALL_BUT_THE_RESULT = {"best.json": "home", "metrics.json": "home", "last.pkl": "home", "result.json": "absent"}


def all_pulled(person: Front, run: str) -> dict[str, Any]:
    """Pull until all came: a file that is rewritten faster than a busy machine proves it whole is in a later pull."""
    values: list[dict[str, Any]] = []

    def came() -> bool:
        values.append(pulled(person, run))
        return standings(values[-1]["evacuated"]) == ALL_BUT_THE_RESULT

    assert eventually(came), standings(values[-1]["evacuated"])
    return values[-1]


def consistent(place: str, name: str) -> None:
    """Check that a file that was replaced or rewritten all the time is one version."""
    value = json.loads(Path(place, "cells", "main", name).read_text())
    assert set(value["all"]) == {value["step"]}


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not any(Path("/proc", str(pid)).exists() for pid in pids))


def test_a_live_run_gives_files_that_it_replaces_all_the_time(person: Front, bed: SshBed) -> None:
    run, folder = launch(person, bed)
    for _ in range(3):
        value = all_pulled(person, run)
        for name in ("best.json", "metrics.json"):
            consistent(value["evacuated"]["place"], name)
        assert value["evacuated"]["states"][0]["path"] == "last.pkl"
        assert "goes on" in value["no_receipt"]
    assert list((folder / "views").iterdir()) == []
    assert not list((person.project / "lease-results").rglob("receipt.json"))


def test_a_stopped_run_says_what_came_and_that_there_is_no_receipt(person: Front, bed: SshBed) -> None:
    run, _ = launch(person, bed)
    assert person.lease("stop", run).code == 0
    done = person.lease("pull", run)
    assert done.code == 6, done.said
    assert "main: result.json  not there yet" in done.said
    assert "main: best.json  home, hash-equal: 1 file" in done.said
    assert "newest state of main: last.pkl, saved" in done.said
    assert "No receipt" in done.said and f"lease resume {run}" in done.said


def test_a_run_that_failed_with_a_traceback_gives_its_files_and_its_log(person: Front, bed: SshBed) -> None:
    run, folder = launch(person, bed)
    (folder / "work" / "main" / "fail").touch()
    assert person.lease("watch", run).code in (0, 6)
    value = pulled(person, run)["evacuated"]
    assert value["state"] == "failed" and standings(value) == ALL_BUT_THE_RESULT
    (log,) = Path(value["place"]).glob("evidence/main/attempt-*/log")
    assert "the loss is not what it was" in log.read_text()


@pytest.mark.parametrize("dead", ["caretaker", "keeper", "both"])
def test_what_dead_helpers_left_comes_home(person: Front, bed: SshBed, dead: str) -> None:
    run, folder = launch(person, bed)
    if dead != "keeper":
        kill(*running("care", str(folder)))
    if dead != "caretaker":
        kill(*running("keep", str(folder)))
    all_pulled(person, run)


if os.geteuid() != 0:  # root reads every file

    def test_an_unreadable_artifact_is_named_and_keeps_no_other(person: Front, bed: SshBed) -> None:
        run, folder = launch(person, bed)
        assert person.lease("stop", run).code == 0
        (folder / "out" / "main" / "best.json").chmod(0)
        value = pulled(person, run)["evacuated"]
        assert standings(value) == {**ALL_BUT_THE_RESULT, "best.json": "unreadable"}


def test_a_sweep_in_part_gives_a_receipt_and_copies_of_the_rest(person: Front, bed: SshBed) -> None:
    ends = "if json.loads(os.environ['LEASE_PARAMS'])['ends']: Path('go').touch()\nwhile not Path"
    files = "for n in ('best.json', 'metrics.json', 'last.pkl'): replace(n, b'{}')\n(out / \"result.json\")"
    person.write("train.py", TRAIN.replace("while not Path", ends, 1).replace('(out / "result.json")', files))
    person.job(**{**JOB, "cells": {"list": [{"name": "a", "ends": True}, {"name": "b", "ends": False}]}})
    done = person.lease("run", "--on", "ssh:box", "--detach")
    assert done.code == 0, done.said
    run = done.out.strip()
    assert eventually((bed.root / "active" / run / "out" / "b" / "last.pkl").exists)
    both = person.lease("pull", run, "--json")
    assert both.code == 6, both.said
    value = json.loads(both.out)
    assert value["receipt"]["cells"] == ["a"]
    found = {(one["cell"], one["pattern"]): one["standing"] for one in value["evacuated"]["artifacts"]}
    assert found["a", "result.json"] == "verified" and found["b", "result.json"] == "absent"
    assert found["b", "last.pkl"] == "home"


# ---------------------------------------------------------------- states


def newest(person: Front, run: str) -> Any:
    found = newest_whole(FolderPlace(str(person.project / "lease-results" / "states")), run, "main")
    assert found is not None
    return found


def test_the_newest_states_come_home_whole_and_two_stay(person: Front, bed: SshBed) -> None:
    run, folder = launch(person, bed)
    seen = []
    for _ in range(3):
        value = pulled(person, "--state", run, "--rate", "20MB/s", code=0)
        (one,) = value["runs"]
        assert one["new"] == ["main"] and one["states"][0]["loads"] == "loads"
        seen.append(newest(person, run).id)
    assert len(set(seen)) == 3
    place = person.project / "lease-results" / "states" / "leasehold" / "refuge" / run / "cells" / "main" / "states"
    assert sorted(path.name for path in place.iterdir() if path.is_dir()) == sorted(seen[1:])
    assert "home is a refuge only while this machine runs" in person.lease("pull", "--state", run).said
    assert not list((person.project / "lease-results").rglob("receipt.json"))
    assert list((folder / "views").iterdir()) == []


def test_a_job_without_a_checkpoint_says_what_to_write(person: Front, bed: SshBed) -> None:
    person.job(**{**JOB, "checkpoint": None})
    done = person.lease("run", "--on", "ssh:box", "--detach")
    assert done.code == 0, done.said
    refused = person.lease("pull", "--state", done.out.strip())
    assert refused.code == 2 and "state.no_checkpoint" in refused.said


def test_a_killed_home_keeps_the_older_state_and_goes_on_at_the_byte(tmp_path: Path, bed: SshBed) -> None:
    """The trainer replaces its state all the while: what was begun is held on the box, and comes first."""
    with TcpProxy(bed.box.port) as proxy:
        ssh = shlex.join(bed.box.ssh_command_through(proxy.port))
        with front(tmp_path, {**bed.environment, "LEASEHOLD_SSH": ssh}) as person:
            person.write("train.py", TRAIN)
            person.job(**JOB, env={"STATE_BYTES": str(6 * MIB)})
            run, _ = launch(person, bed)
            pulled(person, "--state", run, code=0)
            older = newest(person, run)
            arrived = person.project / "lease-results" / "states" / ".coming" / run / "arrived.jsonl"
            with going_on(person, "pull", "--state", run, "--rate", "1MB/s") as home:
                assert eventually(lambda: arrived.exists() and arrived.read_text().count("\n") >= 2), said_by(home)
                home.kill()
                home.wait()
            assert newest(person, run).id == older.id, "nothing half is published"
            begun = sum(end - start for _, start, end in map(json.loads, arrived.read_text().splitlines()))
            before = proxy.carried_bytes()
            value = pulled(person, "--state", run, code=0)
            carried = proxy.carried_bytes() - before
            assert value["runs"][0]["new"] == ["main"]
            assert newest(person, run).state.made_unix > older.state.made_unix
            assert begun >= MIB and carried < 2 * 6 * MIB - begun + 3 * MIB, "one rest and one newer state"


def test_a_link_that_is_cut_again_and_again_cannot_starve_a_state(tmp_path: Path, bed: SshBed) -> None:
    with TcpProxy(bed.box.port) as proxy:
        ssh = shlex.join(bed.box.ssh_command_through(proxy.port))
        with front(tmp_path, {**bed.environment, "LEASEHOLD_SSH": ssh}) as person:
            person.write("train.py", TRAIN)
            person.job(**JOB, env={"STATE_BYTES": str(8 * MIB)})
            run, _ = launch(person, bed)
            proxy.cut_after(3 * MIB, 3)
            value = pulled(person, "--state", run, code=0)
            assert value["runs"][0]["states"][0]["files"] == 1
            assert newest(person, run).state.bytes > 8 * MIB


def test_a_watch_brings_states_home_by_itself(person: Front, bed: SshBed) -> None:
    person.job(**{**JOB, "checkpoint": {"path": "last.pkl", "every": "1s", "refuge": ["home"]}})
    run, _ = launch(person, bed)
    with going_on(person, "watch", run) as home:
        assert eventually(lambda: said_by(home).count("state is home: main: last.pkl") >= 2), said_by(home)
        assert said_by(home).count("home is a refuge only while this machine runs") == 1
    assert newest(person, run).state.kind == "file"


# ---------------------------------------------------------------- the box does not answer


def unreachable(person: Front, run: str) -> tuple[dict[str, Any], Done]:
    done = person.lease("pull", run, "--wait", "3", "--json")
    assert done.code == 5, (done.out, done.said)
    value = json.loads(done.out)
    assert value["receipt"] is None and value["error"]["exit_code"] == 5
    found: dict[str, Any] = value["unreachable"]
    return found, person.lease("pull", run, "--wait", "3")


def test_an_unreachable_box_is_answered_with_what_is_home(person: Front, bed: SshBed) -> None:
    run, _ = launch(person, bed)
    all_pulled(person, run)
    pulled(person, "--state", run, code=0)
    bed.box.stop()
    found, screen = unreachable(person, run)
    assert standings(found) == {**ALL_BUT_THE_RESULT, "result.json": "unknown"}
    assert found["states"][0]["cell"] == "main" and found["refuges"] == []
    assert screen.code == 5
    assert "main: best.json  home, hash-equal: 1 file" in screen.said and "as of" in screen.said
    assert "it has no refuge but its box" in screen.said
    state = person.lease("pull", "--state", run, "--wait", "3", "--json")
    assert state.code == 5
    assert json.loads(state.out)["unreachable"][0]["states"][0]["cell"] == "main"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder on another disk than the box's, which home sees too."""
    if not os.path.ismount("/dev/shm"):
        pytest.skip("no /dev/shm here")
    made = Path(tempfile.mkdtemp(prefix="leasehold-shared-", dir="/dev/shm"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_what_a_refuge_holds_of_an_unreachable_run_comes_home(person: Front, bed: SshBed, shared: Path) -> None:
    person.job(**{**JOB, "checkpoint": {"path": "last.pkl", "size": "1MB", "refuge": ["durable"], "every": "1h"}})
    added = person.lease("box", "add", "gpu1", f"ssh -p {bed.box.port} box", "--durable", str(shared))
    assert added.code == 0, added.said
    done = person.lease("run", "--on", "gpu1", "--detach")
    assert done.code == 0, done.said
    run = done.out.strip()
    assert eventually(lambda: newest_whole(FolderPlace(str(shared)), run, "main")), "the box copies its states"
    bed.box.stop()
    found, screen = unreachable(person, run)
    assert found["came"] == ["main"]
    there = newest_whole(FolderPlace(str(shared)), run, "main")
    assert there is not None and newest(person, run).manifest_sha256 == there.manifest_sha256
    assert f"refuge {shared}: main: step unknown, saved" in screen.said


def test_down_says_what_is_home_and_what_a_waiver_gives_up(person: Front, bed: SshBed) -> None:
    done = person.lease("run", "--on", "ssh:box", "--price", "3.60USD/h", "--detach", *NO_SMOKE)
    assert done.code == 0, done.said
    run = done.out.strip()
    assert eventually((bed.root / "active" / run / "out" / "main" / "last.pkl").exists)
    assert person.lease("stop", run).code == 0
    refused = person.lease("down", "ssh:box", "--plan", "--json")
    assert refused.code == 3, refused.said
    (owed,) = json.loads(refused.out)["owed"]
    assert standings(owed)["best.json"] == "not_home" and owed["states"] == []
    pulled(person, run)
    refused = person.lease("down", "ssh:box", "--plan")
    assert refused.code == 3
    assert "main: best.json  home, hash-equal: 1 file" in refused.said
    assert "a waiver gives up its promised results; about" in refused.said
    assert f"next: lease pull --state {run}" in refused.said and f"next: lease waive {run} main" in refused.said


FILL = """import json, os
from pathlib import Path
out = Path(os.environ["LEASE_OUT"])
(out / "best.json").write_text(json.dumps({"step": 1}))
print("step 1/2 loss 0.5", flush=True)
with open(out / "result.json", "wb") as file:
    for _ in range(4096):
        file.write(b"0" * 65536)
        file.flush()
"""


def test_a_run_that_filled_its_box_gives_what_it_finished(tmp_path: Path) -> None:
    if find_program("unshare") is None:
        pytest.skip("no unshare here")
    with front(tmp_path) as person:
        person.write("train.py", FILL)
        artifacts = {"best.json": "json", "result.json": "json"}
        person.job(name="full", run="python3 -I -S train.py", artifacts=artifacts, smoke=None, attempts=1)
        (tmp_path / "disk").mkdir()
        disk = Tmpfs(tmp_path / "disk", "size=160m")
        audit = "--skip-gate audit --because 'the box itself shall say it'"
        lease = shlex.join(LEASE)
        script = f"{lease} run --on local --root {disk.place} {audit} >&2; {lease} pull full --json"
        done = subprocess.run(
            [*disk.words(), "/bin/sh", "-c", script],
            cwd=str(person.project), env=person.environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 6, done.stderr.decode()
        value = json.loads(done.stdout)
        assert value["evacuated"]["state"] == "failed"
        assert standings(value["evacuated"])["best.json"] == "home", (value, done.stderr.decode())
