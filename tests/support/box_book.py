"""Boxes of the book as tests add and try them: pasted like a console's command, with patience for a slow machine."""

from __future__ import annotations

import subprocess
from typing import Any, List, Optional, Tuple

from leasehold.lifecycle.box import book
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.records.orders import BoxOrder
from leasehold.model.lease.box import BoxEntry
from leasehold.model.run.note import Note, silent
from leasehold.model.run.verdict import Verdict
from leasehold.transport.flavour import Patience
from tests.support.sshd import SshBox

PATIENCE = Patience(hello_s=60, quiet_s=20, answer_s=60, terminal_s=60)


def pasted(box: SshBox, port: int = 0) -> str:
    """Spell the box as a console would."""
    place = "ssh -p %d %s@127.0.0.1" % (port or box.port, box.user)
    return "%s -i %s -L 8080:localhost:8080" % (place, box.folder / "client_key")


def add_box(home: Home, box: SshBox, name: str = "gpu1", said: Optional[List[Note]] = None, **order: Any) -> BoxEntry:
    """Add a box to the book; said collects what a person would read."""
    report = said.append if said is not None else silent
    return book.add(home, BoxOrder(**{"name": name, "pasted": pasted(box), **order}), report, PATIENCE)


def try_box(home: Home, name: str = "gpu1") -> Verdict:
    """Do what `lease box test` does."""
    return book.test(home, name, silent, PATIENCE)


def finding(verdict: Verdict, label: str) -> Tuple[str, str]:
    """Return the outcome and the words of the finding with this label."""
    found = next(found for found in verdict.findings if found.what.startswith(label + ":"))
    return found.outcome.value, found.what


def key_of(box: SshBox) -> str:
    """Say the fingerprint of the box's host key, as ssh-keygen does."""
    asked = ["ssh-keygen", "-l", "-f", str(box.folder / "host_key.pub")]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()[1]
