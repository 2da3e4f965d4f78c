"""Connections that short askings share: whose, where, and when not."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from leasehold.errors import BoxError, LinkError
from leasehold.transport import sharing
from leasehold.transport.openssh import SshAddress, SshTransport
from leasehold.transport.process import LocalTransport
from leasehold.transport.sharing import Way, first_answer, ways
from leasehold.transport.ssh import ssh_config

pytestmark = pytest.mark.skipif(
    shutil.which("ssh") is None, reason="no ssh here (Debian: apt-get install openssh-client)"
)


@pytest.fixture
def links(tmp_path_factory: pytest.TempPathFactory):
    """A folder with a name as short as sockets need."""
    place = Path(os.path.realpath(tmp_path_factory.mktemp("l"))) / "l"
    if len(str(place)) > 60:
        pytest.skip(f"{place} is too long for a socket")
    return place


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A transport under a user's config of these lines."""

    def make(links: Path | None, config: str = "", host: str = "gpu1") -> SshTransport:
        file = tmp_path / "config"
        file.write_text(config)
        monkeypatch.setenv("LEASEHOLD_SSH", f"ssh -F {file}")
        ssh_config.said.cache_clear()
        return SshTransport(SshAddress.parse(host), tmp_path / "pins", links=links)

    return make


def options(way: Way) -> dict[str, str]:
    return dict(getattr(way.transport, "_options", {}))


def listen(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    return server


def place_of(way: Way) -> Path:
    return Path(options(way)["ControlPath"].strip('"'))


def test_a_first_asking_leaves_a_connection_that_ends_by_itself(made, links):
    (way,) = ways(made(links), 15)
    said = options(way)
    assert place_of(way).parent == links
    assert said["ControlMaster"] == "auto" and int(said["ControlPersist"]) > 0
    assert int(said["ServerAliveInterval"]) * int(said["ServerAliveCountMax"]) <= 15
    assert said["ForwardAgent"] == "no"
    assert way.patience_s == 15


def test_the_folder_is_ours_alone(made, links):
    ways(made(links), 15)
    assert links.stat().st_mode & 0o777 == 0o700


def test_an_open_connection_is_tried_briefly_and_then_one_of_its_own(made, links):
    transport = made(links)
    (way,) = ways(transport, 15)
    with listen(place_of(way)):
        shared, alone = ways(transport, 15)
    assert shared.patience_s < 15 and shared.socket == place_of(way)
    assert alone.transport is transport


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_folder_that_others_may_enter_is_not_used(made, links, mode):
    links.mkdir()
    links.chmod(mode)
    transport = made(links)
    assert ways(transport, 15) == [Way(transport, 15)]


def test_a_link_in_place_of_the_folder_is_not_followed(made, links, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    links.symlink_to(tmp_path / "elsewhere")
    transport = made(links)
    assert ways(transport, 15) == [Way(transport, 15)]


def test_a_folder_too_long_for_a_socket_is_not_used(made, tmp_path):
    transport = made(tmp_path / ("x" * 90))
    assert ways(transport, 15) == [Way(transport, 15)]
    assert not (tmp_path / ("x" * 90)).exists()


def test_nothing_is_shared_without_a_folder_on_windows_or_at_home(made, links, monkeypatch):
    transport = made(None)
    assert ways(transport, 15) == [Way(transport, 15)]
    local = LocalTransport()
    assert ways(local, 15) == [Way(local, 15)]
    windows = made(links)
    monkeypatch.setattr(sharing.os, "name", "nt")
    assert ways(windows, 15) == [Way(windows, 15)]


def test_the_users_own_master_is_joined_and_never_started(made, links, tmp_path):
    theirs = links.parent / "cm"
    config = f"Host gpu1\n  ControlMaster auto\n  ControlPath {theirs}\n  ControlPersist 10m\n"
    transport = made(links, config)
    assert ways(transport, 15) == [Way(transport, 15)], "no master of theirs is up: ours is not put there"
    with listen(theirs):
        joined, alone = ways(transport, 15)
    assert place_of(joined) == theirs and options(joined)["ControlMaster"] == "no"
    assert joined.socket is None, "theirs is not ours to remove"
    assert alone.transport is transport


def test_what_decides_where_and_whom_names_the_connection(made, links, tmp_path):
    names = {place_of(ways(made(links, config, host), 15)[0]).name for config, host in VARIANTS}
    assert len(names) == len(VARIANTS)
    before = place_of(ways(made(links), 15)[0])
    (tmp_path / "pins").write_text("gpu1 ssh-ed25519 AAAA\n")
    assert place_of(ways(made(links), 15)[0]) != before, "a new pin wants a new proof"


VARIANTS = [
    ("", "gpu1"),
    ("", "gpu2"),
    ("", "me@gpu1"),
    ("", "gpu1:2222"),
    ("Host gpu1\n  HostName 10.0.0.1\n", "gpu1"),
    ("Host gpu1\n  ProxyJump gw\n", "gpu1"),
    ("Host gpu1\n  IdentityFile /k\n", "gpu1"),
]


def test_a_way_that_leads_nowhere_is_forgotten_and_the_next_one_asked(tmp_path):
    stale = tmp_path / "stale"
    stale.touch()
    asked = []

    def ask(way: Way) -> str:
        asked.append(way.patience_s)
        if way.socket:
            raise LinkError("link.timeout", "silence")
        return "here"

    local = LocalTransport()
    assert first_answer([Way(local, 4, stale), Way(local, 15)], ask) == "here"
    assert asked == [4, 15] and not stale.exists()


def test_what_the_box_itself_refuses_is_not_asked_twice():
    def ask(way: Way) -> str:
        raise BoxError("box.no_python", "none")

    local = LocalTransport()
    with pytest.raises(BoxError):
        first_answer([Way(local, 4), Way(local, 15)], ask)


@pytest.mark.parametrize(
    "config, name",
    [
        ({"hostname": "GPU.example.org"}, "gpu.example.org"),
        ({"hostname": "a", "proxyjump": "me@gw:22,gw2"}, "jump me@gw:22"),
        ({"hostname": "b", "proxyjump": "me@gw:22,gw2"}, "jump me@gw:22"),
        ({"hostname": "a", "proxycommand": "nc -x p %h %p"}, "command nc -x p %h %p"),
        ({"hostname": "a", "proxyjump": "none", "proxycommand": "none"}, "a"),
    ],
)
def test_a_gateway_is_whatever_carries_the_first_hop(config, name):
    assert ssh_config.gateway(config) == name
