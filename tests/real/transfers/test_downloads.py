"""Downloads of real runs on this machine as a box: resumed, checked, shown, kept, and honest when they fail."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.kit.files import journal
from tests.support.beds import running
from tests.support.front import LEASE, Front, Tmpfs, front
from tests.support.lives import eventually, kill
from tests.support.web import Asked, Handler, Hub, Web, cut, web

DATA = random.Random(3).randbytes(400_000)
SHA = hashlib.sha256(DATA).hexdigest()
TRAIN = """
import hashlib, json, os
data = os.environ['LEASE_DATA']
seen = {}
for folder, _, names in os.walk(data):
    for name in names:
        path = os.path.join(folder, name)
        if '.leasehold' not in path:
            seen[os.path.relpath(path, data)] = hashlib.sha256(open(path, 'rb').read()).hexdigest()
json.dump({'seen': seen}, open(os.path.join(os.environ['LEASE_OUT'], 'result.json'), 'w'))
"""
RUN = f"{sys.executable} -I -S train.py"
QUICK = {"stall_s": 600, "pause_s": 0.05, "tries": 4, "probe_s": 0.2, "report_s": 0.0}


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as found:
        yield found


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Give a person whose job lists what was fetched for it."""
    kept = {"LEASEHOLD_CONFIG": str(tmp_path / "config"), "LEASEHOLD_FETCH": json.dumps(QUICK)}
    with front(tmp_path, kept) as person:
        person.write("train.py", TRAIN)
        yield person


def wanted(me: Front, *downloads: Any, **more: Any) -> None:
    me.job(run=RUN, downloads=list(downloads), **more)


def seen(me: Front) -> dict[str, str]:
    """What the trainer found in LEASE_DATA."""
    found = sorted((me.project / "lease-results" / "export").glob("*/cells/main/result.json"))
    return dict(json.loads(found[-1].read_text())["seen"])


def run_folder(me: Front) -> Path:
    return me.box_root / "active" / me.runs_on_box()[-1]


def events(me: Front, kind: str = "") -> list[dict[str, Any]]:
    if not me.runs_on_box():
        return []
    found = journal.read_from(str(run_folder(me) / "journal.jsonl"), 0)[0]
    return [event for event in found if not kind or event["k"] == kind]


def test_a_file_comes_before_the_trainer_and_is_found_by_the_next_run(me: Front, server: Web) -> None:
    wanted(me, {"from": server.file("/f", DATA) + "?token=query-secret", "to": "set/f.bin", "sha256": SHA})
    done = me.lease("run")
    assert done.code == 0, done.said
    assert seen(me) == {"set/f.bin": SHA}
    kinds = [event["k"] for event in events(me)]
    assert kinds.index("download_done") < kinds.index("attempt_starting")
    assert "downloaded set/f.bin: 1 file, 400.0 kB" in done.said and "speed by route: 127.0.0.1" in done.said
    assert "query-secret" not in done.said
    assert not [event for event in events(me) if "query-secret" in json.dumps(event)]
    again = me.lease("run", "--again")
    assert again.code == 0, again.said
    assert "all downloads (1) are already there" in again.said
    assert len(server.asked) == 1


def test_a_repository_comes_by_the_mirror_with_the_jobs_token(me: Front, server: Web) -> None:
    hub = Hub(server, "org/name", {"config.json": b"{}", "model.safetensors": DATA, "skip.bin": b"x"})
    wanted(
        me, {"from": "hf:org/name:*[!p].[js]*", "to": "weights"}, env={"HF_ENDPOINT": server.base}, secrets=["HF_TOKEN"]
    )
    done = me.lease("run", HF_TOKEN="hf-private")
    assert done.code == 0, done.said
    assert seen(me) == {"weights/config.json": hashlib.sha256(b"{}").hexdigest(), "weights/model.safetensors": SHA}
    assert {asked.headers.get("authorization") for asked in server.asked} == {"Bearer hf-private"}
    assert events(me, "download_done")[0]["commit"] == hub.commit
    assert "hf-private" not in done.said + json.dumps(events(me))


