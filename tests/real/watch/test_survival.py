"""What a run outlives on a box behind a real sshd: the link, the server, the laptop, its own guardians."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.beds import SshBed
from tests.support.lives import (
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

Begin = Callable[..., Life]


def bed_of(life: Life) -> SshBed:
    assert isinstance(life.bed, SshBed)
    return life.bed


def kinds(life: Life) -> list[str]:
    """List what the journal tells, without what the box finds out about its own memory and disks."""
    return [event["k"] for event in life.events() if not event["k"].startswith("alarm_")]


def check_one_undisturbed_trainer(life: Life) -> None:
    assert life.attempts() == [1]
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


# ---------------------------------------------------------------- the link, the server, the laptop


@pytest.mark.fast
def test_a_run_survives_a_cut_link_and_the_same_command_reconnects(life: Life) -> None:
    lease = life.run_to_mid_life()
    assert bed_of(life).box.cut() >= 1
    assert eventually(lambda: "state unknown, last seen running" in lease.said), life.explain()
    assert eventually(lambda: "connected to ssh:box again" in lease.said), life.explain()
    life.release()
    assert lease.wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)


def test_a_run_survives_the_servers_restart_and_is_unknown_meanwhile(life: Life) -> None:
    lease = life.run_to_mid_life()
    watch = life.lease("watch", life.run_id)
    assert eventually(lambda: "attempt 1 runs" in watch.said), life.explain()
    bed_of(life).box.stop()
    for command in (lease, watch):
        assert eventually(lambda command=command: "state unknown, last seen running" in command.said), life.explain()
    trainer = life.trainer()
    assert trainer, "the trainer does not need the server"

    asked = life.lease("status", life.run_id, "--refresh", "--json")
    assert asked.wait() == 0, life.explain()
    [row] = asked.data["runs"]
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


def test_a_box_that_is_unreachable_at_launch_is_exit_5_and_starts_nothing(life: Life) -> None:
    bed_of(life).box.stop()
    lease = life.run()
    assert lease.wait() == 5, life.explain()
    assert "error[link.refused]" in lease.said
    bed_of(life).box.start()
    assert life.run().wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)


@pytest.mark.fast
def test_a_run_survives_sigkill_of_lease_and_the_same_command_attaches(life: Life) -> None:
    life.run_to_mid_life().kill()
    again = life.run()
    assert eventually(lambda: "already there, attached" in again.said), life.explain()
    life.release()
    assert again.wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)


def test_leaving_with_ctrl_c_leaves_the_run_alone(life: Life) -> None:
    lease = life.run_to_mid_life()
    trainer = life.trainer()
    lease.send(signal.SIGINT)
    assert lease.wait() == 130
    assert "continues on its box" in lease.said
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
        for _ in range(10):
            shutil.rmtree(life.results(), ignore_errors=True)
            shutil.rmtree(life.folder / "home" / "cache" / "ways", ignore_errors=True)
            logins, before = box.handshakes(), proxy.carried_bytes()
            proxy.cut_after(size // 2, times=1)
            lease = life.run()
            assert lease.wait() == 0, life.explain()
            if box.handshakes() - logins == 2:
                break  # else the machine was busy, the box seemed far, and several connections shared the bytes
        assert "what came so far is kept" in lease.said
        assert proxy.carried_bytes() - before < size * 1.4, "the first half did not travel twice"
    [home] = life.results().glob("export/*/cells/main/big.bin")
    assert home.read_bytes() == next(life.bed.root.glob("active/*/out/main/big.bin")).read_bytes()


# ---------------------------------------------------------------- host keys


@pytest.mark.fast
def test_a_changed_host_key_refuses_and_touches_nothing(life: Life) -> None:
    lease = life.run_to_mid_life()
    assert eventually(lambda: "attempt_started" in kinds(life)), life.explain()  # the trainer may be told of before
    before = kinds(life)
    bed_of(life).box.change_host_key()
    assert lease.wait() == 5, life.explain()
    assert "error[link.host_key_changed]" in lease.said
    again = life.run()
    assert again.wait() == 5, life.explain()
    assert "error[link.host_key_changed]" in again.said
    assert kinds(life) == before
    assert life.trainer(), "the run itself is not ended by our distrust"


def test_a_first_contact_is_pinned_at_home_and_only_there(life: Life) -> None:
    box = bed_of(life).box
    known = box.known_hosts.read_text()
    box.known_hosts.write_text("")
    lease = life.run()
    assert lease.wait() == 0, life.explain()
    assert "first contact with ssh:box: host key SHA256:" in lease.said
    assert life.ledger().count("host_pinned") == 1
    [pin] = (path for path in (life.folder / "home" / "known_hosts").iterdir() if path.suffix != ".ciphers")
    assert known.split()[-2] in pin.read_text() or known.split()[2] in pin.read_text()
    assert box.known_hosts.read_text() == "", "the user's own known_hosts are not ours to write"
    box.change_host_key()
    again = life.run()
    assert again.wait() == 5, life.explain()
    assert "error[link.host_key_changed]" in again.said


# ---------------------------------------------------------------- the guardians


@pytest.mark.fast
def test_a_killed_caretaker_is_respawned_by_the_keeper(life: Life) -> None:
    lease = life.run_to_mid_life()
    first = life.caretaker()
    trainer = life.trainer()
    kill(first)
    assert eventually(lambda: life.caretaker() not in ([], first)), life.explain()
    assert life.trainer() == trainer
    life.release()
    assert lease.wait() == 0, life.explain()
    assert "caretaker restarted, pid " in lease.said
    check_one_undisturbed_trainer(life)


def test_a_caretaker_that_keeps_dying_is_respawned_each_time(life: Life) -> None:
    lease = life.run_to_mid_life()
    for times in (1, 2):
        before = life.caretaker()
        kill(before)
        assert eventually(lambda before=before: life.caretaker() not in ([], before)), life.explain()
        assert eventually(lambda times=times: life.state().restarts == times), life.explain()  # it signs, then notes
    life.release()
    assert lease.wait() == 0, life.explain()
    assert life.state().restarts == 2
    check_one_undisturbed_trainer(life)


def test_a_killed_keepers_trainer_is_adopted_and_its_exit_code_recorded(life: Life) -> None:
    (life.side / "fail").touch()
    lease = life.run_to_mid_life()
    trainer = life.trainer()
    kill(life.keeper())
    assert life.trainer() == trainer, "the trainer outlives its keeper"
    life.release()
    assert lease.wait() == 6, life.explain()
    [end] = life.ends()
    assert (end["code"], end["signal"], end["by"]) == (FAILS_WITH, None, "caretaker")
    assert life.run().wait() == 0, life.explain()
    assert life.attempts() == [1, 2]
    check_journal(life)
    check_trainers(life)
    check_home(life)


def test_an_exit_code_is_the_childs_own_when_the_caretaker_died(life: Life) -> None:
    (life.side / "fail").touch()
    lease = life.run_to_mid_life()
    kill(life.caretaker())
    life.release()
    assert lease.wait() == 6, life.explain()
    [end] = life.ends()
    assert (end["code"], end["signal"], end["by"]) == (FAILS_WITH, None, "keeper")
    assert f"exited with code {FAILS_WITH};" in life.state().reason


def test_a_trainer_without_caretaker_and_keeper_still_fences_the_next_off(life: Life) -> None:
    """Nobody can learn its exit code any more; it runs to its end alone, and only then a second one looks."""
    life.run_to_mid_life().kill()
    trainer = life.trainer()
    kill(life.keeper() + life.caretaker())
    again = life.run()
    assert eventually(life.caretaker), life.explain()
    assert life.trainer() == trainer
    assert life.attempts() == [1]
    life.release()
    assert again.wait() == 0, life.explain()
    assert [end.get("lost") for end in life.ends()] == [True, None]
    assert life.attempts() == [1, 2]
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


def test_after_a_reboot_the_same_command_resumes_with_the_next_attempt(life: Life) -> None:
    life.run_to_mid_life().kill()
    processes.end(life.bed.leftovers)
    assert life.stalled()
    life.release()
    again = life.run()
    assert again.wait() == 0, life.explain()
    assert "its caretaker had died; revived" in again.said
    assert life.attempts() == [1, 2]
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
    assert "starting it again" in again.said
    assert life.attempts() == [1, 2]
    check_journal(life)
    check_trainers(life)
    check_home(life)
    check_nobody_left(life)


def test_a_code_of_its_own_is_not_retried_but_a_signal_is_up_to_the_bound(begin: Begin) -> None:
    coded = begin("coded", {"run": "exit 17", "attempts": 3})
    assert coded.run().wait() == 6, coded.explain()
    assert coded.attempts() == [1]
    killed = begin("killed", {"run": "kill -9 $$", "attempts": 3})
    first = killed.run()
    assert first.wait() == 6, killed.explain()
    assert "ended by signal 9" in first.said
    assert killed.attempts() == [1, 2, 3]
    assert killed.run().wait() == 6, killed.explain()
    assert killed.attempts() == [1, 2, 3, 4, 5, 6], "a person who types it again gives a fresh bound"


def test_one_attempt_means_one(begin: Begin) -> None:
    life = begin(job={"attempts": 1})
    lease = life.run_to_mid_life()
    os.killpg(life.trainer()[0], signal.SIGKILL)
    assert lease.wait() == 6, life.explain()
    assert life.attempts() == [1]


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
    lease = life.run_to_mid_life()
    assert life.events()[0]["detach"] == "setsid"
    bed_of(life).box.cut()
    life.release()
    assert lease.wait() == 0, life.explain()
    check_one_undisturbed_trainer(life)
