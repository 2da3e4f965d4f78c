"""Connections that are called before they are needed: to a box that was far at the last pull, over a real sshd."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.errors import LinkError
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.pull.connections import AHEAD, Calls
from leasehold.transport.openssh import SshAddress, SshTransport
from tests.support.beds import SshBed, ssh_bed
from tests.support.lives import eventually

pytestmark = pytest.mark.real_ssh

FAR, NEAR = 0.08, 0.001
MUCH, LITTLE = 1 << 30, 1 << 20


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshBed]:
    with ssh_bed(tmp_path) as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LEASEHOLD_SSH", shlex.join(made.box.ssh_command))
        yield made


def calls_to(bed: SshBed, folder: Path, *, pinned: bool = True) -> Calls:
    transport = SshTransport(SshAddress.parse("box"), folder / "pins" / "box")
    transport.pins.parent.mkdir(exist_ok=True)
    if pinned:
        transport.pin_trusted()
    box = Box("box", "generic-ssh", str(folder / "ours"), transport)
    return Calls(transport, box.connect_by, folder / "cache" / "way.json")


def all_wait(bed: SshBed, calls: Calls) -> bool:
    """Tell whether every call that was made ahead is through and waits, and no other connection is open."""
    through = [called for called in calls._called if called._engine is not None]
    return len(through) == AHEAD == bed.box.connections()


def test_a_box_that_was_far_is_called_several_times_at_once(bed: SshBed, tmp_path: Path) -> None:
    calls_to(bed, tmp_path).remember(FAR, MUCH)
    calls = calls_to(bed, tmp_path)
    first = calls.first()
    assert eventually(lambda: bed.box.connections() == 1 + AHEAD)
    second = calls.more()
    assert second.box.probe()["root"] == str(tmp_path / "ours")
    assert eventually(lambda: bed.box.handshakes() == 1 + AHEAD), "the second was one of those that were called"
    calls.hang_up()
    assert eventually(lambda: bed.box.connections() == 2), "what nobody took is hung up"
    assert not (bed.box.home / ".leasehold").exists(), "a call that nobody took leaves nothing on the box"
    first.close()
    second.close()


def test_a_box_that_may_lack_our_program_gets_it_by_the_first_connection(bed: SshBed, tmp_path: Path) -> None:
    calls = calls_to(bed, tmp_path)
    calls.remember(FAR, MUCH)
    memory = tmp_path / "cache" / "way.json"
    memory.write_text(json.dumps({**json.loads(memory.read_text()), "parcel": "an older one"}))
    calls.begin()
    assert eventually(lambda: bed.box.connections() == 1 + AHEAD)
    assert not (tmp_path / "ours").exists(), "nobody has begun"
    calls.first().close()
    calls.more().close()
    assert eventually(lambda: bed.box.handshakes() == 1 + AHEAD)
    calls.hang_up()
    assert eventually(lambda: bed.box.connections() == 0)


def test_a_box_only_in_the_users_known_hosts_is_called_ahead_once_met(bed: SshBed, tmp_path: Path) -> None:
    calls = calls_to(bed, tmp_path, pinned=False)
    calls.remember(FAR, MUCH)
    calls.begin()
    assert bed.box.connections() == 0, "at a door never met nobody says anything unasked"
    calls.first().close()
    calls.hang_up()
    again = calls_to(bed, tmp_path, pinned=False)
    again.begin()
    assert eventually(lambda: bed.box.connections() == 1 + AHEAD)
    assert again.first().box.probe()["root"] == str(tmp_path / "ours")
    again.hang_up()


@pytest.mark.parametrize("after_s", [0.0, 0.12, 0.2, 0.4, 2.0])
def test_calls_end_though_nothing_was_begun(bed: SshBed, tmp_path: Path, after_s: float) -> None:
    calls = calls_to(bed, tmp_path)
    calls.remember(FAR, MUCH)
    calls.begin()
    time.sleep(after_s)
    before = set(threading.enumerate())
    calls.hang_up()
    assert eventually(lambda: not set(threading.enumerate()) - before)
    time.sleep(0.3)  # one that was being called is hung up by who called it
    assert eventually(lambda: bed.box.connections() == 0)
    assert bed.box.handshakes() <= 1 + AHEAD, "nobody asks why a call ended that we ended"


def test_what_a_lost_link_left_over_is_hung_up_before_others_are_called(bed: SshBed, tmp_path: Path) -> None:
    calls = calls_to(bed, tmp_path)
    calls.remember(FAR, MUCH)
    calls.first().close()
    assert eventually(lambda: all_wait(bed, calls))
    again = calls.first()
    assert eventually(lambda: bed.box.handshakes() == 2 * (1 + AHEAD) and bed.box.connections() == 1 + AHEAD)
    time.sleep(0.5)
    assert bed.box.connections() == 1 + AHEAD
    again.close()
    calls.hang_up()
    assert eventually(lambda: bed.box.connections() == 0)


@pytest.mark.parametrize("round_trip_s, pulled_bytes", [(NEAR, MUCH), (FAR, LITTLE)])
def test_a_near_box_or_a_small_pull_is_called_once(
    bed: SshBed, tmp_path: Path, round_trip_s: float, pulled_bytes: int
) -> None:
    calls = calls_to(bed, tmp_path)
    calls.remember(round_trip_s, pulled_bytes)
    calls.first().close()
    calls.hang_up()
    assert bed.box.handshakes() == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"round_trip_s": "far", "pulled_bytes": 1}', "\0"])
def test_a_broken_memory_only_costs_time(bed: SshBed, tmp_path: Path, text: str) -> None:
    calls = calls_to(bed, tmp_path)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "way.json").write_text(text)
    calls.first().close()
    assert bed.box.handshakes() == 1


def test_a_call_that_broke_meanwhile_is_made_anew(bed: SshBed, tmp_path: Path) -> None:
    calls_to(bed, tmp_path).remember(FAR, MUCH)
    calls = calls_to(bed, tmp_path)
    calls.first().close()
    assert eventually(lambda: all_wait(bed, calls))
    bed.box.cut()
    assert eventually(lambda: bed.box.connections() == 0)
    assert eventually(lambda: all(called._engine and called._engine.lost for called in calls._called))
    calls.more().close()
    bed.box.stop()
    with pytest.raises(LinkError):
        calls.more()
    calls.hang_up()
