"""Pins are read, copied from the user's own known_hosts, and never thrown away."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from leasehold.errors import UserError
from leasehold.transport import parcel
from leasehold.transport.ssh import host_keys


def make_key(folder: Path, kind: str) -> str:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen here (Debian: apt-get install openssh-client)")
    words = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(folder / kind)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return (folder / f"{kind}.pub").read_text().strip()


def shown_by_ssh(folder: Path, kind: str) -> str:
    said = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(folder / f"{kind}.pub")], check=True, capture_output=True, text=True
    )
    return f"{said.stdout.split()[1]} {said.stdout.split()[-1]}"


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_fingerprint_is_what_ssh_keygen_says(tmp_path: Path, kind: str) -> None:
    (tmp_path / "pins").write_text(f"host {make_key(tmp_path, kind)}\n")
    assert host_keys.fingerprint(tmp_path / "pins") == shown_by_ssh(tmp_path, kind)


def test_no_pin_has_no_fingerprint(tmp_path: Path) -> None:
    assert host_keys.fingerprint(tmp_path / "pins") == ""
    (tmp_path / "pins").write_text("# nothing\n@cert-authority * ssh-ed25519 AAAA\nhost ssh-ed25519 not*base64\n")
    assert host_keys.fingerprint(tmp_path / "pins") == ""


def test_trusted_keys_are_copied_for_that_host_and_port_alone(tmp_path: Path) -> None:
    mine, other = make_key(tmp_path, "ed25519"), make_key(tmp_path, "rsa")
    known = tmp_path / "known_hosts"
    known.write_text(f"[h]:22022 {mine}\n[h]:3 {other}\nelsewhere {other}\n")
    subprocess.run(["ssh-keygen", "-H", "-f", str(known)], check=True, capture_output=True)
    pins = tmp_path / "folder" / "pins"
    assert host_keys.copy([str(known), str(tmp_path / "absent")], host_keys.names("h", "22022"), pins)
    assert pins.read_text() == f"[h]:22022 {mine}\n"


def test_a_host_nobody_knows_is_not_pinned(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text(f"elsewhere {make_key(tmp_path, 'ed25519')}\n")
    assert not host_keys.copy([str(tmp_path / "known_hosts")], ["h"], tmp_path / "pins")
    assert not (tmp_path / "pins").exists()


def test_the_kind_that_ssh_asks_for_first_is_shown(tmp_path: Path) -> None:
    (tmp_path / "pins").write_text(f"h {make_key(tmp_path, 'rsa')}\nh {make_key(tmp_path, 'ed25519')}\n")
    assert host_keys.fingerprint(tmp_path / "pins") == shown_by_ssh(tmp_path, "ed25519")


def test_a_pin_set_aside_is_kept(tmp_path: Path) -> None:
    (tmp_path / "pins").write_text("evidence")
    kept = host_keys.set_aside(tmp_path / "pins", 12.4)
    assert kept is not None
    assert kept.read_text() == "evidence"
    assert host_keys.set_aside(tmp_path / "pins", 13.0) is None


@pytest.mark.parametrize("text", ["256 SHA256:{key} root@box (ED25519)", "SHA256:{key} (ED25519)", "SHA256:{key}"])
def test_a_fingerprint_is_read_as_consoles_show_it(text: str) -> None:
    key = "nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8"
    assert host_keys.parse_fingerprint(text.format(key=key)) == f"SHA256:{key}"


@pytest.mark.parametrize("text", ["", "MD5:16:27:ac:a5", "SHA256:short", "nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8"])
def test_what_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        host_keys.parse_fingerprint(text)


def test_first_contact_looks_for_python_where_the_boot_line_does() -> None:
    def places(line: str) -> list[str]:
        return line.partition("for c in ")[2].partition(";")[0].replace('"$hint" ', "").split()

    assert places(parcel.shell_line("flavour.sh")) == places(parcel.shell_line("boot.sh"))
    assert "python3" in places(parcel.shell_line("flavour.sh"))
