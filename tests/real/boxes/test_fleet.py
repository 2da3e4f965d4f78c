"""`lease status --refresh` over several real sshds: silent, crowded and forgotten ones included."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.fleet import Fleet, SilentHost, settle
from tests.support.front import LEASE, Done, Front
from tests.support.lives import eventually

pytestmark = pytest.mark.real_ssh
HUNG = "127.0.1.99"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a name as short as sockets need."""
    with tempfile.TemporaryDirectory(prefix="lh-") as folder:
        yield Path(folder)


@pytest.fixture
def fleet(place: Path) -> Iterator[Fleet]:
    with Fleet(place / "far", 4) as far:
        yield far


def person(place: Path, fleet: Fleet, **more: str) -> Front:
    return Front(place, {"LEASEHOLD_SSH": f"ssh -F {fleet.config}", "LEASEHOLD_LINKS": str(place / "l"), **more})


def settled(place: Path, boxes: list[str]) -> None:
    for number, box in enumerate(boxes):
        settle(place / "home" / "ledger.sqlite", box, place / f"box{number}", [f"train-{number:010d}"])


def refreshed(me: Front, *words: str) -> dict:
    done: Done = me.lease("status", "--refresh", "--json", *words)
    assert done.code == 0, done.said
    return json.loads(done.out)


