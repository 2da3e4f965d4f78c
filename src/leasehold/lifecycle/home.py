"""The home: where the ledger, host-key pins and the built-in boxes live."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from leasehold.ledger.store import Ledger


@dataclass(frozen=True)
class Home:
    """A folder of ours; LEASEHOLD_HOME moves it."""

    path: Path

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """Find the home folder: LEASEHOLD_HOME, else the XDG data folder."""
        if environ.get("LEASEHOLD_HOME"):
            return cls(Path(environ["LEASEHOLD_HOME"]).expanduser().absolute())
        data = environ.get("XDG_DATA_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".local/share")
        return cls(Path(data) / "leasehold")

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, opened on first use."""
        return Ledger(self.path / "ledger.sqlite")

    @property
    def signers(self) -> Path:
        """OpenSSH allowed_signers file for signed approvals."""
        return self.path / "allowed_signers"

    def pins(self, name: str) -> Path:
        """Host-key pins of one box."""
        slug = "".join(char if char.isalnum() or char in ".-" else "_" for char in name)
        return self.path / "known_hosts" / slug

    def box_root(self, name: str) -> Path:
        """Folder of a built-in box on this machine."""
        return self.path / "boxes" / name


def person() -> str:
    """Name who sits here, as the system knows them."""
    import getpass

    try:
        return os.environ.get("USER") or getpass.getuser()
    except (OSError, KeyError, ImportError):  # no name anywhere: a container with a bare uid, or Windows without one
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
