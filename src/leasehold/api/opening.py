"""This person's home folder, and what every command reports before and after its own work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from leasehold.errors import LeaseholdError, UserError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home

if TYPE_CHECKING:
    from leasehold.lifecycle.money.idle_leases import AnyNag
    from leasehold.lifecycle.rentals.first_look import FirstLook


def open_home() -> Home:
    """Return this person's home."""
    return Home.find()


def close_home(home: Home) -> str:
    """Make the home folder private to this person; report what was or must be done about it."""
    from leasehold.lifecycle.home.private_home import close

    return close(home.path)


def patient_home(wait_s: float | None, tell: Callable[[str], None], *, bulk: bool) -> Home:
    """Return this person's home for a command that limits its wait for a silent box and reports it.

    None takes the default limits. Bulk: the box reads much before it answers.
    """
    from leasehold.transport.patience import WaitLimits

    if wait_s is not None and not 0 < wait_s < float("inf"):
        raise UserError("usage", f"--wait: {wait_s:g} is not a number of seconds", hint="--wait 60")
    return replace(Home.find(), limits=WaitLimits.of_command(wait_s, tell, bulk=bulk))


def nags(home: Home) -> list[AnyNag]:
    """Report boxes that bill while no run is live on them; never fail, because it precedes every command."""
    from leasehold.lifecycle.money.idle_leases import nags as find

    try:
        return find(home, time.time())
    except LeaseholdError:
        return []


_LOOKS = frozenset(
    (
        "run",
        "resume",
        "watch",
        "attach",
        "logs",
        "pull",
        "stop",
        "down",
        "park",
        "status",
        "ssh",
        "exec",
        "tunnel",
        "offers",
    )
)


def first_look(home: Home, command: str) -> FirstLook | None:
    """Begin to ask what landlords bill, before a command that talks to the network; None for any other command."""
    if command not in _LOOKS and not command.startswith("box "):
        return None
    from leasehold.lifecycle.rentals.first_look import FirstLook

    look = FirstLook(home)
    try:
        look.begin()
    except LeaseholdError:  # the command itself reports what is wrong with this home
        return None
    return look


def newest_event(home: Home) -> int:
    """Return the number of the ledger's newest event; -1 where there is none yet."""
    return books.newest_event(home.ledger) if (home.path / "ledger.sqlite").exists() else -1


def reopened(home: Home, seq: int) -> list[str]:
    """Return the leases reopened after that event because their boxes answered, and runs that were stopped there."""
    if seq < 0 or not books.heard_since(home.ledger, seq):
        return []
    from leasehold.lifecycle.machine.heard_again import reopened_since
    from leasehold.lifecycle.machine.superseded import stopped_since

    return [*reopened_since(home, seq), *stopped_since(home, seq)]