def title(pid: int) -> str:
    """How a process calls itself; nothing once it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def states(told: dict) -> dict[str, str]:
    return {row["box"]: row["state"] for row in told["runs"]}


def test_every_box_answers_and_is_written_down(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet)
    boxes = [f"ssh:{address}" for address in fleet.addresses]
    settled(place, boxes)
    told = refreshed(me)
    assert states(told) == dict.fromkeys(boxes, "finished")
    assert told["boxes"] == {"asked": 4, "answered": 4, "silent": []}
    assert states(json.loads(me.lease("status", "--json").out)) == states(told)


def test_a_silent_host_is_unknown_by_name_and_the_others_are_not(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet)
    settled(place, [f"ssh:{HUNG}", *(f"ssh:{address}" for address in fleet.addresses)])
    with SilentHost(HUNG, fleet.port):  # the others have time enough, and ssh itself would give up after 15 s
        done = me.lease("status", "--refresh", "--wait", "10")
    assert done.code == 0
    rows = [line.split()[1:3] for line in done.out.splitlines() if line.startswith("train-0")]
    assert ["unknown", f"ssh:{HUNG}"] == rows[-1], "the silent one's row is the last"
    assert sorted(rows[:-1]) == sorted(["finished", f"ssh:{address}"] for address in fleet.addresses)
    assert f"4 of 5 boxes answered; no answer from ssh:{HUNG}" in done.said
    assert "no answer within 10 s" in done.said


def test_leaving_early_keeps_what_was_heard_and_ends_what_was_asked(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet)
    settled(place, [f"ssh:{HUNG}", *(f"ssh:{address}" for address in fleet.addresses)])
    with SilentHost(HUNG, fleet.port):
        words = [*LEASE, "status", "--refresh", "--wait", "60"]
        lease = subprocess.Popen(
            words, env=me.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert lease.stdout is not None
        rows = [lease.stdout.readline() for _ in range(5)]  # the head, and those that answered
        assert lease.poll() is None, "the silent one is still waited for"
        children = [pid for pid, one in processes.snapshot().items() if one.parent == lease.pid]
        os.kill(lease.pid, signal.SIGINT)
        _, said = lease.communicate(timeout=60)
    assert lease.returncode == 130
    assert sum("finished" in row for row in rows) == 4
    assert "4 of 5 boxes answered" in said and "kept" in said
    assert children and eventually(lambda: not set(children) & set(processes.snapshot())), "the asking went on"
    kept = states(json.loads(me.lease("status", "--json").out))
    assert kept.pop(f"ssh:{HUNG}") == "planned"
    assert set(kept.values()) == {"finished"}


def test_many_runs_and_folders_of_a_box_take_one_connection(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet)
    address = fleet.addresses[0]
    for folder in ("one", "two"):
        runs = [f"{folder}-{number:010d}" for number in range(5)]
        settle(place / "home" / "ledger.sqlite", f"ssh:{address}", place / folder, runs)
    told = refreshed(me)
    assert [row["state"] for row in told["runs"]] == ["finished"] * 10
    assert fleet.logins(address) == 1


def test_the_second_asking_needs_no_new_connection_and_neither_do_logs(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet)
    settled(place, [f"ssh:{fleet.addresses[0]}"])
    refreshed(me)
    refreshed(me)
    done = me.lease("logs", "train")  # the run's folder is made up: what matters is how it was asked
    assert "cell.unknown" in done.said
    assert fleet.logins(fleet.addresses[0]) == 1
    assert len(fleet.sessions(fleet.addresses[0])) > 0


def test_sharing_can_be_turned_off(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet, LEASEHOLD_LINKS="none")
    settled(place, [f"ssh:{fleet.addresses[0]}"])
    refreshed(me)
    refreshed(me)
    assert fleet.logins(fleet.addresses[0]) == 2
    assert not (me.home / "links").exists()


def test_a_connection_that_died_silently_is_replaced(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet)
    address = fleet.addresses[0]
    settled(place, [f"ssh:{address}"])
    refreshed(me)
    processes.send(fleet.sessions(address), signal.SIGSTOP)
    assert states(refreshed(me)) == {f"ssh:{address}": "finished"}
    assert fleet.logins(address) == 2


def test_a_master_that_was_killed_is_replaced(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet)
    address = fleet.addresses[0]
    settled(place, [f"ssh:{address}"])
    refreshed(me)
    (master,) = (place / "l").iterdir()
    held = f"ssh: {master}"
    masters = [pid for pid in processes.snapshot() if held in title(pid)]
    processes.send(masters, signal.SIGKILL)
    assert masters
    assert states(refreshed(me)) == {f"ssh:{address}": "finished"}


def test_the_users_own_master_is_used_and_left_alone(place: Path) -> None:
    theirs = place / "theirs"
    with Fleet(place / "far", 1, client=f"ControlMaster auto\nControlPath {theirs}\nControlPersist 60") as fleet:
        me = person(place, fleet)
        settled(place, [f"ssh:{fleet.addresses[0]}"])
        refreshed(me)
        assert fleet.logins(fleet.addresses[0]) == 1 and not theirs.exists(), "we start none of theirs"
        subprocess.run(["ssh", "-F", str(fleet.config), fleet.addresses[0], "true"], check=True, timeout=30)
        refreshed(me)
        assert fleet.logins(fleet.addresses[0]) == 2, "theirs was joined"
        assert theirs.exists() and not (place / "l").exists()


def test_a_crowded_door_is_asked_again(place: Path) -> None:
    """Twelve boxes behind one sshd that takes two strangers at a time."""
    lines = "\n".join(f"Host gw{number}\nHostName 127.0.1.1" for number in range(12))
    with Fleet(place / "far", 1, server="MaxStartups 2:100:2", client=lines) as fleet:
        me = person(place, fleet)
        settled(place, [f"ssh:gw{number}" for number in range(12)])
        with concurrent.futures.ThreadPoolExecutor() as beside:
            with (
                socket.create_connection(("127.0.1.1", fleet.port)),
                socket.create_connection(("127.0.1.1", fleet.port)),
            ):
                asking = beside.submit(refreshed, me, "--wait", "60")
                assert eventually(lambda: turned_away(fleet)), "two strangers stand in the door"
            told = asking.result()
        assert told["boxes"]["answered"] == 12, told["boxes"]


def turned_away(fleet: Fleet) -> bool:
    """Tell whether the first sshd had no room for somebody."""
    return "MaxStartups" in fleet.log("127.0.1.1") or "drop connection" in fleet.log("127.0.1.1")


def test_a_box_that_left_the_book_is_unknown_and_stops_nobody(place: Path, fleet: Fleet) -> None:
    me = person(place, fleet)
    settled(place, ["gone", f"ssh:{fleet.addresses[0]}"])
    told = refreshed(me)
    assert states(told) == {"gone": "unknown", f"ssh:{fleet.addresses[0]}": "finished"}
    assert told["boxes"]["silent"] == [{"box": "gone", "why": "no box 'gone'"}]
