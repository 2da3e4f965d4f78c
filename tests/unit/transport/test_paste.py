"""What consoles print becomes an address; nothing pasted becomes an option of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.transport.openssh import SshAddress, SshTransport
from leasehold.transport.paste import PastedSsh, parse_paste

TRAILING = "the text behind the address"

SIX = "2001:db8::1"

READ = {
    "autodl": ("ssh -p 31022 root@connect.westb.seetacloud.com", ("root", "connect.westb.seetacloud.com", 31022, "")),
    "runpod tcp": (
        "ssh root@194.68.245.12 -p 22112 -i ~/.ssh/id_ed25519",
        ("root", "194.68.245.12", 22112, "~/.ssh/id_ed25519"),
    ),
    "runpod proxy": (
        "ssh 8y5rumuyb50m78-6441103b@ssh.runpod.io -i ~/.ssh/id_ed25519",
        ("8y5rumuyb50m78-6441103b", "ssh.runpod.io", 0, "~/.ssh/id_ed25519"),
    ),
    "lambda": ("ssh -i key ubuntu@192.9.1.2", ("ubuntu", "192.9.1.2", 0, "key")),
    "paperspace": ("ssh paperspace@184.105.3.7", ("paperspace", "184.105.3.7", 0, "")),
    "a key with spaces": ("ssh -i 'my keys/id rsa' u@h", ("u", "h", 0, "my keys/id rsa")),
    "user by option": ("ssh -l ubuntu -p22 host", ("ubuntu", "host", 22, "")),
    "options behind the host": ("ssh host -p 22 -l me", ("me", "host", 22, "")),
    "settings by -o": ("ssh -o Port=2200 -oUser=me -o 'IdentityFile ~/k' host", ("me", "host", 2200, "~/k")),
    "a url": ("ssh ssh://root@host:2222/", ("root", "host", 2222, "")),
    "a prompt": ("$ ssh -p 22022 root@1.2.3.4", ("root", "1.2.3.4", 22022, "")),
    "a root prompt": ("root@laptop:~# ssh -p 22022 root@1.2.3.4", ("root", "1.2.3.4", 22022, "")),
    "a label": ("登录指令：ssh -p 31022 root@connect.example.com", ("root", "connect.example.com", 31022, "")),
    "a full path": ("/usr/bin/ssh root@1.2.3.4", ("root", "1.2.3.4", 0, "")),
    "windows": ("ssh.exe root@1.2.3.4 -p 22", ("root", "1.2.3.4", 22, "")),
    "backticks": ("run `ssh -p 22022 root@1.2.3.4` on your machine", ("root", "1.2.3.4", 22022, "")),
    "double quotes": ('"ssh root@1.2.3.4 -p 22022"', ("root", "1.2.3.4", 22022, "")),
    "sshpass": ("sshpass -p hunter2 ssh root@1.2.3.4", ("root", "1.2.3.4", 0, "")),
    "a comment": ("ssh root@1.2.3.4 -p 22  # it's your box", ("root", "1.2.3.4", 22, "")),
    "crlf": ("ssh root@1.2.3.4 -p 22\r\n", ("root", "1.2.3.4", 22, "")),
    "the port twice": ("ssh -p 1 -p 2 root@h", ("root", "h", 1, "")),
    "clustered": ("ssh -Np 22022 root@h", ("root", "h", 22022, "")),
    "address": ("root@1.2.3.4:22112", ("root", "1.2.3.4", 22112, "")),
    "host alone": ("gpu.example.com", ("", "gpu.example.com", 0, "")),
    "alias": ("gpu1", ("", "gpu1", 0, "")),
    "our own spelling": ("ssh:root@1.2.3.4:22", ("root", "1.2.3.4", 22, "")),
    "url alone": ("ssh://root@1.2.3.4:22", ("root", "1.2.3.4", 22, "")),
    "six in brackets": (f"root@[{SIX}]:2222", ("root", SIX, 2222, "")),
    "six alone": (SIX, ("", SIX, 0, "")),
    "six in a command": (f"ssh -p 2222 root@{SIX}", ("root", SIX, 2222, "")),
    "six spelt out": ("root@2001:0db8:0:0:0:0:0:1", ("root", SIX, 0, "")),
    "trailing comma": ("root@1.2.3.4,", ("root", "1.2.3.4", 0, "")),
}


@pytest.mark.parametrize(("text", "wanted"), READ.values(), ids=READ)
def test_what_consoles_print_is_read(text: str, wanted: tuple[str, str, int, str]) -> None:
    pasted = parse_paste(text)
    assert (pasted.user, pasted.host, pasted.port, pasted.identity) == wanted


IGNORED = {
    "forward": ("ssh root@h -p 22 -L 8080:localhost:8080", ("-L 8080:localhost:8080",)),
    "flags": ("ssh -NA -t root@h", ("-N", "-A", "-t")),
    "host key habits": (
        "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@h",
        ("-o StrictHostKeyChecking=no", "-o UserKnownHostsFile=/dev/null"),
    ),
    "a password behind it": ("ssh root@h -p 22 password: hunter2", (TRAILING,)),
    "a password on the next line": ("ssh root@h -p 22\nhunter2", ()),
    "a command": ("ssh root@h nvidia-smi -l 1", (TRAILING,)),
    "text behind an address": ("root@h:22 (password hunter2)", (TRAILING,)),
}


@pytest.mark.parametrize(("text", "ignored"), IGNORED.values(), ids=IGNORED)
def test_what_is_not_used_is_named_but_never_a_password(text: str, ignored: tuple[str, ...]) -> None:
    pasted = parse_paste(text)
    assert pasted.options_ignored == ignored
    assert "hunter2" not in repr(pasted)


REFUSED = {
    "proxy command": "ssh -oProxyCommand=evil root@h",
    "proxy command behind the host": "ssh root@h -oProxyCommand=evil",
    "proxy command with a space": "ssh -o 'ProxyCommand evil' root@h",
    "proxy command with spaces round =": "ssh -o 'proxycommand = evil' root@h",
    "proxy command in a cluster": "ssh -NoProxyCommand=evil root@h",
    "local command": "ssh -o PermitLocalCommand=yes -o LocalCommand=evil root@h",
    "known hosts command": "ssh -oKnownHostsCommand=evil root@h",
    "library": "ssh -I /tmp/evil.so root@h",
    "library by -o": "ssh -oPKCS11Provider=/tmp/evil.so root@h",
    "config": "ssh -F /tmp/evil root@h",
    "jump": "ssh -J bastion root@h",
    "jump by -o": "ssh -o ProxyJump=bastion root@h",
    "another host": "ssh -o HostName=elsewhere root@h",
    "log file": "ssh -E ~/.bashrc root@h",
    "socket": "ssh -S /tmp/x root@h",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_could_execute_or_reroute_is_refused_with_where_it_belongs(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_paste(text)
    assert raised.value.code == "box.paste_refused"
    assert "~/.ssh/config" in raised.value.hint
    assert "evil" not in raised.value.message


BAD = {
    "nothing": "",
    "blank": " \n ",
    "no host": "ssh -p 22",
    "a dash for a host": "ssh -- -oProxyCommand=evil",
    "a dash for a user": "ssh -l -oProxyCommand=evil h",
    "a user with a dash": "-x@h",
    "a key with a dash": "ssh -i -oProxyCommand=evil h",
    "a port too large": "ssh -p 65536 h",
    "a port of zero": "h:0",
    "a port in words": "ssh -p http h",
    "a huge port": "h:" + "9" * 5000,
    "a long option": "gcloud compute ssh vm --zone=us-east1-b",
    "shell in the host": "root@$(id)",
    "quotes in the host": "root@h'x",
    "two ats": "a@b@c",
    "a scoped address": "fe80::1%eth0",
    "almost six": "2001:db8::zz",
    "an open bracket": "[2001:db8::1",
    "an en dash": "ssh –p 22 root@h",
    "a value missing": "ssh root@h -p",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_is_no_address_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_paste(text)
    assert raised.value.code == "box.bad_address"
    assert raised.value.hint


WORDS = (
    "ssh -p -i -o -l -L -J -F -S -I -- - root@1.2.3.4 h:22 22 [::1]:22 -oProxyCommand=evil ProxyCommand=evil -Np22 "
    "ssh://u@h $ # ' \" ` = @ : -oUser=-x user@-h -F/etc/x \n \t \u3000"
)
PIECES = st.sampled_from(WORDS.split(" "))


@given(st.one_of(st.text(max_size=80), st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=9).map(" ".join)))
def test_no_paste_ever_becomes_an_option(text: str) -> None:
    try:
        pasted = parse_paste(text)
    except UserError:
        return
    _check_harmless(pasted)
    assert SshAddress.parse(str(pasted.address)) == SshAddress(pasted.host, pasted.user, pasted.port)


def _check_harmless(pasted: PastedSsh) -> None:
    argv = SshTransport(pasted.address, Path("/nonexistent-pins/x"), only_pins=True)._place()
    assert argv == [*(["-p", str(pasted.port)] if pasted.port else []), *(["-l", pasted.user] if pasted.user else [])]
    assert not pasted.host.startswith("-")
    assert not pasted.user.startswith("-")
    assert not pasted.identity.startswith("-")
    assert 0 <= pasted.port < 65536
    assert pasted.host.isascii()
    assert not set(pasted.host + pasted.user) & set(" \t\n'\"`$;&|<>(){}\\!*?#~%=@/")


@given(st.text(max_size=60))
def test_an_address_is_refused_or_cannot_be_an_option(text: str) -> None:
    try:
        address = SshAddress.parse(text)
    except UserError:
        return
    assert not address.host.startswith("-")
    assert not address.user.startswith("-")


@pytest.mark.parametrize("text", ["root@[2001:db8::1]:22", "[2001:db8::1]", "root@h:22", "h"])
def test_an_address_reads_back_what_it_says(text: str) -> None:
    assert str(SshAddress.parse(text)) == text


def test_the_key_file_goes_to_ssh_only_when_named(tmp_path: Path) -> None:
    plain = SshTransport(SshAddress("h", "u", 22), tmp_path / "pins").argv("true")
    keyed = SshTransport(SshAddress("h", "u", 22, "/k"), tmp_path / "pins").argv("true")
    assert "-i" not in plain
    assert "-oIdentitiesOnly=yes" not in plain
    assert keyed[keyed.index("-i") - 1 : keyed.index("-i") + 2] == ["-oIdentitiesOnly=yes", "-i", "/k"]
    assert keyed[-3:] == ["--", "h", "true"]
