"""This home's own ssh key for rented boxes: made once, its public half goes to each box that is rented."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from leasehold.errors import HomeError
from leasehold.lifecycle.home.home import Home


def public_key(home: Home) -> str:
    """Return the public line of the key, and make the key if there is none."""
    path = home.path / "rent" / "id_ed25519"
    public = path.with_name(path.name + ".pub")
    if not (path.exists() and public.exists()):
        _make(path)
    return public.read_text("ascii").strip()


def _make(path: Path) -> None:
    """Make it beside its place and rename it, so that two first commands end with one whole key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "leasehold rented boxes", "-f", str(fresh)]
    try:
        done = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        raise HomeError("rent.no_keygen", "there is no ssh-keygen here", hint="install OpenSSH's client") from None
    if done.returncode:
        raise HomeError("rent.no_key", f"{path} could not be made", seen=done.stderr.decode("utf-8", "replace").strip())
    try:
        os.link(fresh, path)
        os.replace(f"{fresh}.pub", f"{path}.pub")
    except FileExistsError:
        if not path.with_name(path.name + ".pub").exists():
            _write_public(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{fresh}.pub")


def _write_public(path: Path) -> None:
    """Write the public half again from the private one: the process that made it was killed in between."""
    done = subprocess.run(["ssh-keygen", "-y", "-f", str(path)], capture_output=True, check=False)
    if done.returncode:
        raise HomeError("rent.no_key", f"{path} cannot be read", hint="remove it; the next rent makes another")
    path.with_name(path.name + ".pub").write_bytes(done.stdout)
