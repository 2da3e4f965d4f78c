"""The beds themselves: a bed that lies makes every test on it worthless."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.sshd import HOST, SshBox
from tests.support.tcp_proxy import TcpProxy
from tests.support.tcp_proxy import _Way as Way

PATIENCE_S = 60.0


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.005)
    return holds()


# ---------------------------------------------------------------- the ssh box


def test_a_command_runs_and_its_exit_status_comes_back(ssh_box: SshBox) -> None:
    answer = ssh_box.run("cat; exit 7", stdin=b"\x00\xff bytes")
    assert (answer.returncode, answer.stdout) == (7, b"\x00\xff bytes")


def test_a_box_has_a_home_of_any_name_and_sessions_start_there(
    new_ssh_box: Callable[..., SshBox], tmp_path: Path, odd_name: str
) -> None:
    box = new_ssh_box(home=tmp_path / odd_name)
    answer = box.run(r'printf "%s\0%s\0" "$HOME" "$PWD"; printf x > ~/made')
    assert answer.stdout.split(b"\0")[:2] == [os.fsencode(tmp_path / odd_name)] * 2
    assert (tmp_path / odd_name / "made").read_text() == "x"


def test_the_box_reads_its_own_rc_file_and_not_the_users(ssh_box: SshBox) -> None:
    (ssh_box.home / ".bashrc").write_text("echo a banner nobody asked for\n")
    shell = ssh_box.run('printf %s "$SHELL"').stdout
    if not shell.endswith(b"/bash"):
        pytest.skip("only bash reads an rc file for a command over ssh")
    assert shell == b"a banner nobody asked for\n/bin/bash"


def test_variables_reach_the_session_whatever_they_hold(new_ssh_box: Callable[..., SshBox], odd_name: str) -> None:
    box = new_ssh_box(environment={"GIVEN": odd_name})
    assert box.run('printf %s "$GIVEN"').stdout == os.fsencode(odd_name)


def test_the_users_own_environment_does_not_reach_the_session(ssh_box: SshBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE_ALONE", "1")
    assert ssh_box.run('printf %s "${MINE_ALONE-unset}"').stdout == b"unset"


def test_files_can_be_copied_with_scp_over_sftp(ssh_box: SshBox, tmp_path: Path) -> None:
    (tmp_path / "sent").write_bytes(b"payload")
    scp = ["scp", "-q", "-F", str(ssh_box.config), str(tmp_path / "sent"), f"{HOST}:arrived"]
    subprocess.run(scp, check=True, timeout=30)
    assert (ssh_box.home / "arrived").read_bytes() == b"payload"


def test_handshakes_are_counted(ssh_box: SshBox) -> None:
    ssh_box.run("true")
    ssh_box.run("true")
    assert ssh_box.handshakes() == 2


def test_cut_drops_the_links_while_work_and_the_door_stay(ssh_box: SshBox) -> None:
    with session(ssh_box, "echo $$ > pid; mv pid ready; exec sleep 600") as client:
        assert eventually((ssh_box.home / "ready").exists)
        work = int((ssh_box.home / "ready").read_text())
        assert ssh_box.cut() == 1
        assert client.wait(PATIENCE_S) == 255
        assert work in processes.snapshot()
        assert ssh_box.run("true").returncode == 0


def test_cut_without_links_cuts_nothing(ssh_box: SshBox) -> None:
    assert ssh_box.cut() == 0


def test_stop_drops_and_refuses_and_start_serves_the_same_port_again(ssh_box: SshBox) -> None:
    port = ssh_box.port
    with session(ssh_box, "echo > ready; exec sleep 600") as client:
        assert eventually((ssh_box.home / "ready").exists)
        ssh_box.stop()
        ssh_box.stop()
        assert client.wait(PATIENCE_S) == 255
    refused = ssh_box.run("true")
    assert refused.returncode == 255
    assert b"refused" in refused.stderr
    ssh_box.start()
    ssh_box.start()
    assert ssh_box.port == port
    assert ssh_box.run("true").returncode == 0


def test_a_frozen_server_accepts_tcp_but_says_nothing_until_thawed(ssh_box: SshBox) -> None:
    ssh_box.freeze()
    with socket.create_connection(("127.0.0.1", ssh_box.port), timeout=PATIENCE_S) as link:
        link.settimeout(0.2)
        with pytest.raises(TimeoutError):
            link.recv(1)
        ssh_box.thaw()
        link.settimeout(PATIENCE_S)
        assert link.recv(4) == b"SSH-"


def test_a_frozen_session_continues_when_thawed(ssh_box: SshBox) -> None:
    with session(ssh_box, "echo > ready; read line; echo $line") as client:
        assert eventually((ssh_box.home / "ready").exists)
        ssh_box.freeze()
        assert client.stdin is not None
        client.stdin.write(b"hello\n")
        client.stdin.flush()
        time.sleep(0.1)
        assert client.poll() is None
        ssh_box.thaw()
        assert client.communicate(timeout=PATIENCE_S)[0] == b"hello\n"


def test_another_host_key_is_refused(ssh_box: SshBox) -> None:
    ssh_box.change_host_key()
    answer = ssh_box.run("true")
    assert answer.returncode == 255
    assert b"REMOTE HOST IDENTIFICATION HAS CHANGED" in answer.stderr


@pytest.mark.parametrize(
    "detached",
    [
        "exec setsid sleep 600",
        "cd / && exec setsid sleep 600",
        "exec env -i sleep 600",
        "exec nohup sleep 600",
    ],
    ids=["setsid", "elsewhere", "without-its-mark", "nohup"],
)
def test_what_a_session_left_running_dies_with_the_box(new_ssh_box: Callable[..., SshBox], detached: str) -> None:
    box = new_ssh_box()
    work = int(box.run(f"({detached}) </dev/null >/dev/null 2>&1 & echo $!").stdout)
    assert eventually(lambda: box.leftovers() == [work])
    box.close()
    assert work not in processes.snapshot()


def test_a_keeper_that_respawns_its_child_dies_with_the_box_too(new_ssh_box: Callable[..., SshBox]) -> None:
    box = new_ssh_box()
    box.run("setsid sh -c 'while :; do sleep 600; done' </dev/null >/dev/null 2>&1 &")
    assert eventually(lambda: len(box.leftovers()) == 2)
    box.close()
    assert box.leftovers() == []


def test_a_box_closes_while_it_is_frozen(new_ssh_box: Callable[..., SshBox]) -> None:
    box = new_ssh_box()
    with session(box, "echo > ready; exec sleep 600") as client:
        assert eventually((box.home / "ready").exists)
        box.freeze()
        box.close()
        assert client.wait(PATIENCE_S) == 255
    assert box.leftovers() == []


def test_two_boxes_do_not_touch_each_other(new_ssh_box: Callable[..., SshBox]) -> None:
    one, two = new_ssh_box("one"), new_ssh_box("two")
    two.run("setsid sleep 600 </dev/null >/dev/null 2>&1 &")
    one.close()
    assert len(two.leftovers()) == 1
    assert two.run("true").returncode == 0


class session:
    """An ssh client with an open session, killed in the end."""

    def __init__(self, box: SshBox, command: str) -> None:
        self.words = [*box.ssh_command, HOST, command]

    def __enter__(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        self.client = subprocess.Popen(self.words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.kill()
        self.client.communicate()


# ---------------------------------------------------------------- the bad network


class EchoServer:
    """Send back what comes in, on a loopback port."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(link,), daemon=True).start()

    def _echo(self, link: socket.socket) -> None:
        try:
            with link:
                while chunk := link.recv(65536):
                    link.sendall(chunk)
        except OSError:
            return


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    server = EchoServer()
    with TcpProxy(server.port) as relay:
        yield relay
    server.listener.close()


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S)


