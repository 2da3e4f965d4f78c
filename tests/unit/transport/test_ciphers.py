"""A fast cipher where the user set none; never in place of the user's own."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from leasehold.transport.openssh import SshAddress, SshTransport
from leasehold.transport.ssh import ciphers, ssh_config

pytestmark = pytest.mark.skipif(
    shutil.which("ssh") is None, reason="no ssh here (Debian: apt-get install openssh-client)"
)


@pytest.fixture
def transport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A transport under a user's config of these lines."""
    monkeypatch.setattr(ciphers, "_aes_in_hardware", lambda: True)

    def make(config: str, more: str = "") -> SshTransport:
        (tmp_path / "config").write_text(config)
        monkeypatch.setenv("LEASEHOLD_SSH", f"ssh -F {tmp_path / 'config'} {more}")
        ssh_config.said.cache_clear()
        return SshTransport(SshAddress.parse("gpu1"), tmp_path / "pins")

    return make


def chosen(transport: SshTransport) -> list[str]:
    return [word.partition("=")[2] for word in transport.argv("true") if word.startswith("-oCiphers=")]


def test_without_a_wish_the_fast_ones_come_first_and_the_others_stay(transport):
    (list_,) = chosen(transport("Host *\n  User me\n"))
    names = list_.split(",")
    assert names[0] == "aes128-gcm@openssh.com"
    assert "chacha20-poly1305@openssh.com" in names, "a box that knows nothing else is still reached"


@pytest.mark.parametrize("line", ["Ciphers aes256-ctr", "Ciphers -aes128-gcm@openssh.com", "Ciphers +aes128-cbc"])
@pytest.mark.parametrize("head", ["Host *", "Host gpu1", "Match host gpu1"])
def test_the_users_own_ciphers_are_never_touched(transport, head, line):
    assert chosen(transport(f"{head}\n  {line}\n")) == []


def test_another_hosts_ciphers_do_not_count(transport):
    assert chosen(transport("Host gpu2\n  Ciphers aes256-ctr\n")) != []


def test_without_aes_in_hardware_ssh_chooses(transport, monkeypatch):
    made = transport("")
    monkeypatch.setattr(ciphers, "_aes_in_hardware", lambda: False)
    assert chosen(made) == []


def test_ssh_is_asked_once_while_its_config_stays_as_it_is(transport, monkeypatch):
    first = transport("Host *\n  User me\n")
    wanted = chosen(first)
    monkeypatch.setattr(ciphers, "preferred", lambda ssh, target: pytest.fail("asked again"))
    assert chosen(first) == wanted


def test_a_wish_that_the_user_writes_later_counts_at_once(transport):
    assert chosen(transport("Host *\n  User me\n"))
    assert not chosen(transport("Host *\n  Ciphers aes256-ctr\n"))


def test_a_note_that_cannot_be_read_costs_only_time(transport, tmp_path):
    first = transport("Host *\n  User me\n")
    wanted = chosen(first)
    (tmp_path / "pins.ciphers").write_text("{")
    assert chosen(first) == wanted


def test_an_old_note_is_checked_beside_the_connection(transport, tmp_path, monkeypatch):
    first = transport("Host *\n  User me\n")
    wanted = chosen(first)
    os.utime(tmp_path / "pins.ciphers", (1, 1))
    asked = threading.Event()
    monkeypatch.setattr(ciphers, "preferred", lambda ssh, target: asked.set() or "other")
    assert chosen(first) == wanted
    assert asked.wait(60)
