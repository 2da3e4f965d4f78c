"""Addresses and the ssh command line: no address becomes an option, nothing secret is shown to `ps`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.lifecycle.home.home import Home
from leasehold.transport import parcel
from leasehold.transport.openssh import MEANINGS, SshAddress, SshTransport
from leasehold.transport.ssh import ssh_config
from tests.conftest import ODD_NAMES
from tests.support.examples import FEW, MANY

WORDS = st.text("abz019.-_[]:@%$`'\"\\ \n\t=,/~中", max_size=14)
PLAUSIBLE = st.from_regex(r"(?:[a-z-]{1,4}@)?(?:[a-z0-9.-]{1,8}|\[[0-9a-f:]{1,8}\])(?::[0-9]{1,6})?", fullmatch=True)
ADDRESSES = WORDS | PLAUSIBLE | st.text(max_size=10)
needs_ssh = pytest.mark.skipif(
    shutil.which("ssh") is None, reason="no ssh here (Debian: apt-get install openssh-client)"
)


@pytest.fixture
def no_ssh(monkeypatch):
    """Spare the property tests a process each: what ssh's own config says is no matter there."""
    monkeypatch.setattr(ssh_config, "said", lambda ssh, target: {"userknownhostsfile": "/home/me/.ssh/known_hosts"})


