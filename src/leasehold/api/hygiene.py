"""Verbs that keep a box clean: its cards and its disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.lifecycle.home import Home
from leasehold.model.note import Report

if TYPE_CHECKING:
    from leasehold.lifecycle.gpu import GpuReport


def gpu(home: Home, box: str, report: Report, samples: int = 5) -> GpuReport:
    """Say how healthy a box's cards are and who holds them; changes nothing."""
    from leasehold.lifecycle.gpu import survey

    return survey(home, box, report, samples)


def gpu_kill(home: Home, box: str, report: Report) -> tuple[GpuReport, list[dict[str, Any]]]:
    """End zombies that hold a card, after a typed yes."""
    from leasehold.lifecycle.approve import terminal_ask
    from leasehold.lifecycle.gpu import end_zombies

    return end_zombies(home, box, lambda question: terminal_ask(question, "end them by hand: kill PID"), report)