def test_a_bad_network_is_survived(me: Front, server: Web) -> None:
    me.environment["LEASEHOLD_FETCH"] = json.dumps({**QUICK, "stall_s": 5})  # no honest answer here takes so long
    stalls = cut(DATA, 100_000, "stall", server.over)
    resets = cut(DATA, 100_000, "reset")

    def reply(handler: Handler, asked: Asked) -> None:
        (stalls if len(server.asked) == 1 else resets)(handler, asked)

    wanted(me, {"from": server.reply("/f", reply), "to": "f", "sha256": SHA})
    done = me.lease("run")
    assert done.code == 0, done.said
    assert seen(me) == {"f": SHA}
    begins = [asked.begin for asked in server.asked]
    assert len(begins) == 3 and begins[0] == 0 < begins[1] < begins[2]
    assert "no byte came in time" in done.said
    assert events(me, "download_progress")


def test_what_cannot_be_had_ends_the_run_with_the_reason(me: Front, server: Web) -> None:
    wanted(me, {"from": server.base + "/absent?sig=query-secret", "to": "f"})
    done = me.lease("run")
    assert done.code != 0
    assert f"download.failed: {server.base}/absent to f: HTTP 404" in done.said
    assert "query-secret" not in done.said
    assert events(me, "attempt_starting") == []
    server.file("/absent", DATA)  # the identical command goes on once it is there
    done = me.lease("run")
    assert done.code == 0, done.said
    assert seen(me) == {"f": SHA}


def test_a_failing_hook_ends_the_run_before_the_download(me: Front, server: Web) -> None:
    place = me.folder / "config" / "profiles"
    place.mkdir(parents=True)
    (place / "local.yaml").write_text('{"extends": "local", "environment": {"hook": "echo no proxy; (exit 5)"}}')
    wanted(me, {"from": server.file("/f", DATA), "to": "f"})
    done = me.lease("run")
    assert done.code != 0
    assert "hook_failed: the platform's hook" in done.said and "no proxy" in done.said
    assert server.asked == [] and len(events(me, "hook_failed")) == 1