def parsed(text):
    try:
        return SshAddress.parse(text)
    except UserError as error:
        assert error.code == "box.bad_address"
        assert repr(text) in error.message
        assert error.hint
        return None


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "text, address",
    [
        ("gpu1", SshAddress("gpu1")),
        ("root@1.2.3.4:2222", SshAddress("1.2.3.4", "root", 2222)),
        ("user.name-1@host_x.example.org", SshAddress("host_x.example.org", "user.name-1")),
        ("[::1]:22", SshAddress("::1", "", 22)),
        ("me@[fe80::1]", SshAddress("fe80::1", "me")),
        ("host:65535", SshAddress("host", "", 65535)),
    ],
)
def test_addresses_are_read_as_people_write_them(text, address):
    assert SshAddress.parse(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", ".a", "-", "-oProxyCommand=id", "-oProxyCommand=id@host", "me@-oProxyCommand=id", "host name",
        "host\n", "a@b@c", "host:", "host:abc", "host:-1", "host:70000", "host:" + "9" * 20, "host:\uff12", "$(id)",
        "`id`", "a;b", "a|b",
        "a'b", 'a"b', "user:password@host", "ssh://host", "host/path", "::1", "[::1", "@host", "host%h", "a,b",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_advice(text):
    assert parsed(text) is None


@MANY
@given(ADDRESSES)
@example("me@[fe80::1]:22")
@example("host:0")
def test_an_address_that_was_written_down_can_be_read_again(text):
    """The ledger keeps `ssh:` and the address; every later command finds the box by it."""
    address = parsed(text)
    if address is not None:
        assert SshAddress.parse(str(address)) == address


@MANY
@given(ADDRESSES)
@example("-oProxyCommand=touch /tmp/x")
@example("a@-oProxyCommand=touch")
def test_no_address_can_inject_an_option(no_ssh, tmp_path, text):
    address = parsed(text)
    if address is None:
        return
    words = SshTransport(address, tmp_path / "pins").argv("COMMAND")
    end = words.index("--")
    assert words[end:] == ["--", address.host, "COMMAND"]
    assert re.fullmatch(r"[A-Za-z0-9._:][A-Za-z0-9._:-]*", address.host)
    rest = [word for word in words[1:end] if not word.startswith("-o")]
    wanted = (["-p", str(address.port)] if address.port else []) + (["-l", address.user] if address.user else [])
    assert rest == wanted
    assert not address.user.startswith("-")
    assert 0 <= address.port <= 65535
    names = [word[2:].partition("=")[0] for word in words[1:end] if word.startswith("-o")]
    assert len(set(names)) == len(names)
    assert not {name.lower() for name in names} & {"proxycommand", "localcommand", "permitlocalcommand"}


# ---------------------------------------------------------------- the command line


def test_nothing_secret_is_on_the_command_line(no_ssh, tmp_path, monkeypatch):
    secrets = {"HF_TOKEN": "hf_secret", "WANDB_API_KEY": "wandb_secret", "AWS_SECRET_ACCESS_KEY": "aws_secret"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    shown = "\n".join(SshTransport(SshAddress("host", "root", 22), tmp_path / "pins").argv(parcel.boot_command()))
    for value in secrets.values():
        assert value not in shown


def test_host_keys_are_strict_once_one_was_met(no_ssh, tmp_path):
    pins = tmp_path / "known_hosts" / "box"
    transport = SshTransport(SshAddress("host"), pins)
    assert "-oStrictHostKeyChecking=accept-new" in transport.argv("x")
    assert not transport.pinned
    pins.write_text("")
    assert not transport.pinned, "an empty file pins nothing"
    pins.write_text("host ssh-ed25519 AAAA\n")
    assert transport.pinned
    assert "-oStrictHostKeyChecking=yes" in transport.argv("x")


def test_a_batch_never_asks_and_never_forwards(no_ssh, tmp_path):
    words = SshTransport(SshAddress("host"), tmp_path / "pins").argv("x")
    for option in ("BatchMode=yes", "RequestTTY=no", "ClearAllForwardings=yes", "ForwardX11=no", "ControlPath=none"):
        assert f"-o{option}" in words


def test_another_ssh_may_be_named_with_its_own_words(no_ssh, tmp_path, monkeypatch):
    monkeypatch.setenv("LEASEHOLD_SSH", "/opt/my ssh".replace(" ", "\\ ") + " -F none")
    assert SshTransport(SshAddress("host"), tmp_path / "pins").argv("x")[:3] == ["/opt/my ssh", "-F", "none"]


def as_ssh_reads_it(words: list[str]) -> str:
    """Ask the real ssh how it understands a command line; it connects to nothing."""
    end = words.index("--")
    asked = [words[0], "-F", "none", *words[1:end], "-G", "--", words[end + 1]]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout


@needs_ssh
@pytest.mark.parametrize(
    "name", [*ODD_NAMES.values(), "100%", "50%h", "o'brien", 'say "hi"', "back\\slash", "a=b", "#x"]
)
def test_ssh_finds_our_pins_wherever_home_is(tmp_path, name):
    pins = Home(tmp_path / f"d{name}" / "home").pins("root@1.2.3.4:22")
    words = SshTransport(SshAddress("1.2.3.4", "root", 22), pins).argv("x")
    assert f"\nuserknownhostsfile {pins} " in as_ssh_reads_it(words) + " "


@needs_ssh
@FEW
@given(text=PLAUSIBLE)
@example(text="me@[::1]:2222")
def test_ssh_understands_what_was_meant(tmp_path, no_ssh, text):
    address = parsed(text)
    if address is None:
        return
    said = as_ssh_reads_it(SshTransport(address, tmp_path / "pins").argv("x"))
    lines = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    if address.host[0].isalpha():  # ssh spells numeric addresses its own way
        assert lines["hostname"] == address.host
    assert lines["port"] == str(address.port or 22)
    assert not address.user or lines["user"] == address.user
    assert "proxycommand" not in lines


def test_a_strange_answer_about_known_hosts_does_not_stop_us(tmp_path, monkeypatch):
    """`ssh -G` prints paths unquoted: an apostrophe in one is no quotation."""
    script = tmp_path / "ssh"
    script.write_text('#!/bin/sh\necho "userknownhostsfile /home/o\'brien/.ssh/known_hosts /b"\n')
    script.chmod(0o755)
    monkeypatch.setenv("LEASEHOLD_SSH", str(script))
    assert SshTransport(SshAddress("host"), tmp_path / "pins")._trusted_files() == [
        str(tmp_path / "pins"),
        "/home/o'brien/.ssh/known_hosts",
        "/b",
    ]


# ---------------------------------------------------------------- how an end is explained

SAYINGS = {
    "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@": "link.host_key_changed",
    "Host key verification failed.": "link.host_key_changed",
    "me@host: Permission denied (publickey).": "link.auth_failed",
    "ssh: connect to host x port 22: Connection refused": "link.refused",
    "ssh: Could not resolve hostname nope: Name or service not known": "link.no_such_host",
    "ssh: connect to host x port 22: Connection timed out": "link.timeout",
    "Timeout, server x not responding.": "link.timeout",
    "ssh: connect to host x port 22: No route to host": "link.timeout",
    "": "link.lost",
    "something nobody has seen": "link.lost",
}


@pytest.mark.parametrize("said, code", list(SAYINGS.items()))
def test_an_end_is_explained_by_what_ssh_said(tmp_path, said, code):
    error = SshTransport(SshAddress("host", "me", 22), tmp_path / "pins")._explain(255, said)
    assert error.code == code
    assert "host" in error.message
    assert "{" not in error.message + error.hint


def test_every_meaning_has_a_way_out():
    assert all(hint for _, _, _, hint in MEANINGS)


# ---------------------------------------------------------------- pins


@pytest.mark.parametrize("name", ["root@1.2.3.4:22", "me@[::1]:22", "../../etc/passwd", "a/b", "a\nb"])
def test_a_boxs_pins_lie_in_one_file_of_our_own(tmp_path, name):
    home = Home(tmp_path)
    pins = home.pins(name)
    assert Path(pins).parent == tmp_path / "known_hosts"
    assert pins.resolve().parent == (tmp_path / "known_hosts").resolve()