def receive(link: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        chunk = link.recv(count - len(found))
        if not chunk:
            break
        found += chunk
    return found


def send_and_end(link: socket.socket, payload: bytes) -> None:
    link.sendall(payload)
    link.shutdown(socket.SHUT_WR)


def test_the_proxy_carries_bytes_and_the_end_of_the_stream(proxy: TcpProxy) -> None:
    payload = os.urandom(1_000_000)
    with connect(proxy) as link:
        sender = threading.Thread(target=send_and_end, args=(link, payload))
        sender.start()
        assert receive(link, len(payload) + 1) == payload
        sender.join()
    assert eventually(lambda: proxy.carried_bytes() == 2 * len(payload))  # counted once they are sent
    assert eventually(lambda: proxy.links() == 0)


def test_a_delay_holds_each_way(proxy: TcpProxy) -> None:
    proxy.delay_s = 0.05
    with connect(proxy) as link:
        started = time.monotonic()
        link.sendall(b"x" * 1000)
        assert len(receive(link, 1000)) == 1000
        assert time.monotonic() - started >= 0.1


def test_a_delay_does_not_slow_the_stream() -> None:
    sender, source = socket.socketpair()
    sink, receiver = socket.socketpair()
    with sender, source, sink, receiver:
        way = Way(source, sink)
        for number in range(10):
            sender.sendall(b"x" * 1000)
            way.take_in(due=0.05 + 0.001 * number)
        assert way.give_out(0.0499, None) == 0
        assert way.give_out(0.06, None) == 10_000, "ten chunks share one delay"
        assert len(receive(receiver, 10_000)) == 10_000


def test_a_stalled_proxy_is_silent_and_loses_nothing(proxy: TcpProxy) -> None:
    with connect(proxy) as link:
        proxy.stall()
        link.sendall(b"held")
        link.settimeout(0.2)
        with pytest.raises(TimeoutError):
            link.recv(1)
        proxy.resume()
        link.settimeout(PATIENCE_S)
        assert receive(link, 4) == b"held"


def test_cut_resets_open_links_and_takes_new_ones(proxy: TcpProxy) -> None:
    with connect(proxy) as link:
        link.sendall(b"x")
        receive(link, 1)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            link.recv(1)
    with connect(proxy) as link:
        link.sendall(b"y")
        assert receive(link, 1) == b"y"


def test_cut_after_passes_exactly_so_many_bytes_then_later_links_pass(proxy: TcpProxy) -> None:
    proxy.cut_after(100)
    with connect(proxy) as link:
        link.sendall(b"x" * 1000)
        with pytest.raises(ConnectionResetError):
            receive(link, 1001)
    assert proxy.carried_bytes() == 100
    with connect(proxy) as link:
        link.sendall(b"y" * 1000)
        assert len(receive(link, 1000)) == 1000


def test_refuse_turns_new_links_away_and_accept_opens_the_same_port(proxy: TcpProxy) -> None:
    with connect(proxy) as old:
        old.sendall(b"x")
        receive(old, 1)
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        old.sendall(b"z")
        assert receive(old, 1) == b"z"
    proxy.accept()
    with connect(proxy) as link:
        link.sendall(b"y")
        assert receive(link, 1) == b"y"


def test_a_proxy_without_a_target_resets_its_clients() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with TcpProxy(port) as relay, pytest.raises(ConnectionResetError):  # by connect already, or by recv
        connect(relay).recv(1)


def test_ssh_runs_through_the_proxy_with_the_boxs_own_host_key(ssh_box: SshBox) -> None:
    with TcpProxy(ssh_box.port, delay_s=0.01) as relay:
        words = [*ssh_box.ssh_command_through(relay.port), HOST, "echo through"]
        answer = subprocess.run(words, capture_output=True, timeout=30, check=False)
    assert (answer.stdout, answer.returncode) == (b"through\n", 0)
    assert relay.carried_bytes() > 1000


def test_sigkill_of_a_client_leaves_the_remote_command_running(ssh_box: SshBox) -> None:
    """Why detaching is not proven by a killed client: without a terminal the command stays anyway."""
    with session(ssh_box, "echo $$ > pid; mv pid ready; exec sleep 600") as client:
        assert eventually((ssh_box.home / "ready").exists)
        work = int((ssh_box.home / "ready").read_text())
        client.send_signal(signal.SIGKILL)
        client.wait(PATIENCE_S)
        assert eventually(lambda: ssh_box.connections() == 0)
        assert work in processes.snapshot()