@pytest.fixture
def midway(me: Front, server: Web) -> Iterator[subprocess.Popen[bytes]]:
    """Give a run whose download stands still halfway."""
    wanted(me, {"from": server.reply("/f", cut(DATA, 150_000, "stall", server.over)), "to": "f", "sha256": SHA})
    child = subprocess.Popen(
        [*LEASE, "run"], cwd=me.project, env=me.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert eventually(lambda: any(e.get("have", 0) >= 150_000 for e in events(me, "download_progress")))
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def test_a_killed_caretaker_comes_back_and_the_download_goes_on(
    me: Front, server: Web, midway: subprocess.Popen[bytes]
) -> None:
    (worker,) = running("pull", str(run_folder(me)))
    kill(running("care", str(run_folder(me))))
    assert eventually(lambda: bool(running("care", str(run_folder(me)))))
    assert running("pull", str(run_folder(me))) == [worker]
    os.kill(worker, signal.SIGTERM)  # and a lost worker is replaced by one that goes on
    assert midway.wait(60) == 0
    assert seen(me) == {"f": SHA}
    assert [asked.begin for asked in server.asked] == [0, 150_000]
    assert len(events(me, "download_worker_lost")) == 1 and len(events(me, "caretaker_started")) == 1


def test_everything_killed_at_once_is_continued_by_the_identical_command(
    me: Front, server: Web, midway: subprocess.Popen[bytes]
) -> None:
    midway.kill()
    folder = str(run_folder(me))
    kill([*running("fetch", folder), *running("care", folder), *running("pull", folder)])
    done = me.lease("run")
    assert done.code == 0, done.said
    assert seen(me) == {"f": SHA}
    assert [asked.begin for asked in server.asked] == [0, 150_000]


def test_a_run_that_fetches_can_be_stopped_and_goes_on_later(
    me: Front, server: Web, midway: subprocess.Popen[bytes]
) -> None:
    folder = str(run_folder(me))
    stopped = me.lease("stop", me.runs_on_box()[0])
    assert stopped.code == 0, stopped.said
    assert eventually(lambda: bool(events(me, "run_stopped")))
    assert eventually(lambda: not running("pull", folder) and not running("fetch", folder))
    midway.wait(60)
    done = me.lease("run")
    assert done.code == 0, done.said
    assert [asked.begin for asked in server.asked] == [0, 150_000]


def test_two_runs_that_want_one_file_fetch_it_once(me: Front, server: Web, midway: subprocess.Popen[bytes]) -> None:
    first = run_folder(me)
    value = json.loads((me.project / "lease.yaml").read_text())
    (me.project / "other.yaml").write_text(json.dumps({**value, "name": "other"}))
    second = subprocess.Popen(
        [*LEASE, "run", "other.yaml"], cwd=me.project, env=me.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        folder = me.box_root / "active"
        assert eventually(lambda: any(folder.glob("other-*/downloads.jsonl")))
        waiting = next(folder.glob("other-*/downloads.jsonl"))
        assert eventually(lambda: "download_waiting" in waiting.read_text())
        kill(running("pull", str(first)))  # its successor goes on
        assert midway.wait(60) == 0
        assert second.wait(60) == 0
    finally:
        second.kill()
        second.wait()
    assert [asked.begin for asked in server.asked] == [0, 150_000]


def test_a_launch_does_not_wait_for_a_first_line_while_the_box_fetches(me: Front, server: Web) -> None:
    wanted(me, {"from": server.reply("/f", cut(DATA, 150_000, "stall", server.over)), "to": "f", "sha256": SHA})
    done = me.lease("run", "--detach")
    assert done.code == 0, done.said
    (verdict,) = [event for event in me.events("gate_judged") if event["gate"] == "launch"]
    assert "downloads are still under way" in json.dumps(verdict)
    server.over.set()
    assert eventually(lambda: bool(events(me, "run_finished")))


@pytest.mark.namespaces
def test_a_disk_that_cannot_hold_it_is_said_before_the_first_byte(me: Front, server: Web) -> None:
    def reply(handler: Handler, asked: Asked) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(300 << 20))
        handler.end_headers()
        server.over.wait(600)

    place = me.folder / "small disk"
    place.mkdir()
    wanted(me, {"from": server.reply("/f", reply), "to": "f"})
    words = ("run", "--root", str(place), "--skip-gate", "audit", "--because", "a small disk is the point")
    done = me.lease(*words, disk=Tmpfs(place, "size=200m"))
    assert done.code != 0
    assert "download.failed" in done.said and "bytes free, and 381681664 more are needed" in done.said
    assert len(server.asked) == 1


def test_downloads_alone_need_no_card_and_are_found_by_the_run(me: Front, server: Web) -> None:
    wanted(me, {"from": server.file("/f", DATA), "to": "f.bin"}, resources={"gpu": {"name": "H100"}})
    done = me.lease("fetch", "--on", "local")
    assert done.code == 0, done.said
    assert "fetched and checked" in done.said and me.runs_on_box()[0].startswith("toy-fetch-")
    assert me.lease("fetch", "--on", "local").code == 0, "the second time it is there"
    wanted(me, {"from": server.file("/f", DATA), "to": "f.bin"})
    ran = me.lease("run")
    assert ran.code == 0, ran.said
    assert seen(me) == {"f.bin": SHA}
    assert len(server.asked) == 1
    assert me.lease("down", "local-1", "--plan").code == 0, "what promises nothing holds no lease open"


def test_downloads_alone_that_fail_are_told_and_resume(me: Front, server: Web) -> None:
    wanted(me, {"from": f"{server.base}/nothing", "to": "f.bin"})
    done = me.lease("fetch", "--on", "local")
    assert done.code == 6, done.said
    assert "download.failed" in done.said


def test_a_job_without_downloads_has_nothing_to_fetch(me: Front) -> None:
    me.job(run=RUN)
    done = me.lease("fetch", "--on", "local")
    assert done.code == 2 and "error[fetch.nothing]" in done.said
