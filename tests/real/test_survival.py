"""What a run outlives on a box behind a real sshd: the link, the server, the laptop, its own guardians."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.beds import SshBed, ssh_bed
from tests.support.lives import (
    Lease,
    Life,
    check_home,
    check_journal,
    check_nobody_left,
    check_trainers,
    eventually,
    kill,
)
from tests.support.parts import find_program
from tests.support.tcp_proxy import TcpProxy
from tests.support.trainer import FAILS_WITH

pytestmark = pytest.mark.real_ssh

TRAIN = "exec python3 -I -S train.py"
Begin = Callable[..., Life]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Give a function that sets up a life on one ssh box: begin(job=..., box=environment of the box)."""
    with contextlib.ExitStack() as stack:
        beds: list[SshBed] = []

        def make(name: str = "life", job: dict[str, Any] | None = None, box: dict[str, str] | None = None) -> Life:
            if not beds:
                beds.append(stack.enter_context(ssh_bed(tmp_path, box)))
            life = Life(beds[0], tmp_path / name, job={"name": name, **(job or {})})
            stack.callback(life.close)
            return life

        yield make


@pytest.fixture
def life(begin: Begin) -> Life:
    """Give a plain life."""
    return begin()


def bed_of(life: Life) -> SshBed:
    assert isinstance(life.bed, SshBed)
    return life.bed


def running_in_mid_life(life: Life) -> Lease:
    """Start the run, wait until its trainer is in mid-life and the first command has proven the detachment."""
    life.hold()
    lease = life.run()
    assert eventually(lambda: life.held() and "detach_proven" in life.ledger()), life.explain()
    return lease


def ended(life: Life) -> list[dict[str, Any]]:
    return [event for event in life.events() if event["k"] == "attempt_ended"]


def attempts(life: Life) -> list[int]:
    return [event["attempt"] for event in life.events() if event["k"] == "attempt_starting"]


def check_one_undisturbed_trainer(life: Life) -> None:
    assert attempts(life) == [1]
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


# ---------------------------------------------------------------- the link, the server, the laptop


def test_a_run_survives_a_cut_link_and_the_same_command_reconnects(life: Life) -> None:
    lease = running_in_mid_life(life)
    assert bed_of(life).box.cut() >= 1
    assert eventually(lambda: "state unknown, last seen running" in lease.said), life.explain()
    assert eventually(lambda: "connected to ssh:box again" in lease.said), life.explain()
    life.release()
    assert lease.wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)


def test_a_run_survives_the_servers_restart_while_its_state_is_unknown_and_never_success(life: Life) -> None:
    lease = running_in_mid_life(life)
    watch = life.lease("watch", life.run_id)
    assert eventually(lambda: "attempt 1 runs" in watch.said), life.explain()
    bed_of(life).box.stop()
    for command in (lease, watch):
        assert eventually(lambda command=command: "state unknown, last seen running" in command.said), life.explain()
    trainer = life.trainer()
    assert trainer, "the trainer does not need the server"

    asked = life.lease("status", life.run_id, "--refresh", "--json")
    assert asked.wait() == 0, life.explain()
    [row] = json.loads(asked.said)["runs"]
    assert (row["state"], row["receipt"]) == ("unknown", False)
    assert "last known running" in row["reason"]
    assert row["seen_s_ago"] is not None

    assert life.trainer() == trainer
    bed_of(life).box.start()
    for command in (lease, watch):
        assert eventually(lambda command=command: "connected to ssh:box again" in command.said), life.explain()
    life.release()
    assert (lease.wait(), watch.wait()) == (0, 0), life.explain()
    check_one_undisturbed_trainer(life)


def test_a_box_that_cannot_be_reached_at_launch_is_exit_5_and_starts_nothing(life: Life) -> None:
    bed_of(life).box.stop()
    lease = life.run()
    assert lease.wait() == 5, life.explain()
    assert "error[link.refused]" in lease.said
    bed_of(life).box.start()
    assert life.run().wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)


