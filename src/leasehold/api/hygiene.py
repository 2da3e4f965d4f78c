"""Verbs that keep a box clean: its GPUs and its disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.records.orders import DiskOrder
from leasehold.model.run.note import Report

if TYPE_CHECKING:
    from leasehold.lifecycle.care.disk import DiskReport
    from leasehold.lifecycle.care.gpu import GpuReport


def gpu(home: Home, box: str, report: Report, samples: int = 5) -> GpuReport:
    """Report the health of a box's GPUs and the processes that hold them; change nothing."""
    from leasehold.lifecycle.care.gpu import survey

    return survey(home, box, report, samples)


def gpu_kill(home: Home, box: str, report: Report) -> tuple[GpuReport, list[dict[str, Any]]]:
    """End zombie processes that hold a GPU, after a typed yes."""
    from leasehold.lifecycle.care.gpu import end_zombies

    return end_zombies(home, box, _ask, report)


def disk(home: Home, order: DiskOrder, report: Report) -> DiskReport:
    """Report what lies on a box's disks and what may be freed; change nothing."""
    from leasehold.lifecycle.care.disk import survey

    return survey(home, order, report)


def disk_picked(seen: DiskReport, order: DiskOrder) -> str:
    """Report what would be taken, why that is safe and what it costs to restore."""
    from leasehold.lifecycle.care.disk import say_picked

    return say_picked(seen, order)


def disk_free(home: Home, order: DiskOrder, report: Report) -> tuple[DiskReport, dict[str, Any]]:
    """Quarantine the cheapest targets, or delete them, after a typed yes."""
    from leasehold.lifecycle.care.disk import free

    return free(home, order, _ask, report)


def disk_undo(home: Home, box: str, stamp: str) -> dict[str, Any]:
    """Restore what a quarantine holds."""
    from leasehold.lifecycle.care.disk import undo

    return undo(home, box, stamp)


def disk_empty(home: Home, box: str, stamp: str) -> dict[str, Any]:
    """Delete what a quarantine holds, after a typed yes."""
    from leasehold.lifecycle.care.disk import empty

    return empty(home, box, stamp, _ask)


def _ask(question: str) -> str:
    from leasehold.lifecycle.approval.phrase import terminal_ask

    return terminal_ask(question, "a person must type it; --plan and --json show what would be done")
