"""Requests about disks and cards; what answers them is imported only when asked, so that `serve` stays quick."""

from __future__ import annotations

from leasehold.caretaker.wire.connection import Request


def adoptable(request: Request) -> None:
    """Look for training that somebody started without us."""
    from leasehold.caretaker.attempt.find_adoptable import answer

    answer(request)


def gpu_survey(request: Request) -> None:
    """Look at the cards and at who holds them."""
    from leasehold.caretaker.gpu.card_survey import survey

    survey(request)


def end_holders(request: Request) -> None:
    """End zombies that hold a card."""
    from leasehold.caretaker.gpu.card_survey import end_holders as end

    end(request)


def disk_survey(request: Request) -> None:
    """Look at the disks and at what lies there."""
    from leasehold.caretaker.disk.disk_survey import survey

    survey(request)


def quarantine(request: Request) -> None:
    """Put targets aside, or delete them."""
    from leasehold.caretaker.disk.quarantine import take

    take(request)


def undo_quarantine(request: Request) -> None:
    """Bring back what was put aside."""
    from leasehold.caretaker.disk.quarantine import undo

    undo(request)


def empty_quarantine(request: Request) -> None:
    """Delete what was put aside."""
    from leasehold.caretaker.disk.quarantine import empty

    empty(request)


def relaunch_hooks(request: Request) -> None:
    """List, install or take away what goes on after a restart of the box."""
    from leasehold.caretaker.reboot.resume_hook import hooks

    hooks(request)