def test_a_run_survives_sigkill_of_lease_and_the_identical_command_attaches(life: Life) -> None:
    running_in_mid_life(life).kill()
    again = life.run()
    assert eventually(lambda: "already there, attached" in again.said), life.explain()
    life.release()
    assert again.wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)


def test_leaving_with_ctrl_c_leaves_the_run_alone(life: Life) -> None:
    lease = running_in_mid_life(life)
    trainer = life.trainer()
    lease.send(signal.SIGINT)
    assert lease.wait() == 130
    assert "goes on without us" in lease.said
    assert life.trainer() == trainer
    life.release()
    assert life.run().wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)


def test_a_pull_that_is_cut_goes_on_where_it_was(begin: Begin, tmp_path: Path) -> None:
    size = 24 << 20
    script = f'head -c {size} /dev/urandom > "$LEASE_OUT/big.bin"'
    life = begin(job={"run": script, "artifacts": {"big.bin": "bytes"}})
    assert life.run("--detach").wait() == 0, life.explain()
    assert eventually(lambda: life.state().terminal)
    box = bed_of(life).box
    with TcpProxy(box.port) as proxy:
        life.bed.environment["LEASEHOLD_SSH"] = shlex.join(box.ssh_command_through(proxy.port))
        proxy.cut_after(size // 2, times=1)
        lease = life.run()
        assert lease.wait() == 0, life.explain()
        assert "what came so far is kept" in lease.said
        assert proxy.carried_bytes() < size * 1.4, "the first half did not travel twice"
    [home] = life.results().glob("export/*/cells/main/big.bin")
    assert home.read_bytes() == next(life.bed.root.glob("active/*/out/main/big.bin")).read_bytes()


# ---------------------------------------------------------------- host keys


def test_a_changed_host_key_refuses_and_touches_nothing(life: Life) -> None:
    lease = running_in_mid_life(life)
    before = len(life.events())
    bed_of(life).box.change_host_key()
    assert lease.wait() == 5, life.explain()
    assert "error[link.host_key_changed]" in lease.said
    again = life.run()
    assert again.wait() == 5, life.explain()
    assert "error[link.host_key_changed]" in again.said
    assert len(life.events()) == before
    assert life.trainer(), "the run itself is not ended by our distrust"


def test_a_first_contact_is_pinned_at_home_and_only_there(life: Life) -> None:
    box = bed_of(life).box
    known = box.known_hosts.read_text()
    box.known_hosts.write_text("")
    lease = life.run()
    assert lease.wait() == 0, life.explain()
    assert "first contact with ssh:box: host key SHA256:" in lease.said
    assert life.ledger().count("host_pinned") == 1
    [pin] = (life.folder / "home" / "known_hosts").iterdir()
    assert known.split()[-2] in pin.read_text() or known.split()[2] in pin.read_text()
    assert box.known_hosts.read_text() == "", "the user's own known_hosts are not ours to write"
    box.change_host_key()
    again = life.run()
    assert again.wait() == 5, life.explain()
    assert "error[link.host_key_changed]" in again.said


# ---------------------------------------------------------------- the guardians


def test_a_killed_caretaker_is_respawned_by_the_keeper(life: Life) -> None:
    lease = running_in_mid_life(life)
    first = life.caretaker()
    trainer = life.trainer()
    kill(first)
    assert eventually(lambda: life.caretaker() not in ([], first), 30), life.explain()
    assert life.trainer() == trainer
    life.release()
    assert lease.wait() == 0, life.explain()
    assert "took over from one that died" in lease.said
    check_one_undisturbed_trainer(life)


def test_a_caretaker_that_keeps_dying_is_respawned_each_time(life: Life) -> None:
    lease = running_in_mid_life(life)
    for _ in range(2):
        before = life.caretaker()
        kill(before)
        assert eventually(lambda before=before: life.caretaker() not in ([], before), 30), life.explain()
    life.release()
    assert lease.wait() == 0, life.explain()
    assert life.state().restarts == 2
    check_one_undisturbed_trainer(life)


def test_a_killed_keepers_trainer_is_adopted_and_its_own_exit_code_recorded(life: Life) -> None:
    (life.side / "fail").touch()
    lease = running_in_mid_life(life)
    trainer = life.trainer()
    kill(life.keeper())
    assert life.trainer() == trainer, "the trainer outlives its keeper"
    life.release()
    assert lease.wait() == 6, life.explain()
    [end] = ended(life)
    assert (end["code"], end["signal"], end["by"]) == (FAILS_WITH, None, "caretaker")
    assert life.run().wait() == 0, life.explain()
    assert attempts(life) == [1, 2]
    check_journal(life)
    check_trainers(life)
    check_home(life)


def test_an_exit_code_is_the_childs_own_when_the_caretaker_died(life: Life) -> None:
    (life.side / "fail").touch()
    lease = running_in_mid_life(life)
    kill(life.caretaker())
    life.release()
    assert lease.wait() == 6, life.explain()
    [end] = ended(life)
    assert (end["code"], end["signal"], end["by"]) == (FAILS_WITH, None, "keeper")
    assert life.state().reason.endswith(f"exited with code {FAILS_WITH}")


def test_a_trainer_that_lost_caretaker_and_keeper_still_fences_off_the_next_one(life: Life) -> None:
    """Nobody can learn its exit code any more; it runs to its end alone, and only then a second one looks."""
    running_in_mid_life(life).kill()
    trainer = life.trainer()
    kill(life.keeper() + life.caretaker())
    again = life.run()
    assert eventually(life.caretaker), life.explain()
    assert life.trainer() == trainer
    assert attempts(life) == [1]
    life.release()
    assert again.wait() == 0, life.explain()
    assert [end.get("lost") for end in ended(life)] == [True, None]
    assert attempts(life) == [1, 2]
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


def test_after_a_reboot_the_identical_command_resumes_with_the_next_attempt(life: Life) -> None:
    running_in_mid_life(life).kill()
    processes.end(life.bed.leftovers)
    assert life.stalled()
    life.release()
    again = life.run()
    assert again.wait() == 0, life.explain()
    assert "its caretaker had died; revived" in again.said
    assert attempts(life) == [1, 2]
    starts = [line for line in life.diary() if line.what == "start"]
    assert [line.step for line in starts] == [0, 2], "it went on from its checkpoint"
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


# ---------------------------------------------------------------- failing


def test_a_failing_job_is_exit_6_and_the_identical_command_resumes_it(life: Life) -> None:
    (life.side / "fail").touch()
    first = life.run()
    assert first.wait() == 6, life.explain()
    assert f"exited with code {FAILS_WITH}" in first.said
    assert life.ledger().count("receipt_written") == 0
    again = life.run()
    assert again.wait() == 0, life.explain()
    assert "resuming it" in again.said
    assert attempts(life) == [1, 2]
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


def test_a_code_of_its_own_is_not_retried_but_a_signal_is_up_to_the_bound(begin: Begin) -> None:
    coded = begin("coded", {"run": "exit 17", "attempts": 3})
    assert coded.run().wait() == 6, coded.explain()
    assert attempts(coded) == [1]
    killed = begin("killed", {"run": "kill -9 $$", "attempts": 3})
    first = killed.run()
    assert first.wait() == 6, killed.explain()
    assert "ended by signal 9" in first.said
    assert attempts(killed) == [1, 2, 3]
    assert killed.run().wait() == 6, killed.explain()
    assert attempts(killed) == [1, 2, 3, 4, 5, 6], "a person who types it again gives a fresh bound"


def test_one_attempt_means_one(begin: Begin) -> None:
    life = begin(job={"attempts": 1})
    lease = running_in_mid_life(life)
    os.killpg(life.trainer()[0], signal.SIGKILL)
    assert lease.wait() == 6, life.explain()
    assert attempts(life) == [1]


# ---------------------------------------------------------------- stopping


def pid_in(life: Life, name: str) -> int:
    path = life.side / name
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n")), life.explain()
    return int(path.read_text())


def alive(pid: int) -> bool:
    return pid in processes.snapshot()


def outside(how: str, name: str) -> str:
    """Start a grandchild in a session of its own, which notes its pid."""
    return f"setsid sh -c '{how} echo $$ > \"$SIDE/{name}\"; while :; do sleep 0.1; done' & "


def test_stop_ends_exactly_our_processes(begin: Begin) -> None:
    life = begin("mine", {"run": outside("", "grandchild") + "python3 -I -S train.py"})
    other = begin("theirs")
    box = bed_of(life).box
    sibling = int(box.run("setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!").stdout)
    watching = running_in_mid_life(life)
    running_in_mid_life(other)
    grandchild = pid_in(life, "grandchild")
    [shell] = life.trainer()
    trainers = [line.pid for line in life.diary() if line.what == "start"]

    stop = life.lease("stop", life.run_id, "--grace", "10")
    assert stop.wait() == 0, life.explain()
    assert [pid for pid in (shell, *trainers, grandchild) if alive(pid)] == []
    assert alive(sibling)
    assert other.trainer()
    assert life.state().state == "stopped"
    assert watching.wait() == 6, life.explain()

    second = life.lease("stop", life.run_id)
    assert second.wait() == 0, life.explain()
    assert "had already stopped" in second.said
    other.release()
    life.release()
    assert life.run().wait() == 0, life.explain()
    assert attempts(life) == [1, 2]
    check_trainers(life)


def test_a_trainer_that_ignores_sigterm_is_killed_after_the_grace(begin: Begin) -> None:
    life = begin(job={"run": "trap '' TERM; " + TRAIN})
    lease = running_in_mid_life(life)
    [trainer] = life.trainer()
    assert life.lease("stop", life.run_id, "--grace", "1").wait() == 0, life.explain()
    assert not alive(trainer)
    assert [end["signal"] for end in ended(life)] == [signal.SIGKILL]
    assert lease.wait() == 6, life.explain()


def test_a_grandchild_that_left_the_group_and_ignores_sigterm_dies_too(begin: Begin) -> None:
    life = begin(job={"run": outside('trap "" TERM;', "stubborn") + TRAIN})
    running_in_mid_life(life)
    stubborn = pid_in(life, "stubborn")
    assert life.lease("stop", life.run_id, "--grace", "1").wait() == 0, life.explain()
    assert eventually(lambda: not alive(stubborn), 10), "stop says that its processes are gone"


def test_a_trainer_may_use_its_grace_to_end_well(begin: Begin) -> None:
    ends_well = 'trap \'printf {} > "$LEASE_OUT/result.json"; exit 0\' TERM; : > "$SIDE/holding"; '
    waits = "echo up; while :; do sleep 0.05; done"
    life = begin(job={"run": ends_well + waits, "artifacts": {"result.json": "json"}})
    lease = running_in_mid_life(life)
    assert life.lease("stop", life.run_id, "--grace", "30").wait() == 0, life.explain()
    assert life.state().state == "finished"
    assert lease.wait() == 0, life.explain()


# ---------------------------------------------------------------- detaching


def test_a_box_with_tmux_detaches_by_tmux(life: Life) -> None:
    if find_program("tmux") is None:
        pytest.skip("no tmux here (Debian: apt-get install tmux)")
    assert life.run().wait() == 0, life.explain()
    assert life.events()[0]["detach"] == "tmux"


def test_a_box_without_tmux_falls_back(begin: Begin, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for name in os.listdir(folder):
            if name not in ("tmux", "systemd-run") and not (tools / name).is_symlink():
                (tools / name).symlink_to(f"{folder}/{name}")
    life = begin(box={"PATH": str(tools)})
    lease = running_in_mid_life(life)
    assert life.events()[0]["detach"] == "setsid"
    bed_of(life).box.cut()
    life.release()
    assert lease.wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)
