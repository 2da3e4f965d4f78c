"""Host keys in known_hosts files: read, fingerprinted, copied into a pin, set aside as evidence."""

from __future__ import annotations

import binascii
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from leasehold.errors import UserError
from leasehold.kit.files.atomic import write_atomic

# In ssh's order of preference for known kinds, so that the first is the one a server is asked for.
_KINDS = ("ssh-ed25519", "ecdsa-sha2-", "sk-ssh-ed25519", "sk-ecdsa-", "ssh-rsa")
_SPOKEN = {"ssh-ed25519": "ED25519", "ssh-rsa": "RSA", "sk-ssh-ed25519@openssh.com": "ED25519-SK"}
_SHA256 = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


class HostKey(NamedTuple):
    """A public host key."""

    kind: str
    blob: str

    @property
    def fingerprint(self) -> str:
        """Format as ssh does: SHA256:… (ED25519)."""
        from hashlib import sha256

        digest = sha256(binascii.a2b_base64(self.blob)).digest()
        spoken = _SPOKEN.get(self.kind, "ECDSA" if "ecdsa" in self.kind else self.kind)
        return f"SHA256:{binascii.b2a_base64(digest, newline=False).decode().rstrip('=')} ({spoken})"


def read(path: Path) -> list[HostKey]:
    """Read the keys of a known_hosts file, the preferred kind first; none if there is no file."""
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return []
    return _parse(text.splitlines())


def fingerprint(path: Path) -> str:
    """Return the fingerprint of a file's preferred key; empty without one."""
    return next((key.fingerprint for key in read(path)), "")


def names(host: str, port: str) -> list[str]:
    """List the names under which ssh looks a host up."""
    return [host] if port == "22" else [f"[{host}]:{port}", host]


def copy(files: Iterable[str], hosts: list[str], pins: Path) -> bool:
    """Write the keys that files hold for the first of hosts they know; return whether there were any."""
    sources = [file for file in files if Path(file).exists()]
    for host in hosts:
        found = [key for file in sources for key in _lookup(host, file)]
        if found:
            lines = "".join(f"{hosts[0]} {key.kind} {key.blob}\n" for key in dict.fromkeys(found))
            pins.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(str(pins), lines.encode())
            return True
    return False


def set_aside(pins: Path, now_unix: float) -> Path | None:
    """Rename a pin out of the way and keep it as evidence; None if there was none."""
    if not pins.exists():
        return None
    kept = pins.with_name(f"{pins.name}.was-{now_unix:.0f}")
    pins.rename(kept)
    return kept


def parse_fingerprint(text: str) -> str:
    """Read a fingerprint as a console or `ssh-keygen -l` shows it."""
    found = _SHA256.search(text)
    if not found:
        raise UserError(
            "box.bad_fingerprint",
            f"{text!r} is not a SHA256 fingerprint",
            hint="write it like SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8; on the box: ssh-keygen -l -f "
            "/etc/ssh/ssh_host_ed25519_key.pub",
        )
    return found[0]


def _lookup(host: str, file: str) -> list[HostKey]:
    """Let ssh-keygen search, for names may be hashed or patterns."""
    asked = ["ssh-keygen", "-F", host, "-f", file]
    return _parse(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines())


def _parse(lines: list[str]) -> list[HostKey]:
    found = [_key(line.split()) for line in lines if not line.startswith(("#", "@"))]  # no certificate authorities
    return sorted((key for key in found if key), key=_preference)


def _key(words: list[str]) -> HostKey | None:
    if len(words) < 3:
        return None
    try:
        binascii.a2b_base64(words[2], strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return HostKey(words[1], words[2])


def _preference(key: HostKey) -> int:
    return next((place for place, kind in enumerate(_KINDS) if key.kind.startswith(kind)), len(_KINDS))
