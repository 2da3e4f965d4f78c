"""The verb that moves a run to another box."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.lifecycle.home.home import Home

if TYPE_CHECKING:
    from leasehold.lifecycle.move.moving import Moving
    from leasehold.lifecycle.records.orders import MoveOrder, RunOrder, RunOutcome
    from leasehold.model.run.note import Report

_BY_PERSON = "a person says on a terminal that a silent box is gone; or close its lease: lease down BOX --stopped"


def move(home: Home, order: MoveOrder, report: Report) -> RunOutcome:
    """Move a run to another box with its newest state, and follow it there; the identical call continues."""
    from leasehold.lifecycle.machine.box import find_box
    from leasehold.lifecycle.move.move_run import move_run

    if order.platform or order.to.startswith("ssh:"):
        from leasehold.lifecycle.box.platform_choice import settle

        settle(home, order.to, order.platform, report)
    return move_run(home, order, find_box(home, order.to, root=order.root), _ask, report)


def rehearse(home: Home, order: MoveOrder, report: Report) -> dict[str, Any]:
    """Return what a move would resume from and lose; every byte of that state is read, nothing is changed."""
    from leasehold.lifecycle.machine.box import find_box
    from leasehold.lifecycle.move.rehearse import rehearse as walk

    return walk(home, order, find_box(home, order.to, root=order.root), _moving(), report)


def bringing(order: RunOrder) -> RunOrder:
    """Return the order of `lease run` with what fetches the run's work from the boxes where it was before."""
    return order if order.bring is not None else replace(order, bring=_moving())


def _moving() -> Moving:
    from leasehold.lifecycle.move.moving import Moving

    return Moving(_ask)


def _ask(question: str) -> str:
    from leasehold.lifecycle.approval.phrase import terminal_ask

    return terminal_ask(question, _BY_PERSON)
