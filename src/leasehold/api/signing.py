"""Verbs of signers: the keys that may approve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.lifecycle.home.home import Home
from leasehold.model.run.note import Report

if TYPE_CHECKING:
    from leasehold.lifecycle.tell.signers import Enrolled

_HINT = "a key is allowed by a person on a terminal; there is no other way"


def signer_list(home: Home) -> list[Enrolled]:
    """List the keys in the file of allowed signers, including unconfirmed ones."""
    from leasehold.lifecycle.tell.signers import listing

    return listing(home)


def signer_add(home: Home, key: str, name: str, options: tuple[str, ...], report: Report) -> Enrolled:
    """Enrol a public key, confirmed by a person on the terminal."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.home.home import person
    from leasehold.lifecycle.tell.signers import add

    return add(home, key, name or person(), options, lambda question: terminal_ask(question, _HINT), report)


def signer_confirm(home: Home, word: str, report: Report) -> Enrolled:
    """Confirm an existing line of the file, by a person on the terminal."""
    from leasehold.lifecycle.approval.phrase import terminal_ask
    from leasehold.lifecycle.tell.signers import confirm

    return confirm(home, word, lambda question: terminal_ask(question, _HINT), report)


def signer_remove(home: Home, word: str, report: Report) -> Enrolled:
    """Remove a key from the file."""
    from leasehold.lifecycle.tell.signers import remove

    return remove(home, word, report)
