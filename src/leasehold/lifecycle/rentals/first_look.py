"""The look before a command, without importing what it does not need: from a cache of a minute, or asked in time."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.kit.files.atomic import read_json, write_atomic
from leasehold.lifecycle.home.home import Home

if TYPE_CHECKING:
    from .look import Told

# The variables that may hold a landlord's key; a test compares them with the landlords' own entries.
KEY_VARIABLES = (
    "RUNPOD_API_KEY", "VAST_API_KEY", "VASTAI_API_KEY", "LAMBDA_API_KEY", "PAPERSPACE_API_KEY", "AUTODL_TOKEN",
)  # fmt: skip
CACHE_S = 60.0
LOOK_S = 2.0
_WATCHED = "SELECT label, state, market FROM rentals WHERE state IN ('intended', 'held') ORDER BY label"
_OPEN = "SELECT id FROM leases WHERE closed = 0 ORDER BY id"


@dataclass
class FirstLook:
    """What must be said before a command; begun early, so that its own start-up hides the wait."""

    home: Home
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _stamp: list[Any] = field(default_factory=list)
    _lines: list[str] | None = None
    _answers: dict[str, Told] = field(default_factory=dict)
    _markets: list[str] = field(default_factory=list)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Read the cache, or start asking; a home that knows no landlord pays one query."""
        self._stamp = self._now()
        if not any(self._stamp):
            self._lines = []
            return
        kept = read_json(str(self._path))
        if isinstance(kept, dict) and kept.get("of") == json.loads(json.dumps(self._stamp)):
            age_s = time.time() - float(kept.get("read_unix") or 0.0)
            if 0 <= age_s < CACHE_S and isinstance(kept.get("lines"), list):
                self._lines = [str(line) for line in kept["lines"]]
                return
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """Return what bills without a lease, and who did not answer; wait for two seconds at most."""
        if self._lines is not None or self._thread is None:
            return self._lines or []
        self._thread.join(LOOK_S)
        if self._thread.is_alive() or (self._markets and not self._answers):
            names = ", ".join(self._markets) or "the landlords"
            return [
                f"what {names} bills is unknown: no answer within {LOOK_S:.0f} s. lease landlord sweep waits longer"
            ]
        return self._told()

    def _told(self) -> list[str]:
        """Carry the answers into the ledger, in the thread that owns it, and keep what is to be said."""
        from .desk import Desk
        from .look import carry_in, say_look
        from .markets import opener

        notes: list[str] = []
        look = carry_in(Desk(self.home, opener(self.home), lambda note: notes.append(note.text)), self._answers)
        said = [*notes, *say_look(look, time.time())]
        if not look.unknown:
            kept = {"of": self._now(), "read_unix": time.time(), "lines": say_look(look, time.time())}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(str(self._path), json.dumps(kept).encode(), durable=False)
        return said

    def _ask(self) -> None:
        """Ask in a thread; it reads keys and the network and never touches the ledger."""
        from leasehold.platforms.landlords.markets import Patience

        from .desk import Desk
        from .look import ask_all
        from .markets import opener, with_key

        held = {market for _, _, market in self._stamp[0]}
        self._markets = sorted({*held, *with_key(self.home, self.environ)})
        open_market = opener(self.home, Patience(timeout_s=LOOK_S, tries=1, pauses_s=0.0), self.environ)
        self._answers = ask_all(Desk(self.home, open_market), self._markets, LOOK_S, accounts=True)

    def _now(self) -> list[Any]:
        """Return all on which a cached look depends: rentals, open leases of rentals, and where keys may be."""
        rows = self.home.ledger.query(_WATCHED) if (self.home.path / "ledger.sqlite").exists() else []
        leases = [str(id) for (id,) in self.home.ledger.query(_OPEN)] if rows else []
        keys = [name for name in KEY_VARIABLES if self.environ.get(name)]
        return [[list(row) for row in rows], leases, keys, self._logins()]

    def _logins(self) -> list[str]:
        found: set[str] = set()
        for folder in (self.home.path / "landlord-keys", logins(self.home)):
            with contextlib.suppress(OSError):
                found.update(os.listdir(folder))
        return sorted(found)

    @property
    def _path(self) -> Path:
        return self.home.path / "cache" / "landlords.json"


def logins(home: Home) -> Path:
    """Return the folder with an empty file for each landlord whose key this home keeps, wherever that is."""
    return home.path / "rent" / "logins"


def forget_look(home: Home) -> None:
    """Drop the cached look: something was rented, adopted or given up."""
    (home.path / "cache" / "landlords.json").unlink(missing_ok=True)
