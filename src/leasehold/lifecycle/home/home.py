"""The home folder: the ledger, host-key pins and the built-in boxes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.kit.startup.home_folder import home_folder
from leasehold.kit.text.redact import Redactor, in_environment
from leasehold.ledger.store import Ledger
from leasehold.transport.patience import ENDLESS, WaitLimits

if TYPE_CHECKING:
    from leasehold.facts.profiles import Shelf

_OVERLAYS = "profiles"
_PROJECT = ".leasehold"


@dataclass(frozen=True)
class Home:
    """Leasehold's own folder on this machine; LEASEHOLD_HOME moves it."""

    path: Path
    config: Path | None = None  # the user's own settings: profiles/ holds overlays
    project: Path | None = None  # where the command was typed
    links: Path | None = None  # connections that short queries share
    limits: WaitLimits = ENDLESS  # how long this command waits for a silent box

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """Find the home folder: LEASEHOLD_HOME, else the XDG data folder; settings by LEASEHOLD_CONFIG, else XDG."""
        user = Path(environ.get("HOME") or "~").expanduser()
        settings = Path(environ.get("XDG_CONFIG_HOME") or user / ".config") / "leasehold"
        config = Path(environ.get("LEASEHOLD_CONFIG") or settings).expanduser().absolute()
        path = Path(home_folder(environ))
        return cls(path, config, _here(), _links(environ, path))

    def shelf(self, project: Path | None = None) -> Shelf:
        """Return the platform profiles: the built-in ones, your overlays, then the project's."""
        from leasehold.facts.profiles import Shelf

        return Shelf(self._own_overlays, self._project_overlays(project))

    def overlays(self, project: Path | None = None) -> tuple[Path, ...]:
        """Return the folders of overlays: yours, then the project's."""
        return (*self._own_overlays, *self._project_overlays(project))

    @property
    def _own_overlays(self) -> tuple[Path, ...]:
        return (self.config / _OVERLAYS,) if self.config else ()

    def _project_overlays(self, project: Path | None) -> tuple[Path, ...]:
        """Return a project's overlay folder; anybody may have written it, so it only makes facts more cautious."""
        where = project or self.project
        return (where / _PROJECT / _OVERLAYS,) if where else ()

    @cached_property
    def ledger(self) -> Ledger:
        """Return the ledger, opened on first use."""
        return Ledger(self.path / "ledger.sqlite", redactor=Redactor(in_environment(os.environ)))

    @property
    def signers(self) -> Path:
        """Return the OpenSSH allowed_signers file for signed approvals."""
        return self.path / "allowed_signers"

    def pins(self, name: str) -> Path:
        """Return the file with one box's host-key pins."""
        slug = "".join(char if char.isalnum() or char in ".-" else "_" for char in name)
        return self.path / "known_hosts" / slug

    def tree_memory(self, project: Path) -> Path:
        """Return the file that caches the sums of a project's files."""
        from hashlib import sha256

        return self.path / "cache" / "trees" / f"{sha256(os.fsencode(project.absolute())).hexdigest()[:16]}.json"

    def way_memory(self, box: str) -> Path:
        """Return the cache file with a box's round trip time at the last pull."""
        from hashlib import sha256

        return self.path / "cache" / "ways" / f"{sha256(box.encode()).hexdigest()[:16]}.json"

    def box_root(self, name: str) -> Path:
        """Return the folder of a built-in box on this machine."""
        return self.path / "boxes" / name


def _links(environ: Mapping[str, str], home: Path) -> Path | None:
    """Choose the folder of shared connections: LEASEHOLD_LINKS (or `none`), the session's runtime folder, the home."""
    chosen = environ.get("LEASEHOLD_LINKS", "")
    if chosen:
        return None if chosen == "none" else Path(chosen).expanduser().absolute()
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime) / "leasehold" if runtime and os.path.isdir(runtime) else home / "links"


def _here() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None  # the working folder was removed meanwhile


def person() -> str:
    """Return the current user's name, as the system knows it."""
    import getpass

    try:
        return os.environ.get("USER") or getpass.getuser()
    except (OSError, KeyError, ImportError):  # no name anywhere: a container with a bare uid, or Windows without one
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
