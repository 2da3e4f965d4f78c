"""Requests about disks and cards; what answers them is imported only when asked, so that `serve` stays quick."""

from __future__ import annotations

from typing import Dict

from .serve import Operation, Request


def gpu_survey(request: Request) -> None:
    """Look at the cards and at who holds them."""
    from .gpu_survey import survey

    survey(request)


def end_holders(request: Request) -> None:
    """End zombies that hold a card."""
    from .gpu_survey import end_holders as end

    end(request)


OPERATIONS: Dict[str, Operation] = {"gpu_survey": gpu_survey, "end_holders": end_holders}
